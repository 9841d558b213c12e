"""The figures of merit of a fit: chi2 of the mean and of the replicas, phi, training lengths, sum rules."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from partonfit._vocabulary import EVOLUTION

Interval = tuple[float, float]
"""Mean and standard deviation over replicas (the latter 0 for one replica)."""

_RULES = (
    ("momentum", "∫ x (Σ + g) dx", ("Sigma", "g"), False, 1.0),
    ("V", "∫ V dx", ("V",), True, 3.0),
    ("V3", "∫ V3 dx", ("V3",), True, 1.0),
    ("V8", "∫ V8 dx", ("V8",), True, 3.0),
)
_X_LOWEST = 1e-9


@dataclass(frozen=True)
class SumRule:
    """One sum rule over the kept replicas: what it should be, its mean and standard deviation."""

    name: str
    integral: str
    expected: float
    mean: float
    sd: float


@dataclass(frozen=True)
class ConstraintLoss:
    """Penalty of one positivity or integrability observable over the kept replicas: largest and mean."""

    name: str
    kind: str
    n_data: int
    largest: float
    mean: float


@dataclass(frozen=True)
class FitSummary:
    """What a physicist looks at first; chi2 values are per point unless they say otherwise.

    Attributes
    ----------
    n_data, n_datasets, n_replicas, n_kept
        Counts.
    chi2_central, chi2_central_t0
        chi2 of the central member with the experimental and with the t0 covariance (``None`` for a
        fit without t0).
    chi2_replicas
        chi2 of the kept replicas to the measured data, experimental covariance: mean and sd.
    phi
        sqrt(<chi2> - chi2 of the mean), both per point: the spread of the replicas in data space in
        units of the experimental uncertainty (arXiv:1410.8849, eq. 4.6).
    training, validation
        chi2 of the kept replicas to their own pseudodata, at their best epochs: mean and sd.
    best_epoch
        Epoch of the best weights of the kept replicas: mean and sd.
    statuses
        Number of replicas by status.
    constraints
        Penalty of each positivity and integrability observable, with the multipliers of the best epochs
        and the whole tables.
    """

    n_data: int
    n_datasets: int
    n_replicas: int
    n_kept: int
    chi2_central: float
    chi2_central_t0: float | None
    chi2_replicas: Interval
    phi: float
    training: Interval
    validation: Interval
    best_epoch: Interval
    statuses: dict[str, int]
    constraints: tuple[ConstraintLoss, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def summarise(fit: Any) -> FitSummary:
    """Return the figures of merit of ``fit``.

    Examples
    --------
    >>> import partonfit as pf  # doctest: +SKIP
    >>> summarise(pf.fit_pdf("hera", replicas=10, seed=1)).n_data  # doctest: +SKIP
    1145
    """
    kept = [s for s, keep in zip(fit.statuses, fit.kept, strict=True) if keep]
    replicas = replica_chi2(fit) / fit.data.n_data
    central = fit.chi2("experimental")
    chi2_central = central.total / fit.data.n_data
    counts: dict[str, int] = {}
    for status in fit.statuses:
        counts[status.status] = counts.get(status.status, 0) + 1
    return FitSummary(
        n_data=fit.data.n_data,
        n_datasets=len(fit.data.datasets),
        n_replicas=fit.n_replicas,
        n_kept=len(kept),
        chi2_central=chi2_central,
        chi2_central_t0=fit.chi2("t0").total / fit.data.n_data if fit.has_t0 else None,
        chi2_replicas=_interval(replicas),
        # The difference of two nearly equal numbers may round below zero.
        phi=float(np.sqrt(max(0.0, replicas.mean() - chi2_central))) if len(replicas) > 1 else 0.0,
        training=_interval([s.training for s in kept]),
        validation=_interval([s.validation for s in kept]),
        best_epoch=_interval([s.best_epoch for s in kept]),
        statuses=counts,
        constraints=constraint_losses(fit),
    )


def constraint_losses(fit: Any) -> tuple[ConstraintLoss, ...]:
    """Return the penalty of every constraint of ``fit``; empty for a fit without."""
    losses = getattr(fit, "constraint_losses", None)
    if losses is None:
        return ()
    kept = losses[np.asarray(fit.kept)]
    nothing = not len(kept)
    return tuple(
        ConstraintLoss(
            name=entry["dataset"], kind=entry["kind"], n_data=entry["n_data"],
            largest=float("nan") if nothing else float(column.max()),
            mean=float("nan") if nothing else float(column.mean()),
        )
        for entry, column in zip(fit.settings["constraints"], kept.T, strict=True)
    )  # fmt: skip


def replica_chi2(fit: Any) -> np.ndarray:
    """Return the chi2 (replica,) of each kept replica to the measured data, experimental covariance."""
    residuals = np.asarray(fit.predictions()) - fit.data.values
    factor = cho_factor(fit.data.covariance(), lower=True)
    return np.einsum("rd,dr->r", residuals, cho_solve(factor, residuals.T))


def sum_rules(fit: Any) -> tuple[SumRule, ...]:
    """Return momentum and valence integrals of the kept replicas from 1e-9 to 1.

    Gauss-Legendre in log x below 0.1 and in x above, 80 nodes each: not the rule that the model
    was normalised with, so this is a check of it.
    """
    x, weights = _nodes()
    xf = np.asarray(fit.xf(x))
    found = []
    for name, integral, parts, number, expected in _RULES:
        values = sum(xf[:, EVOLUTION.index(part)] for part in parts)
        mean, sd = _interval(values @ (weights / x if number else weights))
        found.append(SumRule(name, integral, expected, mean, sd))
    return tuple(found)


def _nodes(n: int = 80, middle: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    points, weights = np.polynomial.legendre.leggauss(n)
    half = 0.5 * np.log(middle / _X_LOWEST)
    low = np.exp(np.log(_X_LOWEST) + half * (points + 1))
    high = middle + 0.5 * (1 - middle) * (points + 1)
    return np.concatenate([low, high]), np.concatenate([half * weights * low, 0.5 * (1 - middle) * weights])


def _interval(values: Any) -> Interval:
    array = np.asarray(values, dtype=float)
    array = array[np.isfinite(array)]
    if array.size == 0:
        return float("nan"), float("nan")
    return float(array.mean()), float(array.std(ddof=1)) if array.size > 1 else 0.0
