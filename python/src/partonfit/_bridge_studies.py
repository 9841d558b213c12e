"""What the R package calls for closure tests, comparisons of fits, and estimates of states."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

import partonfit as pf
from partonfit import _columns
from partonfit._bridge_fits import archive, constraints_of, data_of, files_of, pdf_of, plain_progress
from partonfit._bridge_keras import callbacks_of
from partonfit._bridge_operators import Handle
from partonfit.results._closure_result import closure_to_files


def table(frame: pd.DataFrame) -> dict[str, Any]:
    """Return a table of plain columns."""
    kinds = {"i": "whole", "u": "whole", "b": "flag", "f": "number"}
    return {str(name): _columns.column(frame[name], kinds.get(frame[name].dtype.kind, "text")) for name in frame}


# --- closure tests -----------------------------------------------------------------------------------


def closure_test(
    data: Any, choice: Mapping[str, Any] | None, theory: str, pdf: Any, settings: Mapping[str, Any],
    control: Mapping[str, Any], model: Callable[[str], Any], constraints: Any, callbacks: Sequence[Any] | None,
    progress: Callable[..., Any] | None,
) -> dict[str, Any]:  # fmt: skip
    """Run :func:`partonfit.closure_test` and return everything the R object holds."""
    chosen = pf.fit_control(**control)
    result = pf.closure_test(
        data_of(data, choice), pf.load_theory(theory), pdf=pdf_of(pdf), control=chosen,
        model=model(chosen.precision), constraints=constraints_of(constraints), callbacks=callbacks_of(callbacks),
        progress=plain_progress(progress), **settings,
    )  # fmt: skip
    return described_closure(result)


def read_closure(folder: str) -> dict[str, Any]:
    """Read a closure test's folder and return everything the R object holds."""
    return described_closure(pf.load_closure(folder))


def save_closure(state: bytes | bytearray, folder: str, overwrite: bool) -> str:
    """Write a closure test from its bytes to a folder that Python reads too, and return its path."""
    return str(_closure_of(state).save(folder, overwrite=overwrite))


def _closure_of(state: bytes | bytearray) -> Any:
    with TemporaryDirectory() as folder:
        for name, content in files_of(state, "closure test").items():
            (Path(folder) / name).write_bytes(content)
        return pf.load_closure(folder)


def described_closure(result: Any) -> dict[str, Any]:
    """Return a closure test as plain values and columns."""
    state = archive(closure_to_files(result))
    ratio, inside = result.faithful
    fit, replica = (part.ravel() for part in np.indices(result.kept.shape))
    return {
        "id": hashlib.sha256(state).hexdigest(),
        "state": bytearray(state),
        "settings": json.dumps(result.settings, default=str),
        "provenance": json.dumps(result.provenance, default=str),
        "seed": int(result.settings["seed"]),
        "law": str(result.settings["law"]),
        "n_fits": int(result.n_fits),
        "n_replicas": int(result.n_replicas),
        "n_data": int(result.n_data),
        "faithful_ratio": float(ratio),
        "faithful_xi": float(inside),
        "text": str(result),
        "statistics": table(result.to_dataframe()),
        "fits": table(result.fits_table()),
        "replicas": {
            "fit": np.ascontiguousarray(fit), "replica": np.ascontiguousarray(replica),
            "status": [word for words in result.statuses for word in words],
            "kept": _columns.column(result.kept.ravel(), "flag"),
        },
        "pulls": np.ascontiguousarray(result.pulls.ravel(), dtype=float),
    }  # fmt: skip


# --- two fits side by side ---------------------------------------------------------------------------


def compare(
    first: Any, second: Any, flavours: Sequence[str] | None, x: Any, q: float | None, labels: Sequence[str]
) -> dict[str, Any]:
    """Return what :func:`partonfit.compare` found, with the bands of both."""
    found = _compared(first, second, flavours, x, q, labels)
    return {
        "Q": float(found.Q),
        "labels": list(found.labels),
        "replicas": list(found.replicas),
        "text": str(found),
        "distances": table(found.to_dataframe()),
        "chi2": table(found.chi2_table()),
        "bands": _bands(found),
    }


def report_comparison(
    first: Any, second: Any, flavours: Sequence[str] | None, x: Any, q: float | None, labels: Sequence[str], file: str
) -> str:
    """Write the page of a comparison and return its path."""
    return str(_compared(first, second, flavours, x, q, labels).report(file, overwrite=True))


def _compared(
    first: Any, second: Any, flavours: Sequence[str] | None, x: Any, q: float | None, labels: Sequence[str]
) -> Any:
    names = None if flavours is None else [str(name) for name in flavours]
    other = pf.toy_pdf if second == "toy" else pdf_of(second)  # a text would be the folder of a set
    return pf.compare(pdf_of(first), other, flavours=names, x=x, Q=q, labels=(labels[0], labels[1]))


def _bands(found: Any) -> dict[str, Any]:
    """Return mean and interval of both fits, NaN for the interval of a function."""
    parts = []
    names, points = list(found.flavours), found.x
    for label, fit in zip(found.labels, found.fits, strict=True):
        frame = {"label": label, "flavour": np.repeat(names, len(points)), "x": np.tile(points, len(names))}
        if hasattr(fit, "predict"):
            values = fit.predict(points, flavour=names, Q=found.Q)
            fields = {f: np.reshape(getattr(values, f), -1) for f in ("mean", "sd", "lower", "upper")}
        else:
            from partonfit._vocabulary import rotation

            centre = (rotation(tuple(names)) @ np.asarray(fit(points), dtype=float)).ravel()
            fields = {"mean": centre} | dict.fromkeys(("sd", "lower", "upper"), np.full(len(centre), np.nan))
        parts.append(pd.DataFrame(frame | fields))
    return table(pd.concat(parts))


# --- states ------------------------------------------------------------------------------------------


def fit_state(
    handle: Handle, y: np.ndarray, noise: Any, prior_mean: np.ndarray, spread: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Run :func:`partonfit.fit_state` and return its parts as plain values."""
    # One variance stays a number: no axis is added.
    given = {name: np.array(value, dtype=float, order="C") for name, value in spread.items()}
    noise = np.array(noise, dtype=float, order="C")
    found = pf.fit_state(handle.value, y, noise, prior_mean=prior_mean, **given, **settings)
    return {
        "state": np.ascontiguousarray(found.state),
        "sd": np.ascontiguousarray(found.sd),
        "members": np.ascontiguousarray(found.members),
        "observations": np.ascontiguousarray(found.observations),
        "cost": float(found.cost),
        "chi2": float(found.chi2),
        "iterations": _columns.column(found.iterations, "whole"),
        "converged": _columns.column(found.converged, "flag"),
        "calls": {kind: int(count) for kind, count in found.calls.items()},
        "seed": int(found.seed),
    }
