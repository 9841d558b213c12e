"""Runcards: YAML in, typed settings out.

A card is read in three steps: its YAML is composed into nodes (no tags, no code, every key with its
line), an n3fit card is translated into our own short form, and pydantic checks that. Every problem
is reported at once, each with key and line, before anything slow is imported.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from partonfit import _yaml
from partonfit._card_settings import (
    ConstraintEntry,
    ControlSettings,
    DataEntry,
    ModelSettings,
    Number,
    Settings,
    TheoryCovarianceSettings,
)
from partonfit._errors import SettingError, StorageError, nearest


class RunSettings(Settings):
    """Everything that decides a fit: a runcard in our short form.

    Examples
    --------
    >>> settings = parse_card("replicas: 10\\ncontrol: {epochs: 500}")
    >>> settings.replicas, settings.control.epochs, settings.data
    (10, 500, 'hera')
    """

    description: str = ""
    """A line for the reader."""
    data: str | list[str | DataEntry] = "hera"
    """``hera``, or a list of datasets (a name, or a mapping with ``dataset:``)."""
    theory: str = "hera"
    """``hera``, or a folder with FK tables."""
    q2min: Annotated[float, Field(ge=0), Number] = 3.49
    """Cut: Q2 [GeV2] at least this."""
    w2min: Annotated[float, Field(ge=0), Number] = 12.5
    """Cut: W2 [GeV2] at least this."""
    cuts: dict[str, str | list[str]] = Field(default_factory=dict)
    """Conditions on the points to keep, by dataset, beyond the general cuts."""
    constraints: Literal["nnpdf40"] | list[str | ConstraintEntry] | None = None
    """``nnpdf40``, or a list of positivity and integrability observables; null: none."""
    theory_covariance: TheoryCovarianceSettings | None = None
    """Uncertainties of the theory; null: none."""
    t0: str = "toy"
    """PDF of the t0 covariance: ``toy``, or a folder with an LHAPDF set or a saved fit."""
    replicas: Annotated[int, Field(ge=1, le=100_000), Number] = 100
    """Number of replicas."""
    seed: Annotated[int | None, Field(ge=0, lt=2**31), Number] = None
    """The one seed of the fit; null: drawn, and recorded with the fit."""
    model: ModelSettings = ModelSettings()
    """The network."""
    control: ControlSettings = ControlSettings()
    """The training."""

    @property
    def hash(self) -> str:
        """SHA-256 of the resolved settings."""
        return hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode()).hexdigest()

    @property
    def entries(self) -> str | list[str | dict[str, Any]]:
        """What ``load_data()`` takes."""
        if isinstance(self.data, str):
            return self.data
        return [e if isinstance(e, str) else e.model_dump(exclude_defaults=True) for e in self.data]

    @property
    def constraint_entries(self) -> str | list[str | dict[str, Any]] | None:
        """What ``load_constraints()`` takes."""
        if self.constraints is None or isinstance(self.constraints, str):
            return self.constraints
        return [c if isinstance(c, str) else c.model_dump(exclude_none=True) for c in self.constraints]


def read_card(path: str | os.PathLike[str]) -> RunSettings:
    """Read the runcard at ``path``: our short form or an n3fit card.

    Raises
    ------
    StorageError
        When the file cannot be read.
    SettingError
        When the card has an unknown key or a bad value; every problem with its line.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        msg = f"{path} is not a text file in UTF-8."
        raise StorageError(msg) from error
    except OSError as error:
        msg = f"Cannot read the runcard {path}: {error.strerror}."
        raise StorageError(msg) from error
    return parse_card(text, name=path.name)


def parse_card(text: str, *, name: str = "the runcard") -> RunSettings:
    """Turn the text of a runcard into settings; see :func:`read_card`."""
    content, lines = _yaml.load(text, name)
    from partonfit import _n3fit_card

    origin: dict[tuple, tuple] = {}
    if _n3fit_card.is_n3fit(content):
        content, origin, problems = _n3fit_card.translate(content)
        if problems:
            raise SettingError(_report(name, [(lines.get(path), words) for path, words in problems]))
    try:
        return RunSettings.model_validate(content)
    except ValidationError as error:
        found = [_problem(e, lines, origin) for e in error.errors() if not _other_branch(e)]
        raise SettingError(_report(name, found)) from None


def card_schema() -> dict[str, Any]:
    """Return the JSON schema of our short form, for editors."""
    return RunSettings.model_json_schema()


def _report(name: str, problems: Iterable[tuple[int | None, str]]) -> str:
    unique = dict.fromkeys(sorted(problems, key=lambda p: p[0] or 0))
    return "\n".join(f"{name}, line {line}: {words}" if line else f"{name}: {words}" for line, words in unique)


