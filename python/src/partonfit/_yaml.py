"""YAML as plain data: no tags, no duplicate keys, and the line of every key."""

from __future__ import annotations

from typing import Any

from partonfit._errors import SettingError

_MAX_NODES, _MAX_DEPTH = 100_000, 50
_STANDARD = "tag:yaml.org,2002:"
_ALLOWED = {_STANDARD + kind for kind in ("map", "seq", "str", "int", "float", "bool", "null", "timestamp", "merge")}

Path = tuple[str | int, ...]


def load(text: str, name: str) -> tuple[dict[str, Any], dict[Path, int]]:
    """Return the mapping in ``text`` and the line (from 1) of each of its keys and items.

    Raises
    ------
    SettingError
        When the text is not YAML, holds tags or repeated keys, or is no mapping.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}" if mark is not None else ""
        msg = f"{name}{where}: this is not valid YAML: {error.problem}."
        raise SettingError(msg) from None
    except YAMLError as error:
        msg = f"{name}: this is not valid YAML: {error}"
        raise SettingError(msg) from None
    lines: dict[Path, int] = {}
    _walk(root, (), lines, name, [0])  # before anything is constructed
    content = YAML(typ="safe", pure=True).load(text)
    if content is None:
        msg = f"{name} is empty. A card that fits the embedded HERA data is one line: data: hera"
        raise SettingError(msg)
    if not isinstance(content, dict):
        msg = f"{name}: expected keys with values, such as 'replicas: 100', not a single {type(content).__name__}."
        raise SettingError(msg)
    return content, lines


def _walk(node: Any, path: Path, lines: dict[Path, int], name: str, count: list[int]) -> None:
    """Record lines and refuse what plain data cannot hold; anchors are followed, within bounds."""
    if node is None:
        return
    count[0] += 1
    line = node.start_mark.line + 1
    if count[0] > _MAX_NODES or len(path) > _MAX_DEPTH:
        msg = f"{name}, line {line}: the card is too large or too deeply nested."
        raise SettingError(msg)
    if str(node.tag) not in _ALLOWED:
        msg = f"{name}, line {line}: the tag '{node.tag}' is not allowed; a card holds plain values only."
        raise SettingError(msg)
    lines.setdefault(path, line)
    if node.id == "mapping":
        seen: set[Any] = set()
        for key, value in node.value:
            key_line = key.start_mark.line + 1
            if key.value in seen:
                msg = f"{name}, line {key_line}: the key '{key.value}' stands twice. Keep one of them."
                raise SettingError(msg)
            seen.add(key.value)
            lines[(*path, str(key.value))] = key_line
            _walk(value, (*path, str(key.value)), lines, name, count)
    elif node.id == "sequence":
        for index, value in enumerate(node.value):
            _walk(value, (*path, index), lines, name, count)
