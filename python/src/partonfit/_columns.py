"""A fit as named columns: plain lists and contiguous NumPy arrays, one dictionary per table.

Whole numbers are int64, other numbers float64, a missing number is NaN; every column of a table has
the same length.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from partonfit._vocabulary import NAMES

STORED_Q = 100.0
"""The second scale [GeV], besides Q0, at which :func:`pdfs` gives the PDFs."""


def column(values: Iterable[Any], kind: str) -> Any:
    """Return a column of kind "text", "flag", "whole" or "number"."""
    if kind == "text":
        return [str(v) for v in values]
    if kind == "flag":
        return [bool(v) for v in values]
    dtype = np.int64 if kind == "whole" else np.float64
    return np.ascontiguousarray(np.fromiter(values, dtype=dtype))


def replicas(result: Any) -> dict[str, Any]:
    """Return what became of each replica."""
    statuses = result.statuses
    kinds = {
        "replica": "whole", "status": "text", "sentence": "text", "epoch": "whole",
        "best_epoch": "whole", "training": "number", "validation": "number",
    }  # fmt: skip
    columns = {name: column((getattr(s, name) for s in statuses), kind) for name, kind in kinds.items()}
    return columns | {"kept": column(result.kept, "flag")}


def chi2_by_dataset(result: Any) -> dict[str, Any]:
    """Return chi2 by dataset and in total, for each covariance the fit knows."""
    rows: list[tuple[str, str, int, float]] = []
    with_t0 = result.provenance.get("t0_predictions", True) is not None
    for covariance in ("experimental", "t0") if with_t0 else ("experimental",):
        if not result.kept.any():
            rows += [(covariance, d.name, len(d.values), np.nan) for d in result.data.datasets]
            rows.append((covariance, "Total", len(result.data.values), np.nan))
            continue
        table = result.chi2(covariance)
        each = zip(table.dataset, table.n_data, table.chi2, strict=True)
        rows += [(covariance, name, count, value) for name, count, value in each]
        rows.append((covariance, "Total", sum(table.n_data), table.total))
    covariances, names, sizes, values = zip(*rows, strict=True)
    return {
        "covariance": list(covariances),
        "dataset": list(names),
        "n_data": column(sizes, "whole"),
        "chi2": column(values, "number"),
    }


def stored_x() -> np.ndarray:
    """Return the grid (x,) on which R keeps the PDFs: logarithmic below 0.1, linear above."""
    return np.concatenate([np.geomspace(1e-5, 0.1, 61), np.linspace(0.1, 0.99, 40)[1:]])


def pdfs(result: Any) -> dict[str, Any]:
    """Return x f of every named combination at Q0 and :data:`STORED_Q` on :func:`stored_x`."""
    x, names, scales = stored_x(), list(NAMES), (float(result.q0), STORED_Q)
    each = len(names) * len(x)
    some = bool(result.kept.any())
    parts = [result.predict(x, flavour=names, Q=q) for q in scales] if some else []

    def stacked(field: str) -> np.ndarray:
        if not some:
            return np.full(each * len(scales), np.nan)
        return np.concatenate([np.asarray(getattr(p, field), dtype=float).reshape(each) for p in parts])

    return {
        "Q": np.repeat(scales, each),
        "flavour": np.repeat(names, len(x)).tolist() * len(scales),
        "x": np.tile(x, len(names) * len(scales)),
        **{field: stacked(field) for field in ("mean", "sd", "lower", "upper")},
    }


def points(result: Any, predictions: np.ndarray) -> dict[str, Any]:
    """Return data and predictions, one row per point."""
    data = result.data
    sizes = [len(d.values) for d in data.datasets]

    def kinematic(name: str) -> np.ndarray:
        missing = [np.full(n, np.nan) for n in sizes]
        columns = [d.kinematics.get(name, m) for d, m in zip(data.datasets, missing, strict=True)]
        return np.concatenate([np.asarray(c, dtype=float) for c in columns])

    return {
        "dataset": [d.name for d, n in zip(data.datasets, sizes, strict=True) for _ in range(n)],
        "point": np.concatenate([np.arange(1, n + 1, dtype=np.int64) for n in sizes]),
        "x": kinematic("x"),
        "Q2": kinematic("Q2"),
        "y": kinematic("y"),
        "value": np.asarray(data.values, dtype=float),
        "error": np.sqrt(np.diag(data.covariance())),
        "prediction": _central(result),
        "prediction_sd": _sd(predictions),
    }


def _central(result: Any) -> np.ndarray:
    """Return the predictions of the central member (data,); NaN when no replica is kept."""
    if not result.kept.any():
        return np.full(len(result.data.values), np.nan)
    return np.asarray(result.forward.predict(result(result.forward.x)), dtype=float)


def _sd(values: np.ndarray) -> np.ndarray:
    return values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1:])


def history(result: Any) -> dict[str, Any]:
    """Return chi2 per point during training, one row per replica and recorded epoch."""
    recorded = result.history
    epoch = np.asarray(recorded["epoch"], dtype=np.int64)
    training = np.asarray(recorded["training"], dtype=float).reshape(result.n_replicas, len(epoch))
    validation = np.asarray(recorded["validation"], dtype=float).reshape(result.n_replicas, len(epoch))
    lived = np.isfinite(training) | np.isfinite(validation)
    replica = np.repeat(np.arange(len(training), dtype=np.int64)[:, None], len(epoch), axis=1)
    return {
        "replica": replica[lived],
        "epoch": np.broadcast_to(epoch, training.shape)[lived],
        "training": training[lived],
        "validation": validation[lived],
    }


def timings(seconds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the seconds of each step."""
    known = {name: value for name, value in seconds.items() if isinstance(value, (int, float))}
    return {"step": list(known), "seconds": column(known.values(), "number")}


def summary(result: Any, predictions: np.ndarray) -> dict[str, float]:
    """Return phi, sqrt((<chi2 of a replica> - chi2 of the mean) / N), with the fit's covariance."""
    if len(predictions) < 2:
        return {"phi": float("nan")}
    covariance = result.data.covariance()
    spread = predictions - predictions.mean(axis=0)
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), spread.T)
    return {"phi": float(np.sqrt((whitened**2).sum(axis=0).mean() / predictions.shape[1]))}
