"""A fit on disk: one JSON file and one file of arrays; nothing in them is ever executed."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from partonfit._errors import StorageError
from partonfit._files import new_folder
from partonfit.data import Data
from partonfit.results._fit_object import PDFFit
from partonfit.results._replicas import ReplicaStatus
from partonfit.results._weights import Weights
from partonfit.theory import ForwardMap

FORMAT = 1
DESCRIPTION, ARRAYS = "fit.json", "arrays.npz"

Sources = Callable[[dict[str, Any], dict[str, Any], np.ndarray], tuple[Data, ForwardMap]]
"""``sources(settings, provenance, values)`` finds data and theory of a stored fit again."""


def fit_to_files(fit: PDFFit) -> dict[str, bytes]:
    """Return the files of a fit as bytes by name."""
    description = {
        "format": FORMAT,
        "model": fit.weights.model,
        "precision": fit.weights.precision,
        "settings": fit.settings,
        "provenance": fit.provenance,
        "statuses": [_plain(asdict(status)) for status in fit.statuses],
    }
    arrays = {f"history_{name}": values for name, values in fit.history.items()}
    arrays |= {f"trainable_{i}": values for i, values in enumerate(fit.weights.trainable)}
    arrays |= {f"non_trainable_{i}": values for i, values in enumerate(fit.weights.non_trainable)}
    arrays |= {name: getattr(fit, name) for name in ("data_values", "replica_data", "training_mask")}
    if fit.constraint_losses is not None:
        arrays["constraint_losses"] = fit.constraint_losses
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    text = json.dumps(description, indent=1, allow_nan=False)
    return {DESCRIPTION: text.encode(), ARRAYS: stream.getvalue()}


def fit_from_files(files: dict[str, bytes], sources: Sources, where: str = "this fit") -> PDFFit:
    """Rebuild a fit from the bytes of its files."""
    try:
        description = json.loads(files[DESCRIPTION])
        version = description["format"]
        if version != FORMAT:
            msg = f"{where} has format {version!r}; this version of partonfit reads format {FORMAT}."
            raise StorageError(msg)
        with np.load(io.BytesIO(files[ARRAYS]), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        settings, provenance = description["settings"], description["provenance"]
        _check_card(provenance, where)
        return PDFFit(
            weights=Weights(
                description["model"], _numbered(arrays, "trainable"), _numbered(arrays, "non_trainable"),
                description["precision"],
            ),
            statuses=tuple(ReplicaStatus(**_unplain(entry)) for entry in description["statuses"]),
            history={name: arrays[f"history_{name}"] for name in ("epoch", "training", "validation")},
            settings=settings,
            provenance=provenance,
            data_values=arrays["data_values"],
            replica_data=arrays["replica_data"],
            training_mask=arrays["training_mask"],
            sources=lambda: sources(settings, provenance, arrays["data_values"]),
            constraint_losses=arrays.get("constraint_losses"),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, zipfile.BadZipFile, EOFError) as error:
        msg = f"{where} is not a complete partonfit fit ({type(error).__name__}: {error})."
        raise StorageError(msg) from error


def save_fit(fit: PDFFit, folder: str | Path, *, overwrite: bool = False) -> Path:
    """Write ``fit`` to ``folder``, which is complete or absent afterwards."""
    with new_folder(folder, overwrite=overwrite) as work:
        for name, content in fit_to_files(fit).items():
            (work / name).write_bytes(content)
    return Path(folder)


def read_fit(folder: str | Path, sources: Sources) -> PDFFit:
    """Read the fit in ``folder``."""
    path = Path(folder).expanduser()
    if not path.is_dir():
        msg = f"There is no fit in {path}: the folder does not exist."
        raise StorageError(msg)
    files = {}
    for name in (DESCRIPTION, ARRAYS):
        if not (path / name).is_file():
            msg = f"{path} holds no fit: {name} is missing."
            raise StorageError(msg)
        files[name] = (path / name).read_bytes()
    return fit_from_files(files, sources, str(path))


def _check_card(provenance: dict[str, Any], where: str) -> None:
    """Raise :class:`StorageError` when the card of a fit is no longer the one it was made by."""
    card = provenance.get("card")
    if card is not None and hashlib.sha256(card["resolved"].encode()).hexdigest() != card["hash"]:
        msg = f"The card stored with {where} was changed after the fit: its hash is not {card['hash'][:12]}."
        raise StorageError(msg)


def _plain(entry: dict[str, Any]) -> dict[str, Any]:
    # JSON has no NaN: a loss that does not exist is stored as null.
    return {k: None if isinstance(v, float) and np.isnan(v) else v for k, v in entry.items()}


def _unplain(entry: dict[str, Any]) -> dict[str, Any]:
    return {k: float("nan") if v is None else v for k, v in entry.items()}


def _numbered(arrays: dict[str, np.ndarray], prefix: str) -> tuple[np.ndarray, ...]:
    count = sum(name.startswith(f"{prefix}_") for name in arrays)
    return tuple(arrays[f"{prefix}_{i}"] for i in range(count))
