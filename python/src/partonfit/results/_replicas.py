"""What became of each replica, and which ones enter the result.

The vetoes are those of the community's postfit: a replica leaves when a positivity observable fails, when a
valence-like combination is not integrable at small x, or when its chi2 or the arc length of one of its PDFs
exceeds mean + 4 standard deviations of those still in, one-sided and iterated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from partonfit._vocabulary import EVOLUTION, FITTED

SIGMAS = 4.0
INTEGRABILITY = 0.5
POSITIVITY = 1e-6
INTEGRABLE = ("V", "T3", "V3", "T8", "V8")
"""Combinations q whose sum of |x q| at x = 1e-9, 1e-8, 1e-7 must stay small."""

SMALL_X = np.array([1e-9, 1e-8, 1e-7])
_ARC_GRID = np.concatenate([np.geomspace(1e-7, 0.1, 100, endpoint=False), np.linspace(0.1, 1, 100)])


@dataclass(frozen=True)
class ReplicaStatus:
    """How one replica ended.

    Attributes
    ----------
    replica
        Number of the replica, from 0.
    status
        ``"stopped"``, ``"finished"``, ``"interrupted"``, ``"diverged"``, ``"never_passed"`` or
        ``"vetoed"``.
    sentence
        The same in words.
    kept
        Whether the replica enters bands, central member and LHAPDF set.
    epoch, best_epoch
        Last epoch and epoch of the best weights (-1: none).
    training, validation
        chi2 per point at the best weights (NaN: none).
    ended
        How its training ended, whatever the vetoes say: ``status`` of a replica without a veto.
    """

    replica: int
    status: str
    sentence: str
    kept: bool
    epoch: int
    best_epoch: int
    training: float
    validation: float
    ended: str = ""


@dataclass(frozen=True)
class Measures:
    """What the vetoes look at, one row per replica.

    Attributes
    ----------
    chi2
        chi2 per point to the central data (replica,).
    lengths
        Arc length of each fitted combination (replica, fitted).
    integrals
        Sum of |x q| over ``SMALL_X`` for each of ``INTEGRABLE`` (replica, 5).
    positivity
        Loss of each positivity observable (replica, observable).
    observables
        Their names.
    """

    chi2: np.ndarray
    lengths: np.ndarray
    integrals: np.ndarray
    positivity: np.ndarray
    observables: tuple[str, ...] = ()


def integrability_sums(xf: np.ndarray) -> np.ndarray:
    """Return the sums (replica, 5) of |x q| from x f (replica, 14, 3) at ``SMALL_X``."""
    return np.abs(xf[:, [EVOLUTION.index(name) for name in INTEGRABLE]]).sum(axis=-1)


def arc_lengths(xf: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the length (replica, fitted) of each curve x f over x in [1e-7, 1]."""
    steps = np.diff(xf, axis=-1) ** 2 + np.diff(x) ** 2
    return np.sqrt(steps).sum(axis=-1)


def arc_grid() -> np.ndarray:
    """Return the x (x,) on which arc lengths are measured."""
    return _ARC_GRID


def fitted_rows(xf: np.ndarray, fitted: tuple[str, ...] = FITTED) -> np.ndarray:
    """Return the fitted combinations (..., fitted, x) of an evolution-basis array (..., 14, x)."""
    return xf[..., [EVOLUTION.index(name) for name in fitted], :]


def outliers(values: np.ndarray, among: np.ndarray, sigmas: float = SIGMAS) -> np.ndarray:
    """Return which entries (replica,) exceed mean + ``sigmas`` standard deviations of the survivors, iterated.

    Examples
    --------
    >>> values = np.append(np.linspace(0.9, 1.1, 50), 30.0)
    >>> np.flatnonzero(outliers(values, np.ones(51, dtype=bool)))
    array([50])
    """
    alive = among.copy()
    while alive.sum() > 2:
        limit = values[alive].mean() + sigmas * values[alive].std()
        worse = alive & (values > limit)
        if not worse.any():
            break
        alive &= ~worse
    return among & ~alive


def vetoes(
    measures: Measures,
    usable: np.ndarray,
    *,
    sigmas: float = SIGMAS,
    integrability: float = INTEGRABILITY,
    positivity: float = POSITIVITY,
) -> list[str]:
    """Return why each replica is vetoed ("" when it is not).

    Parameters
    ----------
    measures
        What is looked at.
    usable
        (replica,) whether the replica has weights at all.
    sigmas, integrability, positivity
        Thresholds: standard deviations above the mean; sum of |x q|; loss of one observable.
    """
    reasons = [""] * len(usable)

    def veto(which: np.ndarray, words: Callable[[Any], str]) -> None:
        for replica in np.flatnonzero(which & usable):
            reasons[replica] = reasons[replica] or f"vetoed: {words(replica)}"

    for column, name in enumerate(measures.observables):
        losses = measures.positivity[:, column]
        veto(losses > positivity, lambda r, v=losses, n=name: f"positivity of {n} fails, loss {v[r]:.3g}")
    for column, name in enumerate(INTEGRABLE):
        sums = measures.integrals[:, column]
        veto(sums > integrability, lambda r, v=sums, n=name: f"{n} is not integrable, sum of |x {n}| {v[r]:.3g}")
    columns = [("chi2 per point", measures.chi2)]
    columns += [(f"arc length of {name}", measures.lengths[:, i]) for i, name in enumerate(FITTED)]
    before = -1
    # The means are those of the replicas still in, so that every veto may bring another.
    while before != sum(map(bool, reasons)):
        before = sum(map(bool, reasons))
        for name, values in columns:
            alive = usable & np.array([not reason for reason in reasons])
            veto(
                outliers(values, alive, sigmas),
                lambda r, v=values, n=name: f"{n} {v[r]:.3g} exceeds the mean by {sigmas:g} sigma",
            )
    return reasons
