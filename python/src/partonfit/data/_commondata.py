"""Reading datasets from the files of the public ``nnpdf-data`` package (the "commondata" layout).

A folder per measurement holds ``metadata.yaml`` and, per observable and variant, YAML files of
central values, kinematics and uncertainties. Parsing them takes seconds for the larger sets, so the
result is kept as plain arrays in a cache whose key is a hash of everything in the folder.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from partonfit._errors import DataError, MissingDependencyError, nearest
from partonfit.data._record import FORMAT, Record, check_record, from_file, to_bytes, write_atomically

_SPECIAL = "NNPDF_"  # positivity and integrability sets carry no measurement


def data_folders(extra: str | os.PathLike[str] | None = None) -> list[Path]:
    """Return the folders searched for datasets: the user's own first, then that of ``nnpdf-data``."""
    folders = []
    if extra is not None:
        folder = Path(extra)
        if not folder.is_dir():
            msg = f"The data folder {folder} does not exist. Give the folder that holds the dataset folders."
            raise DataError(msg)
        folders.append(folder)
    spec = importlib.util.find_spec("nnpdf_data")
    if spec is not None and spec.submodule_search_locations:
        folders.append(Path(spec.submodule_search_locations[0]) / "commondata")
    if not folders:
        msg = "Reading this dataset needs the package nnpdf-data. Install it: pip install nnpdf-data."
        raise MissingDependencyError(msg)
    return folders


