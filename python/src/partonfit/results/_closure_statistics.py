"""The statistics of closure tests: bias, variance, the fraction inside one sigma, their errors.

All of them are those of arXiv:2111.05787. A fit l has replicas g^(k) and their mean E[g]; the law f is
known. Residuals are whitened first: with C = L L^T the covariance of the data, L^-1 (g - f). Then

    bias_l     = |L^-1 (E[g] - f)|^2 / N
    variance_l = mean over k of |L^-1 (g^(k) - E[g])|^2 / N
    R          = sqrt(<bias> / <variance>), means over fits

and xi_1sigma is the fraction of points (or directions) where |E[g] - f| is below the standard deviation of
the replicas. For Gaussian uncertainties wrong by one factor, xi = erf(1 / (R sqrt(2))).

Finite ensembles shift the numbers even when the uncertainties are right. With K replicas a fit, the mean
scatters by 1/K of the variance and the spread of the replicas comes out low by the same part, so that
R = sqrt((K + 1) / (K - 1)) and xi = P(|t| < 1/R) with Student's t of K - 1 degrees of freedom.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import erf
from scipy.stats import t as student

RESAMPLES = 2000
"""Bootstrap samples behind an error."""


@dataclass(frozen=True)
class FitStatistics:
    """Statistics of each fit (fit,); NaN for a fit with fewer than two replicas."""

    bias: np.ndarray
    variance: np.ndarray
    inside: np.ndarray


def fit_statistics(residuals: np.ndarray, kept: np.ndarray) -> FitStatistics:
    """Return bias, variance and the fraction of columns inside one sigma, for each fit.

    Parameters
    ----------
    residuals
        (fit, replica, column): replica minus law, in units in which all columns count alike.
    kept
        (fit, replica): which replicas count.
    """
    rows = [_one_fit(values[keep]) for values, keep in zip(residuals, kept, strict=True)]
    return FitStatistics(*np.array(rows, dtype=float).reshape(-1, 3).T)


def _one_fit(values: np.ndarray) -> tuple[float, float, float]:
    if len(values) < 2:
        return np.nan, np.nan, np.nan
    shift, spread = values.mean(axis=0), values.var(axis=0)
    return float(np.mean(shift**2)), float(np.mean(spread)), float(np.mean(shift**2 < spread))


def directions(residuals: np.ndarray, kept: np.ndarray, share: float = 0.99) -> np.ndarray:
    """Return the directions (column, direction) in which the replicas of all fits vary most.

    They are eigenvectors of the replicas' covariance, averaged over fits, as many as hold ``share`` of its
    trace: in the others hardly anything varies.

    Parameters
    ----------
    residuals, kept
        As in :func:`fit_statistics`.
    """
    parts = [v[k] - v[k].mean(axis=0) for v, k in zip(residuals, kept, strict=True) if k.sum() > 1]
    if not parts:
        return np.zeros((residuals.shape[-1], 0))
    deviations = np.concatenate([part / np.sqrt(len(part)) for part in parts])
    # Of the two products of this matrix with itself the smaller one has the same eigenvalues.
    wide = deviations.shape[0] < deviations.shape[1]
    values, vectors = np.linalg.eigh(deviations @ deviations.T if wide else deviations.T @ deviations)
    values, vectors = np.maximum(values[::-1], 0), vectors[:, ::-1]
    if values[0] <= 0:
        return np.zeros((residuals.shape[-1], 0))
    count = int(np.searchsorted(np.cumsum(values), share * values.sum()) + 1)
    chosen = vectors[:, :count]
    return deviations.T @ chosen / np.sqrt(values[:count]) if wide else chosen


def ratio(bias: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return sqrt(<bias> / <variance>) over the last axis, NaN where there is no variance."""
    top, bottom = np.mean(bias, axis=-1), np.mean(variance, axis=-1)
    return np.sqrt(np.divide(top, bottom, out=np.full_like(np.asarray(bottom, dtype=float), np.nan), where=bottom > 0))


def expected_inside(r: np.ndarray | float) -> np.ndarray:
    """Return the xi_1sigma that Gaussian uncertainties with the ratio ``r`` have (arXiv:2111.05787).

    Examples
    --------
    >>> round(float(expected_inside(1.0)), 4)
    0.6827
    """
    with np.errstate(divide="ignore"):
        return erf(1 / (np.asarray(r, dtype=float) * np.sqrt(2)))


def faithful(replicas: float) -> tuple[float, float]:
    """Return ratio and xi_1sigma of exact Gaussian uncertainties with so many replicas a fit.

    Examples
    --------
    >>> [round(value, 3) for value in faithful(40)]
    [1.025, 0.665]
    """
    if not replicas > 1:
        return np.nan, np.nan
    r = float(np.sqrt((replicas + 1) / (replicas - 1)))
    return r, float(1 - 2 * student.sf(1 / r, replicas - 1))


@dataclass(frozen=True)
class Measured:
    """A number with its bootstrap error (NaN: undefined)."""

    value: float
    error: float

    def __str__(self) -> str:
        if np.isnan(self.value):
            return "undefined"
        return f"{self.value:.3f}" + ("" if np.isnan(self.error) else f" +- {self.error:.3f}")


@dataclass(frozen=True)
class Averages:
    """Statistics over all fits: means, ratio, xi_1sigma, and the xi that the ratio makes expect."""

    bias: Measured
    variance: Measured
    ratio: Measured
    inside: Measured
    expected: Measured


def averages(found: FitStatistics, generator: np.random.Generator, resamples: int = RESAMPLES) -> Averages:
    """Return the statistics over fits with bootstrap errors.

    Whole fits are drawn again, with the replicas they have. That covers both kinds of scatter, because the
    replicas of a fit are drawn anew with every fit; drawing them again too would count theirs twice.
    """
    good = np.isfinite(found.bias)
    bias, variance, inside = (part[good] for part in (found.bias, found.variance, found.inside))
    count = len(bias)
    picks = generator.integers(count, size=(resamples, count)) if count > 1 else None

    def measured(value: np.ndarray | float, again: np.ndarray | None) -> Measured:
        return Measured(float(value), np.nan if again is None else float(np.nanstd(again, ddof=1)))

    if not count:
        return Averages(*(Measured(np.nan, np.nan),) * 5)
    samples = [None] * 3 if picks is None else [part[picks] for part in (bias, variance, inside)]
    simple = [
        measured(part.mean(), None if again is None else again.mean(axis=1))
        for part, again in zip((bias, variance, inside), samples, strict=True)
    ]
    ratios = None if picks is None else ratio(bias[picks], variance[picks])
    r = ratio(bias, variance)
    return Averages(
        simple[0], simple[1], measured(r, ratios), simple[2],
        measured(expected_inside(r), None if ratios is None else expected_inside(ratios)),
    )  # fmt: skip
