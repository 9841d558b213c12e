"""Which datasets exist: names, variants and former names, for look-up, suggestions and listing."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata as distributions
from pathlib import Path
from typing import Any

from partonfit._errors import DataError, nearest
from partonfit.data._commondata import (
    cache_folder,
    data_folders,
    find_folder,
    load_yaml,
    read_metadata,
    read_record,
)
from partonfit.data._record import INDEPENDENT, WITHIN, Record, from_file, write_atomically

HERA = (
    "HERA_NC_318GEV_EM-SIGMARED",
    "HERA_NC_318GEV_EP-SIGMARED",
    "HERA_NC_225GEV_EP-SIGMARED",
    "HERA_NC_251GEV_EP-SIGMARED",
    "HERA_NC_300GEV_EP-SIGMARED",
    "HERA_CC_318GEV_EM-SIGMARED",
    "HERA_CC_318GEV_EP-SIGMARED",
)
"""The inclusive HERA I+II datasets."""

FIXED_TARGET = (
    "NMC_NC_NOTFIXED_EM-F2",
    "NMC_NC_NOTFIXED_P_EM-SIGMARED",
    "SLAC_NC_NOTFIXED_P_EM-F2",
    "SLAC_NC_NOTFIXED_D_EM-F2",
    "BCDMS_NC_NOTFIXED_P_EM-F2",
    "BCDMS_NC_NOTFIXED_D_EM-F2",
)
"""Muons and electrons on protons and deuterons at rest."""

EMBEDDED = {"hera": HERA, "fixed-target": FIXED_TARGET, "dis": (*HERA, *FIXED_TARGET)}
"""Groups of datasets that travel with the package, by group name."""

VARIANTS: dict[str, tuple[str, ...]] = dict.fromkeys(FIXED_TARGET, ("legacy",))
"""Variants that stand for a dataset of a group: these have no uncertainties without one."""

_FILES = ("hera", "fixed-target")
"""Groups with a file of their own, which holds every dataset once."""

_SAME_NUMBERS = ((), ("legacy",))  # for HERA both variants hold the same numbers
_OBSERVABLE = re.compile(r"^\s*-?\s*observable_name:\s*['\"]?([^'\"\s#]+)", re.MULTILINE)


@dataclass(frozen=True)
class DatasetInfo:
    """One line of the list of known datasets.

    Attributes
    ----------
    name, label, title, process, experiment
        As in the metadata of the measurement.
    n_data
        Number of points before cuts.
    variants
        Names accepted as ``variant``.
    embedded
        Whether the numbers travel with the package.
    """

    name: str
    label: str
    title: str
    process: str
    experiment: str
    n_data: int
    variants: tuple[str, ...]
    embedded: bool


def embedded_path(group: str) -> Path:
    """Return the file that holds an embedded group."""
    return Path(__file__).parent / "embedded" / group / "datasets.npz"


@cache
def embedded_records(group: str) -> dict[str, Record]:
    """Return the embedded datasets of a group by name."""
    return {record.name: record for record in from_file(embedded_path(group))}


def find_record(name: str, variant: tuple[str, ...], data_dir: Any = None) -> Record:
    """Return a dataset as published, by its present or its former name.

    Embedded datasets come from the package's own files unless a folder of the user's own is given.

    Raises
    ------
    DataError
        When no such dataset or variant exists; the message suggests the nearest name.
    """
    if data_dir is None:
        for group in _FILES:
            same = (VARIANTS[name],) if name in VARIANTS else _SAME_NUMBERS
            if name in EMBEDDED[group] and variant in same and embedded_path(group).is_file():
                return embedded_records(group)[name]
    name, variant = present_name(name, variant, data_dir)
    return read_record(name, variant, data_dir=data_dir)


def present_name(name: str, variant: tuple[str, ...], data_dir: Any = None) -> tuple[str, tuple[str, ...]]:
    """Return the present name (and the variant that goes with a former name) of a dataset."""
    folders = data_folders(data_dir)
    if find_folder(name, folders) is not None:
        return name, variant
    former = _former_names().get(name)
    if former is None:
        suggestion = nearest(name, [*dataset_names(data_dir), *EMBEDDED], what="dataset")
        msg = f"Unknown dataset '{name}'. {suggestion} List all: partonfit data list."
        raise DataError(msg)
    new, new_variant = former
    return new, variant or new_variant


@cache
def _former_names() -> dict[str, tuple[str, tuple[str, ...]]]:
    table = data_folders()[-1] / "dataset_names.yml"
    if not table.is_file():
        return {}
    result = {}
    for old, new in load_yaml(table).items():
        if isinstance(new, str):
            result[old] = (new, ())
        else:
            result[old] = (new["dataset"], (new["variant"],) if new.get("variant") else ())
    return result


def dataset_names(data_dir: Any = None) -> tuple[str, ...]:
    """Return every known dataset name, sorted (positivity and integrability sets included)."""
    names = set()
    for folder in data_folders(data_dir):
        for path in folder.glob("*/metadata.yaml"):
            text = path.read_text(encoding="utf-8", errors="replace")
            names.update(f"{path.parent.name}_{observable}" for observable in _OBSERVABLE.findall(text))
    return tuple(sorted(names))


def list_datasets(data_dir: Any = None) -> tuple[DatasetInfo, ...]:
    """Return a line for every known dataset, sorted by name.

    The first call parses all metadata (seconds) and keeps the list in the cache folder.

    Examples
    --------
    >>> ours = [d for d in list_datasets() if d.embedded]
    >>> len(ours), sum(d.n_data for d in ours)
    (7, 1306)
    """
    embedded = {name for group in _FILES if embedded_path(group).is_file() for name in EMBEDDED[group]}
    stored = None if data_dir is not None else _list_path()
    if stored is not None and stored.is_file():
        try:
            rows = json.loads(stored.read_text(encoding="utf-8"))
            own = [{"variants": tuple(row["variants"]), "embedded": row["name"] in embedded} for row in rows]
            return tuple(DatasetInfo(**{**row, **mine}) for row, mine in zip(rows, own, strict=True))
        except (OSError, ValueError, TypeError, KeyError):
            pass  # a damaged cache is rebuilt
    found: dict[str, DatasetInfo] = {}
    for folder in data_folders(data_dir):
        for path in sorted(folder.glob("*/metadata.yaml")):
            for info in _infos(path, embedded):
                found.setdefault(info.name, info)
    result = tuple(found[name] for name in sorted(found))
    if stored is not None:
        with suppress(OSError):  # a cache that cannot be written only costs time
            write_atomically(stored, json.dumps([asdict(info) for info in result]).encode())
    return result


def _infos(path: Path, embedded: set[str]) -> list[DatasetInfo]:
    content = load_yaml(path)
    experiment = (content.get("nnpdf_metadata") or {}).get("experiment")
    rows = []
    for item in content["implemented_observables"]:
        name = f"{path.parent.name}_{item['observable_name']}"
        observable = item.get("observable") or {}
        rows.append(
            DatasetInfo(
                name=name,
                label=str(observable.get("label") or name),
                title=str(observable.get("description") or ""),
                process=str(item.get("process_type") or ""),
                experiment=str(experiment or path.parent.name.partition("_")[0]),
                n_data=int(item["ndata"]),
                variants=tuple(str(v) for v in item.get("variants") or {}),
                embedded=name in embedded,
            )
        )
    return rows


def _list_path() -> Path | None:
    base = cache_folder()
    if base is None:
        return None
    try:
        version = distributions.version("nnpdf-data")
    except distributions.PackageNotFoundError:
        return None
    return base / f"datasets-{version}.json"


def describe_dataset(name: str, variant: str | Sequence[str] | None = None, *, data_dir: Any = None) -> dict[str, Any]:
    """Return a plain dictionary that describes one dataset (or an embedded group), before cuts.

    Examples
    --------
    >>> d = describe_dataset("HERA_CC_318GEV_EM-SIGMARED")
    >>> d["n_data"], d["process"], d["tables"]
    (42, 'DIS_CC', [['HERA_CC_318GEV_EM_SIGMARED']])
    """
    if name in EMBEDDED:
        records = [find_record(one, VARIANTS.get(one, ())) for one in EMBEDDED[name]]
        return {
            "name": name,
            "n_data": sum(record.n_data for record in records),
            "datasets": {record.name: record.n_data for record in records},
        }
    variants = () if variant is None else (variant,) if isinstance(variant, str) else tuple(variant)
    name, variants = present_name(name, variants, data_dir)
    located = find_folder(name, data_folders(data_dir))
    assert located is not None  # present_name has just found it
    meta = read_metadata(*located, variants)
    result: dict[str, Any] = {
        "name": meta["name"],
        "variant": "+".join(variants),
        "variants": list(meta.get("variants") or {}),
        "n_data": int(meta["ndata"]),
    }
    if not meta.get("data_uncertainties") and not meta["name"].startswith("NNPDF_"):
        return result | {"note": "choose a variant: the dataset has no uncertainties of its own"}
    record = find_record(meta["name"], variants, data_dir)
    about = record.description
    shared = {t for t in record.types if t not in (*INDEPENDENT, *WITHIN, "SKIP")}
    shown = ("label", "title", "process", "experiment", "units", "arxiv", "hepdata")
    return result | {
        **{key: about[key] for key in shown},
        "operation": about["theory"]["operation"],
        "tables": about["theory"]["tables"],
        "n_uncertainties": len(record.error_names),
        "n_shared_sources": len(shared),
        "variables": {
            key: {"minimum": float(v.min()), "maximum": float(v.max()), "units": _units(about, key)}
            for key, v in record.kinematics.items()
        },
        "values": {"minimum": float(record.values.min()), "maximum": float(record.values.max())},
    }


def _units(about: dict[str, Any], variable: str) -> str:
    return about["variables"].get(variable, {}).get("units", "").strip("$")