def load_yaml(path: Path) -> Any:
    """Read one YAML file, with the C parser where there is one."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        msg = f"Cannot read {path}: {error.strerror}."
        raise DataError(msg) from None
    loader, parse_error = _yaml()
    try:
        return loader(text)
    except parse_error as error:
        place = getattr(error, "problem_mark", None)
        line = f" at line {place.line + 1}" if place is not None else ""
        msg = f"{path} is not valid YAML{line}: {getattr(error, 'problem', error)}."
        raise DataError(msg) from None


@cache
def _yaml() -> tuple[Any, type[Exception]]:
    try:
        import yaml
    except ImportError:
        from ruamel.yaml import YAML, YAMLError

        return YAML(typ="safe").load, YAMLError
    parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return (lambda text: yaml.load(text, Loader=parser)), yaml.YAMLError


def find_folder(name: str, folders: Sequence[Path]) -> tuple[Path, str] | None:
    """Return the folder and the observable of the dataset ``name``, or None when no folder has it."""
    setname, _, observable = name.rpartition("_")
    for folder in folders:
        if setname and (folder / setname / "metadata.yaml").is_file():
            return folder / setname, observable
    return None


def read_metadata(folder: Path, observable: str, variant: Sequence[str]) -> dict[str, Any]:
    """Return the description of one observable with its variants applied."""
    meta = _metadata(folder / "metadata.yaml", (folder / "metadata.yaml").stat().st_mtime_ns)
    name = f"{folder.name}_{observable}"
    known = {str(item["observable_name"]): item for item in meta["implemented_observables"]}
    found = {key.casefold(): key for key in known}.get(observable.casefold())
    if found is None:
        names = [f"{folder.name}_{key}" for key in known]
        msg = f"Unknown dataset '{name}'. {nearest(name, names, what='dataset')}"
        raise DataError(msg)
    result = dict(known[found])
    result["name"] = f"{folder.name}_{found}"
    result["set"] = {key: meta.get(key) or {} for key in ("arXiv", "hepdata", "nnpdf_metadata")}
    variants = result.get("variants") or {}
    for one in variant:
        if one not in variants:
            suggestion = nearest(one, variants, what="variant")
            msg = f"Dataset '{result['name']}' has no variant '{one}'. {suggestion}"
            raise DataError(msg)
        for key in ("data_uncertainties", "data_central", "theory"):
            if variants[one].get(key) is not None:
                result[key] = variants[one][key]
    return result


@cache
def _metadata(path: Path, changed: int) -> dict[str, Any]:
    return load_yaml(path)


def read_record(name: str, variant: Sequence[str] = (), *, data_dir: str | os.PathLike[str] | None = None) -> Record:
    """Return one dataset as published, from the cache when its files have not changed.

    Raises
    ------
    DataError
        When the dataset, its variant or one of its files is unknown, damaged or incomplete.
    """
    located = find_folder(name, data_folders(data_dir))
    if located is None:
        msg = f"Unknown dataset '{name}'."
        raise DataError(msg)
    folder, observable = located
    stored = _cache_path(folder, observable, variant)
    if stored is not None and stored.is_file():
        with suppress(DataError):  # a damaged cache is rebuilt
            return from_file(stored)[0]
    record = parse_record(folder, observable, variant)
    if stored is not None:
        with suppress(OSError):  # a cache that cannot be written only costs time
            write_atomically(stored, to_bytes([record]))
    return record


def parse_record(folder: Path, observable: str, variant: Sequence[str]) -> Record:
    """Parse the YAML files of one dataset."""
    meta = read_metadata(folder, observable, variant)
    name, n = meta["name"], int(meta["ndata"])
    special = folder.name.startswith(_SPECIAL)
    if not special and not meta.get("data_uncertainties"):
        choices = ", ".join(meta.get("variants") or {})
        msg = f"Dataset '{name}' has no uncertainties of its own: choose a variant ({choices})."
        raise DataError(msg)
    values = np.zeros(n) if special else _central(folder / meta["data_central"], name, n)
    sources = [] if special else [s for f in meta["data_uncertainties"] for s in _errors(folder / f, name, n)]
    record = Record(
        name=name,
        variant=tuple(variant),
        values=values,
        errors=np.stack([s[3] for s in sources], axis=1) if sources else np.zeros((n, 0)),
        error_names=tuple(s[0] for s in sources),
        treatments=tuple(s[1] for s in sources),
        types=tuple(s[2] for s in sources),
        kinematics=_kinematics(folder / meta["kinematics"]["file"], meta, n),
        description=_description(meta),
    )
    return check_record(record)


def _number(value: Any, what: str, name: str, index: int) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        msg = f"The {what} of dataset {name} at index {index} is not a number: {value!r}."
        raise DataError(msg) from None


def _rows(content: Any, key: str, path: Path, name: str, n: int) -> list[Any]:
    rows = content.get(key) if isinstance(content, dict) else None
    if not isinstance(rows, list):
        msg = f"{path} of dataset {name} has no list '{key}'."
        raise DataError(msg)
    if len(rows) != n:
        msg = f"{path.name} of dataset {name} has {len(rows)} points; its metadata promise {n}."
        raise DataError(msg)
    return rows


def _central(path: Path, name: str, n: int) -> np.ndarray:
    rows = _rows(load_yaml(path), "data_central", path, name, n)
    return np.array([_number(value, "central value", name, i) for i, value in enumerate(rows)])


def _errors(path: Path, name: str, n: int) -> list[tuple[str, str, str, np.ndarray]]:
    content = load_yaml(path)
    rows = _rows(content, "bins", path, name, n)
    definitions = content.get("definitions") or {}
    keys = _row_keys(list(definitions), rows, name)
    sources = []
    for source, definition in definitions.items():
        treatment, kind = str(definition["treatment"]), str(definition["type"])
        if treatment not in ("ADD", "MULT"):
            msg = f"Uncertainty '{source}' of dataset {name} is '{treatment}'; expected ADD or MULT."
            raise DataError(msg)
        what = f"uncertainty '{source}'"
        column = [_number(row.get(keys[source]), what, name, i) for i, row in enumerate(rows)]
        sources.append((str(source), treatment, kind, np.array(column)))
    return sources


def _row_keys(sources: list[str], rows: list[Any], name: str) -> dict[str, str]:
    """Return under which key each source stands in the rows; a few published files name them differently."""
    found = list(rows[0]) if isinstance(rows[0], dict) else []
    if len(found) != len(sources):
        msg = f"Dataset {name} defines {len(sources)} uncertainties, but its first point lists {len(found)}."
        raise DataError(msg)
    keys = sources if set(found) == set(sources) else found
    return dict(zip(sources, keys, strict=True))


def _kinematics(path: Path, meta: dict[str, Any], n: int) -> dict[str, np.ndarray]:
    name = meta["name"]
    rows = _rows(load_yaml(path), "bins", path, name, n)
    columns: dict[str, np.ndarray] = {}
    for variable in meta["kinematic_coverage"]:
        if variable.startswith("extra_"):
            continue
        column = []
        for i, row in enumerate(rows):
            limits = row.get(variable)
            if not isinstance(limits, dict):
                msg = f"Dataset {name} has no variable '{variable}' at index {i}."
                raise DataError(msg)
            if limits.get("mid") is not None:
                column.append(_number(limits["mid"], f"variable '{variable}'", name, i))
            else:
                ends = [_number(limits.get(end), f"{end} of '{variable}'", name, i) for end in ("min", "max")]
                column.append(0.5 * sum(ends))
        columns[str(variable)] = np.array(column)
    return columns


def _description(meta: dict[str, Any]) -> dict[str, Any]:
    observable, plotting = meta.get("observable") or {}, meta.get("plotting") or {}
    theory, parent = meta.get("theory") or {}, meta["set"]
    variables = (meta.get("kinematics") or {}).get("variables") or {}
    wanted = ("dataset_label", "y_label", "plot_x", "x_scale", "y_scale", "line_by", "figure_by")
    return {
        "title": str(observable.get("description") or ""),
        "label": str(observable.get("label") or plotting.get("dataset_label") or meta["name"]),
        "units": str(observable.get("units") or ""),
        "process": str(meta["process_type"]),
        "experiment": str(parent["nnpdf_metadata"].get("experiment") or meta["name"].partition("_")[0]),
        "arxiv": str(parent["arXiv"].get("url") or ""),
        "hepdata": str(parent["hepdata"].get("url") or ""),
        "plotting": {key: plotting[key] for key in wanted if plotting.get(key) is not None},
        "variables": {
            str(key): {
                "label": str(value.get("label") or key),
                "units": str(value.get("units") or ""),
                "description": str(value.get("description") or ""),
            }
            for key, value in variables.items()
        },
        "theory": {
            "operation": str(theory.get("operation") or "NULL").upper(),
            "tables": [[str(table) for table in operand] for operand in theory.get("FK_tables") or []],
            "conversion_factor": float(theory.get("conversion_factor") or 1.0),
            "normalization": {str(k): float(v) for k, v in (theory.get("normalization") or {}).items()},
            "shifts": {str(k): int(v) for k, v in (theory.get("shifts") or {}).items()},
        },
    }


def cache_folder() -> Path | None:
    """Return the cache folder (``PARTONFIT_CACHE``, else the user's cache), or None when switched off."""
    chosen = os.environ.get("PARTONFIT_CACHE")
    if chosen == "":
        return None
    if chosen is not None:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "partonfit"
    except RuntimeError:
        return None


def _cache_path(folder: Path, observable: str, variant: Sequence[str]) -> Path | None:
    base = cache_folder()
    if base is None:
        return None
    sha = hashlib.sha256(f"{FORMAT}|{observable}|{'|'.join(variant)}".encode())
    for path in sorted(folder.glob("*.yaml")):
        sha.update(path.name.encode())
        sha.update(path.read_bytes())
    return base / "datasets" / f"{folder.name}_{observable}_{sha.hexdigest()[:24]}.npz"
