"""What the R package calls: plain values in, plain values out.

This is the only module that knows R exists, and it holds no physics. What crosses the border are
scalars, strings, flat lists, dictionaries of columns of equal length, byte arrays, and contiguous
NumPy arrays of float64 or int64; a missing number is NaN, never None.

Fits live here under an id (a hash of their bytes), a few at a time: R keeps the bytes and hands
them back when it wants something of a fit that is no longer here.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from scipy.linalg import solve_triangular

import partonfit as pf
from partonfit import _columns
from partonfit._bridge_operators import (  # noqa: F401 (R finds them here)
    apply_operator,
    check_operator,
    make_operator,
    operator_calls,
    operator_facts,
    value_and_grad,
    wrap_operator,
)
from partonfit._bridge_surrogates import (  # noqa: F401
    export_surrogate,
    fit_surrogate,
    is_surrogate_loaded,
    keras_text,
    load_surrogate_state,
    predict_surrogate,
    read_surrogate,
    save_surrogate,
    surrogate_handle,
)
from partonfit._bridge_training import (  # noqa: F401
    ask_for_cpu_devices,
    data_parallel,
    predict_stateless,
    train_stateless,
    write_back,
)
from partonfit._errors import SettingError, StorageError
from partonfit._fit import fit_from_bytes
from partonfit.results._storage import fit_to_files

_KEEP_FITS = 4
_fits: OrderedDict[str, Any] = OrderedDict()


def version() -> str:
    """Return the version of the core."""
    return pf.__version__


# --- fitting ---------------------------------------------------------------------------------------


def fit(
    data: Any,
    cuts: Mapping[str, Any] | None,
    theory: str,
    *,
    model: Mapping[str, Any] | None,
    replicas: int,
    seed: int | None,
    t0: Any,
    control: Mapping[str, Any],
    constraints: Any = None,
    callbacks: Sequence[Any] | None = None,
    checkpoint: str | None = None,
    resume: bool = False,
    devices: int | None = None,
    progress: Callable[[int, int, dict[str, float]], Any] | None = None,
) -> dict[str, Any]:
    """Fit and return everything the R object holds.

    Parameters
    ----------
    data, cuts
        As :func:`partonfit.load_data` takes them.
    theory
        A name or a folder.
    model
        Arguments of :func:`partonfit.pdf_model`, or ``None`` for its defaults.
    replicas, seed, t0, checkpoint, resume, devices
        As in :func:`partonfit.fit_pdf`; ``t0`` may be ``{"fit": id}``.
    constraints
        ``None``, ``"nnpdf40"``, or ``{"entries": ..., "cuts": ...}``, arguments of
        :func:`partonfit.load_constraints`.
    callbacks
        Functions (step, total, metrics), and paths of CSV files.
    control
        Arguments of :func:`partonfit.fit_control`.
    progress
        Called with (step, total, metrics), metrics being plain floats.

    Returns
    -------
    dict
        ``id``, ``state`` (bytes), ``settings`` and ``provenance`` (JSON), scalars, and tables as
        dictionaries of columns.
    """
    settings = pf.fit_control(**control)
    network = None if model is None else pf.pdf_model(**_model_settings(model), precision=settings.precision)
    result = pf.fit_pdf(
        pf.load_data(data, **(cuts or {})),
        theory,
        model=network,
        replicas=replicas,
        seed=seed,
        t0=_pdf_of(t0),
        constraints=_constraints_of(constraints),
        control=settings,
        callbacks=[pf.CSVLogger(c) if isinstance(c, str) else _plain_progress(c) for c in callbacks or ()],
        checkpoint=checkpoint,
        resume=resume,
        devices=devices,
        progress=_plain_progress(progress),
    )
    return _kept(result) | {"callback_error": result.provenance.get("callback_error", "")}


def postfit(name: str, sigmas: float, integrability: float, positivity: float | None) -> dict[str, Any]:
    """Decide anew which replicas of a fit are kept; everything of the new fit as from :func:`fit`."""
    return _kept(pf.postfit(_recall(name), sigmas=sigmas, integrability=integrability, positivity=positivity))


def _kept(result: Any) -> dict[str, Any]:
    state = _to_bytes(result)
    name = hashlib.sha256(state).hexdigest()
    _remember(name, result)
    return {"id": name, "state": bytearray(state), "seed": int(result.settings["seed"]), **describe(result)}


def _constraints_of(constraints: Any) -> Any:
    return pf.load_constraints(**constraints) if isinstance(constraints, Mapping) else constraints


def chi2(
    data: Any,
    cuts: Mapping[str, Any] | None,
    theory: str,
    pdf: Any,
    covariance: str,
    t0: Any,
) -> dict[str, Any]:
    """Return the columns ``dataset``, ``n_data``, ``chi2`` of a PDF, the total last.

    ``pdf`` and ``t0`` are a name, ``{"fit": id}``, or a function of R's from x (x,) to x f (14, x).
    """
    table = pf.chi2(
        pf.load_data(data, **(cuts or {})), pf.load_theory(theory), _pdf_of(pdf), covariance=covariance, t0=_pdf_of(t0)
    )
    return {
        "dataset": [*table.dataset, "Total"],
        "n_data": _columns.column([*table.n_data, sum(table.n_data)], "whole"),
        "chi2": _columns.column([*table.chi2, table.total], "number"),
    }


def describe(result: Any) -> dict[str, Any]:
    """Return the plain tables of a fit (see :func:`fit`)."""
    some = bool(result.kept.any())
    predictions = np.asarray(result.predictions(), dtype=float) if some else np.empty((0, len(result.data.values)))
    return {
        "q0": float(result.q0),
        "interrupted": any(s.status == "interrupted" for s in result.statuses),
        "settings": json.dumps(result.settings, default=str),
        "provenance": json.dumps(result.provenance, default=str),
        "summary": _columns.summary(result, predictions),
        "replicas": _columns.replicas(result),
        "chi2": _columns.chi2_by_dataset(result),
        "pdfs": _columns.pdfs(result),
        "points": _columns.points(result, predictions),
        "history": _columns.history(result),
        "timings": _columns.timings(result.provenance.get("seconds", {})),
    }


def _pdf_of(pdf: Any) -> Any:
    if isinstance(pdf, Mapping):
        return _recall(pdf["fit"])
    if callable(pdf):
        # R sees a plain vector and answers with a matrix in Fortran order.
        return lambda x: np.ascontiguousarray(pdf(np.ascontiguousarray(x, dtype=float)), dtype=float)
    return pdf


def _model_settings(model: Mapping[str, Any]) -> dict[str, Any]:
    return {**model, "nodes": tuple(int(n) for n in model["nodes"])}


def _plain_progress(callback: Callable[..., Any] | None) -> Callable[..., None] | None:
    if callback is None:
        return None

    def report(step: int, total: int, metrics: Mapping[str, Any]) -> None:
        callback(int(step), int(total), {name: float(value) for name, value in metrics.items()})

    return report


# --- fits that come back ---------------------------------------------------------------------------


def _to_bytes(result: Any) -> bytes:
    """Return the files of a fit as one zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in sorted(fit_to_files(result).items()):
            # A fixed date keeps the archive free of the time of day.
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)
    return buffer.getvalue()


