"""The fits and sets that R holds by name, and what R's descriptions of data and PDFs stand for.

Fits live here under an id (a hash of their bytes), a few at a time: R keeps the bytes and hands them
back when it wants something of a fit that is no longer here.
"""

from __future__ import annotations

import io
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import partonfit as pf
from partonfit._errors import StorageError
from partonfit._fit import fit_from_bytes

KEEP_FITS = 4
fits: OrderedDict[str, Any] = OrderedDict()
_SET = "lhapdf:"


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return files as one zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as zipped:
        for name, content in sorted(files.items()):
            # A fixed date keeps the archive free of the time of day.
            zipped.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)
    return buffer.getvalue()


def files_of(state: bytes | bytearray, what: str = "fit") -> dict[str, bytes]:
    """Return the files of an archive, or raise :class:`StorageError`."""
    try:
        with zipfile.ZipFile(io.BytesIO(bytes(state))) as zipped:
            return {name: zipped.read(name) for name in zipped.namelist()}
    except zipfile.BadZipFile as error:
        msg = f"The stored state of this {what} is damaged: it is no archive. Load the {what} from another copy."
        raise StorageError(msg) from error


def is_loaded(name: str) -> bool:
    """Say whether the fit with this id is in memory."""
    return name in fits


def load(name: str, state: bytes | bytearray) -> None:
    """Rebuild a fit from its bytes and keep it under its id."""
    remember(name, fit_from_bytes(files_of(state)))


def remember(name: str, result: Any) -> None:
    """Keep a fit (or a set) under a name; the oldest of too many is forgotten."""
    fits[name] = result
    fits.move_to_end(name)
    while len(fits) > KEEP_FITS:
        fits.popitem(last=False)


def recall(name: str) -> Any:
    """Return what is kept under a name; LHAPDF sets are read again."""
    if name not in fits and name.startswith(_SET):
        remember(name, pf.read_lhapdf(name.removeprefix(_SET)))
    if name not in fits:
        msg = f"The fit {name[:12]} is not loaded. Call load() with its bytes first."
        raise StorageError(msg)
    fits.move_to_end(name)
    return fits[name]


def read_lhapdf(folder: str) -> dict[str, Any]:
    """Read an LHAPDF set, keep it like a fit, and return its ``id`` and facts."""
    known = pf.read_lhapdf(folder)
    remember(_SET + folder, known)
    return {
        "id": _SET + folder,
        "name": str(known.name),
        "members": int(known.info.get("NumMembers", 1)),
        "error_type": str(known.error_type),
        "q0": float(known.q0),
    }


def pdf_of(pdf: Any) -> Any:
    """Return the PDF that R names: a name, ``{"fit": id}``, or a function from x (x,) to x f (14, x)."""
    if isinstance(pdf, Mapping):
        return recall(pdf["fit"])
    if callable(pdf):
        # R sees a plain vector and answers with a matrix in Fortran order.
        return lambda x: np.ascontiguousarray(pdf(np.ascontiguousarray(x, dtype=float)), dtype=float)
    return pdf


def data_of(entries: Any, choice: Mapping[str, Any] | None) -> Any:
    """Return the data that R chose.

    ``choice`` holds cuts, arguments of :func:`partonfit.load_data`, and with ``closure`` the other
    arguments of :func:`partonfit.closure_data`.
    """
    cuts = dict(choice or {})
    closure = cuts.pop("closure", None)
    data = pf.load_data(entries, **cuts)
    if closure is None:
        return data
    law, theory = pdf_of(closure["pdf"]), pf.load_theory(closure["theory"])
    return pf.closure_data(data, theory, law, level=closure["level"], seed=closure["seed"])


def constraints_of(constraints: Any) -> Any:
    """Return ``None``, a name, or what ``{"entries": ..., "cuts": ...}`` describes."""
    return pf.load_constraints(**constraints) if isinstance(constraints, Mapping) else constraints


def plain_progress(callback: Callable[..., Any] | None) -> Callable[..., None] | None:
    """Return a function of R's as a progress function that hands over plain numbers only."""
    if callback is None:
        return None

    def report(step: int, total: int, metrics: Mapping[str, Any]) -> None:
        callback(int(step), int(total), {name: float(value) for name, value in metrics.items()})

    return report
