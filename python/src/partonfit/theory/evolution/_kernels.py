r"""Solutions of the evolution equations in Mellin space, all moments at once.

With :math:`R_0 = \gamma_0/\beta_0` and :math:`R_k = \gamma_k/\beta_0 - \sum_i b_i R_{k-i}` the truncated
solution (hep-ph/0408244, section 2; the default of NNPDF) keeps exactly the terms up to
:math:`a^2` of :math:`U(a_1) E_0 U^{-1}(a_0)`:

.. math::
    E = E_0 + a_1 U_1 E_0 - a_0 E_0 U_1
        + a_1^2 U_2 E_0 - a_1 a_0 U_1 E_0 U_1 + a_0^2 E_0 (U_1^2 - U_2)

Every term holds the leading-order :math:`E_0`. In eko 0.15.2 to 0.15.7 the second line was applied to an
array already changed by the first, which puts a spurious pole near N = 1.8; the tests compare both.
"""

from __future__ import annotations

import numpy as np

from partonfit.theory.evolution._coupling import beta


def _r(gamma: np.ndarray, nf: int) -> list[np.ndarray]:
    """Return R_0, R_1, ... from the anomalous dimensions (order, ...)."""
    coefficients = beta(nf)
    b = [value / coefficients[0] for value in coefficients]
    r: list[np.ndarray] = []
    for k, value in enumerate(gamma):
        r.append(value / coefficients[0] - sum((b[i] * r[k - i] for i in range(1, k + 1)), np.zeros_like(value)))
    return r


def non_singlet(gamma: np.ndarray, a1: np.ndarray, a0: float, nf: int) -> np.ndarray:
    """Return the truncated solution (point, node) from moments (order, node) and couplings (point,)."""
    r = _r(gamma, nf)
    a1 = np.asarray(a1)[:, None]
    e0 = np.exp(r[0] * np.log(a1 / a0))
    factor = np.ones_like(e0)
    if len(r) > 1:
        factor = factor + (a1 - a0) * r[1]
    if len(r) > 2:
        u2 = (r[2] + r[1] ** 2) / 2
        factor = factor + a1**2 * u2 - a1 * a0 * r[1] ** 2 + a0**2 * (r[1] ** 2 - u2)
    return e0 * factor


def projectors(r0: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the eigenvalues (node,) and projectors (node, 2, 2) of R_0."""
    trace = r0[:, 0, 0] + r0[:, 1, 1]
    root = np.sqrt((r0[:, 0, 0] - r0[:, 1, 1]) ** 2 + 4 * r0[:, 0, 1] * r0[:, 1, 0])
    plus, minus = (trace + root) / 2, (trace - root) / 2
    one = np.eye(2)
    e_plus = (r0 - minus[:, None, None] * one) / root[:, None, None]
    return plus, minus, e_plus, one - e_plus


def u_matrices(r: list[np.ndarray]) -> list[np.ndarray]:
    """Return U_1, U_2, ... (node, 2, 2), which solve [U_k, R_0] = R'_k + k U_k."""
    plus, minus, e_plus, e_minus = projectors(r[0])
    gap = (plus - minus)[:, None, None]
    u: list[np.ndarray] = []
    for k in range(1, len(r)):
        rhs = r[k] + sum((r[k - j] @ u[j - 1] for j in range(1, k)), np.zeros_like(r[k]))
        diagonal = (e_minus @ rhs @ e_minus + e_plus @ rhs @ e_plus) / k
        u.append(diagonal + e_plus @ rhs @ e_minus / (k - gap) + e_minus @ rhs @ e_plus / (k + gap))
    return u


def singlet(gamma: np.ndarray, a1: np.ndarray, a0: float, nf: int) -> np.ndarray:
    """Return the truncated solution (point, node, 2, 2), rows and columns (Sigma, g).

    Parameters
    ----------
    gamma
        Anomalous dimensions (order, node, 2, 2).
    a1, a0
        Final couplings (point,) and the initial one.
    nf
        Number of active flavours.
    """
    r = _r(gamma, nf)
    plus, minus, e_plus, e_minus = projectors(r[0])
    u = u_matrices(r)
    a1 = np.asarray(a1)
    result = np.zeros((len(a1), *r[0].shape), dtype=complex)
    for eigenvalue, e in ((plus, e_plus), (minus, e_minus)):
        growth = np.exp(np.multiply.outer(np.log(a1 / a0), eigenvalue))[..., None, None]
        # Coefficients of a1^0, a1^1, a1^2, each already expanded in a0.
        terms = [e]
        if len(u) > 0:
            terms = [e - a0 * e @ u[0], u[0] @ e]
        if len(u) > 1:
            terms[0] = terms[0] + a0**2 * e @ (u[0] @ u[0] - u[1])
            terms[1] = terms[1] - a0 * u[0] @ e @ u[0]
            terms.append(u[1] @ e)
        for k, term in enumerate(terms):
            result += growth * (a1**k)[:, None, None, None] * term
    return result
