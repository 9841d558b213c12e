r"""Exponents for the next fit, from the replicas of an earlier one.

The effective exponents of f (NNPDF3.0, arXiv:1410.8849, section 3.2.2; the points are those of today's fits),

.. math::
    \alpha(x) = -\frac{\ln |f(x)|}{\ln x}, \qquad \beta(x) = \frac{\ln |f(x)|}{\ln(1 - x)},

are taken at small and at large x. A range is twice the 68 % interval around their mean, the wider one of two x
(for alpha of Sigma and g at the smallest x alone). Where the valence or momentum integral would diverge, a
range is cut.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from partonfit._errors import FitError, SettingError
from partonfit._vocabulary import FITTED, rotation

if TYPE_CHECKING:
    from partonfit.results._fit_object import PDFFit

SMALL_X, LARGE_X = (1e-6, 1e-3), (0.65, 0.95)
_SINGLET = ("Sigma", "g")
_HIGHEST: dict[str, float] = dict.fromkeys(("V", "V3", "V8", "V15", "T3", "T8"), 0.99)
"""Below 1, so that the integral of x^(-alpha) exists; for the others x^(1 - alpha) needs less than 2."""

Ranges = dict[str, tuple[float, float]]


def next_exponents(fit: PDFFit) -> tuple[Ranges, Ranges]:
    """Return the ranges of alpha and beta that the kept replicas of ``fit`` lead to."""
    outputs = tuple(fit.settings["model"].get("outputs", FITTED))
    if not fit.settings["model"].get("preprocessing"):
        msg = "The model of this fit has no preprocessing, so there are no exponents to iterate."
        raise SettingError(msg)
    if fit.kept.sum() < 2:
        msg = "Ranges of exponents need at least two kept replicas."
        raise FitError(msg)
    turn = rotation(outputs)
    x = np.array([*SMALL_X, *LARGE_X])
    f = np.abs(np.einsum("oe,rex->rox", turn, fit.xf(x))) / x
    with np.errstate(divide="ignore"):
        size = np.log(f)
    alpha, beta = -size[..., :2] / np.log(x[:2]), size[..., 2:] / np.log1p(-x[2:])
    found: tuple[Ranges, Ranges] = ({}, {})
    for i, name in enumerate(outputs):
        low, high = _twice(alpha[:, i, :1] if name in _SINGLET else alpha[:, i])
        found[0][name] = _clamped(name, "alpha", low, high, -np.inf, _HIGHEST.get(name, 1.99))
        found[1][name] = _clamped(name, "beta", *_twice(beta[:, i]), 0.0, np.inf)
    return found


def _twice(values: np.ndarray) -> tuple[float, float]:
    """Return twice the 68 % interval (replica, x) around the mean, the lowest and the highest over x."""
    values = np.where(np.isfinite(values), values, np.nan)
    mean = np.nanmean(values, axis=0)
    low, high = np.nanpercentile(values, [15.87, 84.13], axis=0)
    return float(np.min(mean - 2 * (mean - low))), float(np.max(mean + 2 * (high - mean)))


def _clamped(name: str, kind: str, low: float, high: float, least: float, most: float) -> tuple[float, float]:
    inside = float(np.clip(low, least, most)), float(np.clip(high, least, most))
    if inside != (low, high):
        why = "its integral would diverge" if kind == "alpha" else "it would not vanish at x = 1"
        warnings.warn(
            f"{kind} of {name}: the range {low:.3g} to {high:.3g} is cut to {inside[0]:.3g} to {inside[1]:.3g}, "
            f"or {why}.",
            stacklevel=4,
        )
    return inside