def _from_bytes(state: bytes) -> Any:
    try:
        with zipfile.ZipFile(io.BytesIO(state)) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
    except zipfile.BadZipFile as error:
        msg = "The stored state of this fit is damaged: it is no archive. Load the fit from another copy."
        raise StorageError(msg) from error
    return fit_from_bytes(files)


def is_loaded(name: str) -> bool:
    """Say whether the fit with this id is in memory."""
    return name in _fits


def load(name: str, state: bytes | bytearray) -> None:
    """Rebuild a fit from its bytes and keep it under its id."""
    _remember(name, _from_bytes(bytes(state)))


def _remember(name: str, result: Any) -> None:
    _fits[name] = result
    _fits.move_to_end(name)
    while len(_fits) > _KEEP_FITS:
        _fits.popitem(last=False)


_SET = "lhapdf:"


def read_lhapdf(folder: str) -> dict[str, Any]:
    """Read an LHAPDF set, keep it like a fit, and return its ``id`` and facts."""
    known = pf.read_lhapdf(folder)
    _remember(_SET + folder, known)
    return {
        "id": _SET + folder,
        "name": str(known.name),
        "members": int(known.info.get("NumMembers", 1)),
        "error_type": str(known.error_type),
        "q0": float(known.q0),
    }


def _recall(name: str) -> Any:
    if name not in _fits and name.startswith(_SET):
        _remember(name, pf.read_lhapdf(name.removeprefix(_SET)))
    if name not in _fits:
        msg = f"The fit {name[:12]} is not loaded. Call load() with its bytes first."
        raise StorageError(msg)
    _fits.move_to_end(name)
    return _fits[name]


# --- what can be asked of a fit --------------------------------------------------------------------


