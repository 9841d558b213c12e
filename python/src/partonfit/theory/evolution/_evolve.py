"""Evolving PDFs from Q0 to other scales, all replicas and scales in one contraction."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from partonfit._errors import SettingError
from partonfit._vocabulary import EVOLUTION
from partonfit.theory.evolution import _operators
from partonfit.theory.evolution._card import EvolutionCard, checked_points, default_card

_N_INPUT, _INPUT_WEIGHT = 150, 15.0  # more points at large x than the tables' grid: (1 - x)^5 is steep
_X_MIN = 1e-9


@cache
def _lambert_grid(n: int, x_min: float, weight: float) -> np.ndarray:
    log_x = y = np.linspace(np.log(x_min) + weight * (x_min - 1), 0.0, n)
    for _ in range(200):  # Newton's method for ln x + weight (x - 1) = y
        x = np.exp(log_x)
        log_x = log_x - (log_x + weight * (x - 1) - y) / (1 + weight * x)
    x = np.exp(log_x)
    x[0], x[-1] = x_min, 1.0
    return x


def lambert_grid(n: int, x_min: float, weight: float = 5.0) -> np.ndarray:
    """Return ``n`` points even in ln x + ``weight`` x: logarithmic at small x, linear towards 1.

    With weight 5 it is the grid of EKO (arXiv:2202.02338, section 2.3) and of the tables.

    Examples
    --------
    >>> lambert_grid(4, 1e-3).round(4)
    array([0.001 , 0.0429, 0.3932, 1.    ])
    """
    return _lambert_grid(n, x_min, weight).copy()


def input_grid() -> np.ndarray:
    """Return the x (x_in,) on which a PDF at Q0 is given to :func:`evolve`, from 1e-9 to 1.

    Examples
    --------
    >>> x = input_grid()
    >>> float(x[0]), float(x[-1]), len(x)
    (1e-09, 1.0, 150)
    """
    return lambert_grid(_N_INPUT, _X_MIN, _INPUT_WEIGHT)


def evolve(
    xf0: np.ndarray,
    x_in: np.ndarray,
    x_out: np.ndarray,
    q2s: Iterable[Any],
    card: EvolutionCard | None = None,
) -> np.ndarray:
    """Evolve PDFs from Q0 to several scales (NNLO, truncated solution).

    Parameters
    ----------
    xf0
        x times the PDF at Q0 (replica, 14, x_in), evolution basis. Bottom and top are absent at Q0.
    x_in
        Where it is given (x_in,), ascending and ending at 1; :func:`input_grid` is a good choice.
    x_out
        Where it is wanted (x_out,), not below ``x_in[0]``.
    q2s
        Scales squared [GeV2] (point,), or pairs (Q2, number of flavours) for one side of a threshold.
    card
        Settings; those of the package's own tables by default.

    Returns
    -------
    numpy.ndarray
        x times the PDF (replica, point, 14, x_out), evolution basis.

    Raises
    ------
    SettingError
        When shapes disagree, a grid is unusable or a scale is out of range.

    Notes
    -----
    DGLAP equations to three loops with matching at bottom (and top, if ``card.nf_max`` is 6), as in eko
    (arXiv:2202.02338). Operators are cached under ``PARTONFIT_CACHE``, else in the user's cache folder.

    Examples
    --------
    >>> from partonfit.models._toy import toy_pdf
    >>> x = input_grid()
    >>> evolve(toy_pdf(x)[None], x, np.array([0.1]), [100.0]).shape
    (1, 1, 14, 1)
    """
    card = default_card() if card is None else card
    points = checked_points(q2s, card)
    xf0 = np.asarray(xf0, dtype=np.float64)
    x_in = np.asarray(x_in, dtype=np.float64)
    x_out = np.atleast_1d(np.asarray(x_out, dtype=np.float64))
    _check(xf0, x_in, x_out)
    members = _operators.operators(x_in, x_out, points, card)
    return x_out * _operators.apply(members, xf0 / x_in)


def _check(xf0: np.ndarray, x_in: np.ndarray, x_out: np.ndarray) -> None:
    if x_in.ndim != 1 or len(x_in) < 6 or np.any(np.diff(x_in) <= 0) or x_in[0] <= 0 or x_in[-1] != 1:
        msg = "x_in must be an ascending grid of at least 6 momentum fractions that ends at 1."
        raise SettingError(msg)
    if xf0.ndim != 3 or xf0.shape[1:] != (len(EVOLUTION), len(x_in)):
        msg = f"xf0 must have the shape (replica, 14, {len(x_in)}), not {xf0.shape}."
        raise SettingError(msg)
    low = x_out < x_in[0] * (1 - 1e-9)
    if x_out.ndim != 1 or low.any() or (x_out > 1).any():
        bad = x_out[low | (x_out > 1)]
        shown = f" (for instance {bad[0]})" if len(bad) else ""
        msg = f"x_out must lie between {x_in[0]:g} and 1{shown}."
        raise SettingError(msg)
