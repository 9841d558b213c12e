"""Where in a runcard stands what an error speaks of, for errors that only loading brings to light.

A card that is well formed may still name a dataset, a table or a PDF that is not there. Such an error knows
names, not lines: the first line of the card with one of these names is put in front of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from partonfit._errors import PartonfitError

_QUOTED = re.compile(r"'([^'\n]{2,120})'")
_NAME = re.compile(r"[A-Za-z0-9]+(?:[_\-./][A-Za-z0-9]+)+")
_KEYS = {"dataset": "data", "datasets": "data"}
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]+")


def line_of(message: str, text: str) -> int | None:
    """Return the first line (from 1) of the card ``text`` that ``message`` speaks of, ``None`` if none.

    Names in quotes come first, then names with signs in them, then words that are keys of the card.

    Examples
    --------
    >>> line_of("Unknown dataset 'HERA'. Did you mean 'hera'?", "replicas: 3\\ndata: [HERA]")
    2
    >>> line_of("t0: there is no such PDF.", "replicas: 3\\nt0: x")
    2
    """
    lines = [line.split(" #")[0] for line in text.splitlines()]
    for name in (*_QUOTED.findall(message), *_NAME.findall(message)):
        whole = re.compile(rf"(?<![A-Za-z0-9_-]){re.escape(name)}(?![A-Za-z0-9_-])")
        for number, line in enumerate(lines, 1):
            if whole.search(line):
                return number
    words = _WORD.findall(message)
    for word in (*words, *(_KEYS[word] for word in words if word in _KEYS)):
        for number, line in enumerate(lines, 1):
            if re.search(rf"(?:^|[\s{{,]){word}\s*:", line):
                return number
    return None


@contextmanager
def located(card: str | Path) -> Iterator[None]:
    """Put file and line of the card in front of an error that is raised inside (``hera`` is no file)."""
    path = Path(card)
    try:
        yield
    except PartonfitError as error:
        message = str(error)
        if not path.is_file() or message.startswith(path.name):
            raise
        line = line_of(message, path.read_text(encoding="utf-8"))
        msg = f"{path.name}{'' if line is None else f', line {line}'}: {message}"
        raise type(error)(msg) from error
