"""One dataset as published, before cuts: plain arrays plus a description, storable as one .npz file."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from partonfit._errors import DataError

FORMAT = 1
"""Version of the stored layout; part of every cache key."""

INDEPENDENT = ("UNCORR", "THEORYUNCORR")
"""Types of sources that are independent from point to point."""

WITHIN = ("CORR", "THEORYCORR")
"""Types of sources that move the points of one dataset together, and no other dataset."""


@dataclass(frozen=True, eq=False)
class Record:
    """A dataset as published.

    Attributes
    ----------
    name, variant
        Dataset name and the variants applied, in order.
    values
        Central values (data,).
    errors
        Absolute uncertainties as published (data, source), statistical first when there is one.
    error_names, treatments, types
        For each source: its name in the file, "ADD" or "MULT", and its correlation type ("UNCORR",
        "CORR", "THEORYUNCORR", "THEORYCORR", "SKIP", or the name of a source shared between datasets).
    kinematics
        Variable name to (data,) array, in the units of ``description["variables"]``.
    description
        Plain JSON: labels, units, process, tables, operation, references.
    """

    name: str
    variant: tuple[str, ...]
    values: np.ndarray
    errors: np.ndarray
    error_names: tuple[str, ...]
    treatments: tuple[str, ...]
    types: tuple[str, ...]
    kinematics: dict[str, np.ndarray]
    description: dict[str, Any] = field(repr=False)

    @property
    def n_data(self) -> int:
        """Number of points."""
        return len(self.values)

    def digest(self) -> str:
        """Return the SHA-256 of all numbers and names of the dataset."""
        header = [self.name, self.error_names, self.treatments, self.types, list(self.kinematics)]
        sha = hashlib.sha256(json.dumps(header).encode())
        for array in (self.values, self.errors, *self.kinematics.values()):
            sha.update(np.ascontiguousarray(array, dtype=np.float64).tobytes())
        return sha.hexdigest()

    def _header(self) -> dict[str, Any]:
        return {
            "error_names": self.error_names,
            "treatments": self.treatments,
            "types": self.types,
            "kinematics": list(self.kinematics),
            "description": self.description,
        }


def check_record(record: Record) -> Record:
    """Return the record after checking that every number in it is finite and the shapes agree."""
    where = f"dataset {record.name}"
    n = record.n_data
    for what, array in (("central value", record.values), ("uncertainty", record.errors)):
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            index = int(bad[0][0])
            source = f" '{record.error_names[bad[0][1]]}'" if array.ndim == 2 else ""
            msg = (
                f"The {what}{source} of {where} is not a finite number at index {index} "
                f"(of {n} points): {array[tuple(bad[0])]}. Correct the data file."
            )
            raise DataError(msg)
    if record.errors.shape != (n, len(record.error_names)):
        msg = f"Uncertainties of {where} have {record.errors.shape[0]} rows, but there are {n} points."
        raise DataError(msg)
    for name, array in record.kinematics.items():
        if array.shape != (n,):
            msg = f"The variable '{name}' of {where} has {array.shape[0]} values, but there are {n} points."
            raise DataError(msg)
    return record


def to_bytes(records: list[Record]) -> bytes:
    """Return the records as the bytes of one compressed .npz file (no pickled objects)."""
    arrays: dict[str, np.ndarray] = {}
    header: list[dict[str, Any]] = []
    for i, record in enumerate(records):
        header.append({"name": record.name, "variant": record.variant, **record._header()})
        arrays[f"{i}.values"] = record.values
        arrays[f"{i}.errors"] = record.errors
        for name, array in record.kinematics.items():
            arrays[f"{i}.kinematics.{name}"] = array
    text = json.dumps({"format": FORMAT, "records": header}, sort_keys=True)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, header=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)  # pyright: ignore[reportArgumentType]
    return buffer.getvalue()


def from_file(path: Path) -> list[Record]:
    """Read the records that :func:`to_bytes` wrote.

    Raises
    ------
    DataError
        When the file is damaged or has another layout.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            header = json.loads(stored["header"].tobytes())
            if header["format"] != FORMAT:
                raise ValueError(header["format"])
            return [_record(i, item, stored) for i, item in enumerate(header["records"])]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        msg = f"Cannot read the stored datasets in {path} ({type(error).__name__}). Delete the file."
        raise DataError(msg) from None


def _record(i: int, item: dict[str, Any], stored: Any) -> Record:
    return Record(
        name=item["name"],
        variant=tuple(item["variant"]),
        values=stored[f"{i}.values"],
        errors=stored[f"{i}.errors"],
        error_names=tuple(item["error_names"]),
        treatments=tuple(item["treatments"]),
        types=tuple(item["types"]),
        kinematics={name: stored[f"{i}.kinematics.{name}"] for name in item["kinematics"]},
        description=item["description"],
    )


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that readers see either nothing or all of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
