"""What the R package calls: plain values in, plain values out.

This is the only module that knows R exists, and it holds no physics. What crosses the border are
scalars, strings, flat lists, dictionaries of columns of equal length, byte arrays, and contiguous
NumPy arrays of float64 or int64; a missing number is NaN, never None.

Fits live in :mod:`partonfit._bridge_fits` under an id, a few at a time.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from scipy.linalg import solve_triangular

import partonfit as pf
from partonfit import _columns
from partonfit._bridge_fits import (  # noqa: F401 (R finds them here)
    archive,
    constraints_of,
    data_of,
    is_loaded,
    load,
    pdf_of,
    plain_progress,
    read_lhapdf,
    recall,
    remember,
)
from partonfit._bridge_gradients import (  # noqa: F401
    call_model,
    draw,
    fold_in,
    jax_key,
    key_of,
    model_slopes,
    model_weights,
    pdf_slopes,
    prediction_slopes,
    split_key,
    value_and_grad,
)
from partonfit._bridge_keras import callbacks_of, keras_object, keras_text, keras_widths  # noqa: F401
from partonfit._bridge_operators import (  # noqa: F401 (R finds them here)
    apply_operator,
    check_operator,
    make_operator,
    operator_calls,
    operator_facts,
    wrap_operator,
)
from partonfit._bridge_studies import closure_test as _closure_test
from partonfit._bridge_studies import (  # noqa: F401
    compare,
    fit_state,
    read_closure,
    report_comparison,
    save_closure,
)
from partonfit._bridge_surrogates import (  # noqa: F401
    export_surrogate,
    fit_surrogate,
    is_surrogate_loaded,
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
from partonfit._errors import SettingError
from partonfit.results._storage import fit_to_files


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
    operator: Any = None,
    grid: Any = None,
    progress: Callable[[int, int, dict[str, float]], Any] | None = None,
) -> dict[str, Any]:
    """Fit and return everything the R object holds.

    Parameters
    ----------
    data, cuts
        As :func:`partonfit._bridge_fits.data_of` takes them.
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
        Functions (step, total, metrics), Keras callbacks, and paths of CSV files.
    operator, grid
        Handle of an operator in the place of the theory, and its grid in x.
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
    result = pf.fit_pdf(
        data_of(data, cuts),
        theory if operator is None else None,
        model=_model_of(model, settings.precision),
        replicas=replicas,
        seed=seed,
        t0=pdf_of(t0),
        constraints=constraints_of(constraints),
        control=settings,
        callbacks=callbacks_of(callbacks),
        checkpoint=checkpoint,
        resume=resume,
        devices=devices,
        operator=None if operator is None else operator.value,
        grid=None if grid is None else np.asarray(grid, dtype=float),
        progress=plain_progress(progress),
    )
    return _kept(result) | {"callback_error": result.provenance.get("callback_error", "")}


def postfit(name: str, sigmas: float, integrability: float | None, positivity: float | None) -> dict[str, Any]:
    """Decide anew which replicas of a fit are kept; everything of the new fit as from :func:`fit`."""
    return _kept(pf.postfit(recall(name), sigmas=sigmas, integrability=integrability, positivity=positivity))


def _kept(result: Any) -> dict[str, Any]:
    state = archive(fit_to_files(result))
    name = hashlib.sha256(state).hexdigest()
    remember(name, result)
    return {"id": name, "state": bytearray(state), "seed": int(result.settings["seed"]), **describe(result)}


def closure_test(*arguments: Any, model: Mapping[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """Run a closure test; see :func:`partonfit._bridge_studies.closure_test`."""
    return _closure_test(*arguments, model=lambda precision: _model_of(model, precision), **options)


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
    table = pf.chi2(data_of(data, cuts), pf.load_theory(theory), pdf_of(pdf), covariance=covariance, t0=pdf_of(t0))
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


def _model_of(model: Mapping[str, Any] | None, precision: str) -> Any:
    """Return the PDF model that R describes, ``None`` for the default."""
    if model is None:
        return None
    settings = {name: value for name, value in model.items() if value is not None}
    settings["nodes"] = tuple(int(n) for n in settings["nodes"])
    if "network" in settings:
        settings["network"] = keras_object(settings["network"])
    for name in ("alpha", "beta"):
        if name in settings:
            settings[name] = {flavour: tuple(limits) for flavour, limits in settings[name].items()}
    return pf.pdf_model(**settings, precision=precision)


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
    result = recall(name)
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
    factor = _cholesky(recall(name), covariance)
    values = np.asarray(values, dtype=float)
    return np.ascontiguousarray(factor @ values if inverse else solve_triangular(factor, values, lower=True))


def log_determinant(name: str, covariance: str) -> float:
    """Return the logarithm of the determinant of the covariance of the data."""
    return float(2 * np.log(np.diag(_cholesky(recall(name), covariance))).sum())


def _cholesky(result: Any, covariance: str) -> np.ndarray:
    t0 = result.provenance.get("t0_predictions") if covariance == "t0" else None
    if covariance == "t0" and t0 is None:
        msg = "This fit used the experimental covariance, so it has no t0 predictions."
        raise SettingError(msg)
    return result.data.cholesky(result.data.covariance(None if t0 is None else np.asarray(t0)))


def _steady_paths(model: Any, variables: Any) -> list[str]:
    # Keras counts the names it makes through the whole session (dense_7): here they are counted
    # within the model, so that the same fit has the same names whatever was fitted before it.
    kinds, waiting = set(), [model]
    while waiting:
        layer = waiting.pop()
        kinds.add(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(layer).__name__).lower())
        waiting += getattr(layer, "layers", [])
    new: dict[str, str] = {}
    counts: dict[str, int] = {}

    def steady(part: str) -> str:
        kind = re.sub(r"_[0-9]+$", "", part)
        if kind not in kinds:
            return part
        if part not in new:
            count = counts[kind] = counts.get(kind, -1) + 1
            new[part] = f"{kind}_{count}" if count else kind
        return new[part]

    return ["/".join(steady(part) for part in variable.path.split("/")) for variable in variables]


def weights(name: str) -> dict[str, Any]:
    """Return the trained ``values`` (kept replica, weight) and the ``names`` (weight,)."""
    result = recall(name)
    model = keras.saving.deserialize_keras_object(json.loads(result.weights.model), safe_mode=True)
    names: list[str] = []
    variables = model.trainable_variables
    for path, variable in zip(_steady_paths(model, variables), variables, strict=True):
        size = int(np.prod(variable.shape)) if len(variable.shape) else 1
        names += [f"{path}[{i}]" for i in range(1, size + 1)]
    kept = np.flatnonzero(result.kept)
    leaves = [np.asarray(leaf, dtype=float)[kept].reshape(len(kept), -1) for leaf in result.weights.trainable]
    return {"names": names, "values": np.ascontiguousarray(np.concatenate(leaves, axis=1))}


def write_lhapdf(name: str, folder: str) -> str:
    """Write the fit as an LHAPDF set into ``folder`` and return the folder."""
    return str(recall(name).write_lhapdf(folder) or folder)


def report(name: str, file: str) -> str:
    """Write the HTML report of the fit and return its path."""
    return str(recall(name).report(file) or file)


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
