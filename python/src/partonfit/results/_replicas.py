"""What became of each replica, and which ones enter the result.

The vetoes are those of the community's postfit: a replica leaves when its chi2 or the arc length of
one of its PDFs exceeds mean + 4 standard deviations of those still in, one-sided and iterated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partonfit._vocabulary import EVOLUTION, FITTED

SIGMAS = 4.0
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
    """

    replica: int
    status: str
    sentence: str
    kept: bool
    epoch: int
    best_epoch: int
    training: float
    validation: float


def arc_lengths(xf: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the length (replica, fitted) of each curve x f over x in [1e-7, 1]."""
    steps = np.diff(xf, axis=-1) ** 2 + np.diff(x) ** 2
    return np.sqrt(steps).sum(axis=-1)


def arc_grid() -> np.ndarray:
    """Return the x (x,) on which arc lengths are measured."""
    return _ARC_GRID


def fitted_rows(xf: np.ndarray) -> np.ndarray:
    """Return the fitted combinations (..., fitted, x) of an evolution-basis array (..., 14, x)."""
    return xf[..., [EVOLUTION.index(name) for name in FITTED], :]


def outliers(values: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return which entries (replica,) exceed mean + 4 sigma of the survivors, iterated.

    Examples
    --------
    >>> values = np.append(np.linspace(0.9, 1.1, 50), 30.0)
    >>> np.flatnonzero(outliers(values, np.ones(51, dtype=bool)))
    array([50])
    """
    alive = among.copy()
    while alive.sum() > 2:
        limit = values[alive].mean() + SIGMAS * values[alive].std()
        worse = alive & (values > limit)
        if not worse.any():
            break
        alive &= ~worse
    return among & ~alive


def vetoes(chi2: np.ndarray, lengths: np.ndarray, usable: np.ndarray) -> list[str]:
    """Return why each replica is vetoed ("" when it is not).

    Parameters
    ----------
    chi2
        (replica,) chi2 per point to the central data.
    lengths
        (replica, fitted) arc lengths.
    usable
        (replica,) whether the replica has weights at all.
    """
    reasons = [""] * len(chi2)
    for replica in np.flatnonzero(outliers(chi2, usable)):
        reasons[replica] = f"vetoed: chi2 per point {chi2[replica]:.3g} exceeds the mean by {SIGMAS:g} sigma"
    for column, name in enumerate(FITTED):
        for replica in np.flatnonzero(outliers(lengths[:, column], usable)):
            if not reasons[replica]:
                reasons[replica] = f"vetoed: arc length of {name} exceeds the mean by {SIGMAS:g} sigma"
    return reasons