def _other_branch(error: Any) -> bool:
    """Tell whether an error is about the member of a union that the user did not write."""
    kind, given = error["type"], error["input"]
    return error["loc"][:1] in (("data",), ("constraints",)) and (
        (kind == "string_type" and isinstance(given, dict | list))
        or (kind == "list_type" and not isinstance(given, dict))
        or (kind == "literal_error" and isinstance(given, list | dict) and error["loc"][:1] == ("constraints",))
        or (kind == "model_type" and not isinstance(given, list))
    )


def _problem(error: Any, lines: dict[tuple, int], origin: dict[tuple, tuple]) -> tuple[int | None, str]:
    """Turn one error of pydantic into (line, sentence)."""
    known = {whole[:n] for whole in (*lines, *origin) for n in range(1, len(whole) + 1)}
    path: tuple = ()
    for part in error["loc"]:
        # Union members appear in the location as type names; only keys and indices are wanted.
        if (*path, part) in known or (part == error["loc"][-1] and error["type"] == "missing"):
            path = (*path, part)
    shown = origin.get(path, path)
    line = lines.get(shown) or lines.get(shown[:-1])
    key = _dotted(shown)
    if error["type"] == "extra_forbidden":
        return line, f"unknown key '{key}'. {nearest(str(path[-1]), _known(path[:-1]), what='key')}"
    if error["type"] == "missing":
        return line, f"'{key}' is missing."
    if path[:1] in (("data",), ("constraints",)) and len(path) <= 2 and error["type"] in _SHAPES:
        expected = "a name or a list of datasets" if len(path) == 1 else "a name or a mapping with 'dataset:'"
        return line, f"{key}: expected {expected}, not {error['input']!r}."
    return line, f"{key or 'the card'}: {_words(error)}, not {error['input']!r}."


def _dotted(path: tuple) -> str:
    text = ""
    for part in path:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _known(path: tuple) -> list[str]:
    """Return the keys allowed under ``path``."""
    models: dict[str, type[BaseModel]] = {
        "model": ModelSettings,
        "control": ControlSettings,
        "data": DataEntry,
        "constraints": ConstraintEntry,
        "theory_covariance": TheoryCovarianceSettings,
    }
    return list((models[path[0]] if path else RunSettings).model_fields)


_SHAPES = ("string_type", "list_type", "model_type")
_WORDS = {
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "string_type": "expected text",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "list_type": "expected a list",
    "tuple_type": "expected two numbers [low, high]",
    "dict_type": "expected a mapping",
    "model_type": "expected a mapping of settings",
    "finite_number": "expected a finite number",
    "too_long": "expected two numbers [low, high]",
    "value_error": "expected a number",
}


def _words(error: Any) -> str:
    kind = error["type"]
    if kind in _WORDS:
        return _WORDS[kind].format(**error.get("ctx", {}))
    if kind.startswith("int"):
        return "expected a whole number"
    if kind.startswith("float"):
        return "expected a number"
    return str(error["msg"])


def with_changes(
    settings: RunSettings,
    *,
    replicas: int | None = None,
    seed: int | None = None,
    epochs: int | None = None,
    theory: str | None = None,
) -> RunSettings:
    """Return ``settings`` with some values replaced (``None``: not), checked like a card.

    Examples
    --------
    >>> with_changes(RunSettings(), replicas=5).replicas
    5
    """
    content = settings.model_dump()
    given = {"replicas": replicas, "seed": seed, "theory": theory}
    content |= {key: value for key, value in given.items() if value is not None}
    if epochs is not None:
        content["control"]["epochs"] = epochs
    try:
        return RunSettings.model_validate(content)
    except ValidationError as error:
        lines = dict.fromkeys([*((key,) for key in content), ("control", "epochs")], 0)
        found = [_problem(e, lines, {}) for e in error.errors() if not _other_branch(e)]
        raise SettingError(_report("settings", found)) from None


def to_yaml(settings: RunSettings, *, seed: int | None = None) -> str:
    """Return the resolved card as YAML; ``seed`` fills in the one that was drawn."""
    from io import StringIO

    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedSeq

    def flow(value: Any) -> Any:
        """Keep lists of plain values on one line."""
        if isinstance(value, dict):
            return {key: flow(item) for key, item in value.items()}
        if isinstance(value, list):
            items = CommentedSeq([flow(item) for item in value])
            if not any(isinstance(item, dict | list) for item in value):
                items.fa.set_flow_style()
            return items
        return value

    content = settings.model_dump(mode="json")
    if content["seed"] is None:
        content["seed"] = seed
    writer = YAML(typ="rt", pure=True)
    writer.width = 100
    writer.representer.add_representer(type(None), lambda r, _: r.represent_scalar("tag:yaml.org,2002:null", "null"))
    stream = StringIO()
    writer.dump(flow(content), stream)
    return stream.getvalue()