def predict(
    name: str,
    x: Sequence[float] | np.ndarray,
    q: Sequence[float] | np.ndarray,
    flavour: Sequence[str],
    kind: str = "interval",
) -> dict[str, Any]:
    """Return x f(x, Q) for rows of (x, Q [GeV], flavour).

    Parameters
    ----------
    name
        Id of a fit that is loaded.
    x, q, flavour
        Columns of equal length (row,).
    kind
        ``"interval"`` for the columns ``mean``, ``sd``, ``lower``, ``upper``, each (row,);
        ``"replicas"`` for the matrix ``replicas`` (row, kept replica).
    """
    result = _recall(name)
    x, q, names = np.asarray(x, dtype=float), np.asarray(q, dtype=float), np.asarray(flavour, dtype=str)
    if not x.shape == q.shape == names.shape:
        msg = f"x, Q and flavour must have equal lengths, not {x.size}, {q.size} and {names.size}."
        raise SettingError(msg)
    fields = ("replicas",) if kind == "replicas" else ("mean", "sd", "lower", "upper")
    out: dict[str, np.ndarray] = {}
    for scale in np.unique(q):
        rows = np.flatnonzero(q == scale)
        points, at = np.unique(x[rows], return_inverse=True)
        flavours, which = np.unique(names[rows], return_inverse=True)
        answer = result.predict(points, flavour=[str(f) for f in flavours], Q=float(scale))
        for field in fields:
            values = np.asarray(getattr(answer, field), dtype=float)
            values = values.reshape(-1, len(flavours), len(points))[:, which, at]
            out.setdefault(field, np.empty((x.size, len(values))))[rows] = values.T
    return {field: np.ascontiguousarray(v if kind == "replicas" else v[:, 0]) for field, v in out.items()}


def whiten(name: str, values: np.ndarray, covariance: str, inverse: bool) -> np.ndarray:
    """Return L^-1 values (data, column), L L^T being the covariance of the data; L values if ``inverse``."""
    factor = _cholesky(_recall(name), covariance)
    values = np.asarray(values, dtype=float)
    return np.ascontiguousarray(factor @ values if inverse else solve_triangular(factor, values, lower=True))


def log_determinant(name: str, covariance: str) -> float:
    """Return the logarithm of the determinant of the covariance of the data."""
    return float(2 * np.log(np.diag(_cholesky(_recall(name), covariance))).sum())


def _cholesky(result: Any, covariance: str) -> np.ndarray:
    t0 = result.provenance.get("t0_predictions") if covariance == "t0" else None
    if covariance == "t0" and t0 is None:
        msg = "This fit used the experimental covariance, so it has no t0 predictions."
        raise SettingError(msg)
    return result.data.cholesky(result.data.covariance(None if t0 is None else np.asarray(t0)))


def weights(name: str) -> dict[str, Any]:
    """Return the trained ``values`` (kept replica, weight) and the ``names`` (weight,)."""
    result = _recall(name)
    model = keras.saving.deserialize_keras_object(json.loads(result.weights.model), safe_mode=True)
    names: list[str] = []
    for variable in model.trainable_variables:
        size = int(np.prod(variable.shape)) if len(variable.shape) else 1
        names += [f"{variable.path}[{i}]" for i in range(1, size + 1)]
    kept = np.flatnonzero(result.kept)
    leaves = [np.asarray(leaf, dtype=float)[kept].reshape(len(kept), -1) for leaf in result.weights.trainable]
    return {"names": names, "values": np.ascontiguousarray(np.concatenate(leaves, axis=1))}


def write_lhapdf(name: str, folder: str) -> str:
    """Write the fit as an LHAPDF set into ``folder`` and return the folder."""
    return str(_recall(name).write_lhapdf(folder) or folder)


def report(name: str, file: str) -> str:
    """Write the HTML report of the fit and return its path."""
    return str(_recall(name).report(file) or file)


# --- the state of the installation -----------------------------------------------------------------

_LIBRARIES = (
    "jax",
    "jaxlib",
    "keras",
    "numpy",
    "scipy",
    "pineappl",
    "eko",
    "nnpdf-data",
    "matplotlib",
    "jinja2",
)


def sitrep() -> dict[str, Any]:
    """Return versions, paths and devices as plain values; a library that is missing reads ``""``."""
    from importlib import metadata

    def installed(library: str) -> str:
        try:
            return metadata.version(library)
        except metadata.PackageNotFoundError:
            return ""

    import jax
    import keras

    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "core": pf.__version__,
        "core_path": str(Path(pf.__file__).parent),
        "keras_backend": keras.backend.backend(),
        "devices": [f"{d.platform}:{d.id} ({d.device_kind})" for d in jax.devices()],
        "library": list(_LIBRARIES),
        "version": [installed(library) for library in _LIBRARIES],
    }
