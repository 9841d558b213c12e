r"""The running strong coupling, as eko has it for truncated evolution ("expanded" solution).

.. math:: \frac{da}{d\ln\mu^2} = -\sum_n \beta_n a^{n+2}, \qquad a = \frac{\alpha_s}{4\pi}

Coefficients: hep-ph/9701390; decoupling at the pole mass: hep-ph/9706430 and hep-ph/0408244, eq. 2.43.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from partonfit.theory.evolution._card import EvolutionCard, checked_points, default_card

_NF_REFERENCE = 5


def beta(nf: int) -> tuple[float, float, float]:
    """Return beta_0, beta_1, beta_2 in the MSbar scheme."""
    return (
        11 - 2 * nf / 3,
        102 - 38 * nf / 3,
        2857 / 2 - 5033 * nf / 18 + 325 * nf**2 / 54,
    )


def run(a: float, nf: int, order: int, log: float) -> float:
    """Return the coupling after ``log`` = ln(mu1^2 / mu0^2), expanded in the starting coupling."""
    beta0, beta1, beta2 = beta(nf)
    b1, b2 = beta1 / beta0, beta2 / beta0
    growth = 1 + beta0 * a * log
    lo = a / growth
    if order == 0:
        return lo
    nlo = lo * (1 - b1 * lo * np.log(growth))
    if order == 1:
        return nlo
    return lo * (1 + lo * (lo - a) * (b2 - b1**2) + nlo * b1 * np.log(nlo / a))


def a_s(q2: float, nf: int, card: EvolutionCard) -> float:
    """Return alpha_s / (4 pi) at ``q2`` [GeV2] with ``nf`` active flavours."""
    a, here, scale = card.alphas / (4 * np.pi), _NF_REFERENCE, card.mz**2
    decoupling = 14 / 3 if card.order == 2 else 0.0
    while here != nf:
        up = nf > here
        wall = card.masses[(here if up else here - 1) - 3] ** 2
        a = run(a, here, card.order, np.log(wall / scale))
        a *= 1 + (decoupling if up else -decoupling) * a**2
        here, scale = here + (1 if up else -1), wall
    return run(a, nf, card.order, np.log(q2 / scale))


def alpha_s(q2s: Iterable[Any], card: EvolutionCard | None = None) -> np.ndarray:
    """Return the strong coupling at several scales.

    Parameters
    ----------
    q2s
        Scales squared [GeV2], or pairs (Q2, number of flavours).
    card
        Settings; those of the package's own tables by default.

    Returns
    -------
    numpy.ndarray
        alpha_s (point,).

    Examples
    --------
    >>> alpha_s([91.2**2]).round(6)
    array([0.118])
    """
    card = default_card() if card is None else card
    return np.array([4 * np.pi * a_s(q2, nf, card) for q2, nf in checked_points(q2s, card)])