def run(settings: RunSettings, *, base: str | os.PathLike[str] = ".", progress: Any = None, **more: Any) -> Any:
    """Run the fit that ``settings`` describe and return the ``PDFFit``.

    Parameters
    ----------
    settings
        The resolved card.
    base
        Folder that relative paths in the card start from.
    progress
        ``progress(step, total, metrics)``.
    **more
        What a card does not say: ``callbacks``, ``checkpoint``, ``resume``, ``devices`` of ``fit_pdf``.
    """
    from partonfit._fit import fit_pdf

    loaded = _loaded(settings, base)
    fit = fit_pdf(
        **loaded, theory_covariance=_theory_covariance(settings, loaded, base), replicas=settings.replicas,
        seed=settings.seed, t0=known_pdf(settings.t0, base), progress=progress, **more,
    )  # fmt: skip
    card = to_yaml(settings, seed=fit.settings["seed"])
    fit.provenance["card"] = {"resolved": card, "hash": hashlib.sha256(card.encode()).hexdigest()}
    return fit


def run_closure(
    settings: RunSettings, *, pdf: str, base: str | os.PathLike[str] = ".", progress: Any = None, **more: Any
) -> Any:
    """Run the closure test of the fit that ``settings`` describe and return the ``ClosureTest``.

    Parameters
    ----------
    settings, base, progress
        As in :func:`run`; the number of replicas and t0 of the card are not used (t0 is the law).
    pdf
        The law: ``toy``, or a folder with an LHAPDF set or a saved fit.
    **more
        ``fits``, ``replicas``, ``callbacks``, ``devices`` of ``closure_test``.
    """
    from partonfit._closure import closure_test

    if settings.theory_covariance is not None:
        msg = "A closure test has no theory_covariance: its data follow the law exactly. Remove the key."
        raise SettingError(msg)
    law = known_pdf(pdf, base, key="pdf")
    return closure_test(**_loaded(settings, base), pdf=law, seed=settings.seed, progress=progress, **more)


def _loaded(settings: RunSettings, base: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a card names as arguments of a fit: data, theory, model, constraints, control."""
    from partonfit.data import load_constraints, load_data
    from partonfit.inference import fit_control
    from partonfit.models import pdf_model
    from partonfit.theory import load_theory

    control = fit_control(**settings.control.model_dump())
    wanted = settings.constraint_entries
    return {
        "data": load_data(settings.entries, q2min=settings.q2min, w2min=settings.w2min, cuts=settings.cuts or None),
        "theory": load_theory(_place(settings.theory, base)),
        "model": pdf_model(**_model_arguments(settings.model), precision=control.precision),
        "constraints": None if not wanted else load_constraints(wanted),
        "control": control,
    }


def _theory_covariance(settings: RunSettings, loaded: dict[str, Any], base: str | os.PathLike[str]) -> Any:
    wanted = settings.theory_covariance
    if wanted is None:
        return None
    from partonfit._scale_variations import of_card

    def place(name: str) -> str:
        beside = Path(base) / name
        return str(beside) if beside.exists() else name

    law = known_pdf(settings.t0 if wanted.pdf is None else wanted.pdf, base, key="theory_covariance.pdf")
    return of_card(wanted, loaded["data"], loaded["theory"], law, place)


def _model_arguments(model: ModelSettings) -> dict[str, Any]:
    return model.model_dump() | {"nodes": tuple(model.nodes)}


def _place(name: str, base: str | os.PathLike[str]) -> str:
    """Return ``name`` as a path beside the card if there is such a folder, else as it is."""
    beside = Path(base) / name
    return str(beside) if beside.is_dir() else name


def known_pdf(name: str, base: str | os.PathLike[str], *, key: str = "t0") -> Any:
    """Return the PDF that ``key`` names: a known name, a stored fit or (its central member) an LHAPDF folder."""
    if name == "toy":
        return name
    places = [
        Path(base),
        Path(base) / "lhapdf",
        *(Path(p) for p in os.environ.get("LHAPDF_DATA_PATH", "").split(os.pathsep) if p),
    ]
    for folder in (place / name for place in places):
        if (folder / "fit.json").is_file():
            from partonfit._fit import load_fit

            return load_fit(folder)
        if folder.is_dir():
            from partonfit.results._lhapdf_reader import read_lhapdf

            return read_lhapdf(folder, members=1)
    msg = (
        f"{key}: there is no PDF '{name}'. Give 'toy', a folder with an LHAPDF set or a fit (relative to the card or "
        "to 'lhapdf' beside it), or put the set's parent folder on LHAPDF_DATA_PATH."
    )
    raise SettingError(msg)
