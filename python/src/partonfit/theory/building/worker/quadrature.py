"""Product integration of coefficient functions with interpolation polynomials (NumPy only).

A structure function at x needs, for every coefficient function C and every basis function f_j,

    I_j(x) = int_x^1 dz [R(z) f_j(x/z)/z + S(z) (f_j(x/z)/z - f_j(x))] + L(x) f_j(x).

yadism calls an adaptive scalar quadrature for each (C, j, x). Here C is tabulated once on fixed
panels in z, shared by every x of the same scale; on a panel C is a polynomial in t = ln z (lower
half) or t = ln(1 - z) (upper half), in which powers of both logarithms are smooth. The integral of
Lagrange polynomial times basis function is done with Gauss-Legendre on every interval between
panel borders and the kinks of the f_j. The result is a matrix: I = M(x) @ C(nodes).

This file runs in the environment of yadism, so it imports nothing of partonfit.
"""

from __future__ import annotations

import numpy as np

SMALLEST_Z = 1.99e-7  # just below the lowest x grid point, 2e-7
CLOSEST_TO_ONE = 1.0e-11  # yadism leaves out 1e-10; what is beyond contributes about 1e-8
RATIO = 3.0  # width of a panel, as a ratio in z or 1 - z
DEGREE = 10  # interpolation nodes on each panel
GAUSS = 8  # Gauss-Legendre nodes on each interval


class Basis:
    """The piecewise polynomials f_j in ln x, tabulated so that all are evaluated at once.

    Parameters
    ----------
    x
        Grid (x,), increasing, ends at 1.
    areas
        For each j, the array (area, 2 + power) of eko: ln xmin, ln xmax and the coefficients.
    """

    def __init__(self, x: np.ndarray, areas: list[np.ndarray]) -> None:
        self.x = np.asarray(x, dtype=float)
        n, powers = len(self.x), areas[0].shape[1] - 2
        self._log = np.log(self.x)
        self._coefficients = np.zeros((n - 1, powers, n))
        for j, pieces in enumerate(areas):
            for piece in pieces:
                inside = (self._log[:-1] > piece[0] - 1e-9) & (self._log[1:] < piece[1] + 1e-9)
                self._coefficients[inside, :, j] = piece[2:]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return f (len(x), j); zero outside the grid."""
        log = np.log(np.atleast_1d(x))
        interval = np.clip(np.searchsorted(self._log, log, side="left") - 1, 0, len(self.x) - 2)
        powers = log[:, None] ** np.arange(self._coefficients.shape[1])
        values = np.einsum("qp,qpj->qj", powers, self._coefficients[interval])
        values[(log < self._log[0] - 1e-12) | (log > 1e-12)] = 0.0
        return values


class Panels:
    """Panels in v = z / z_max, with the nodes on which a coefficient function is tabulated.

    Parameters
    ----------
    z_max
        Upper end of the support: 1, or the partonic threshold of a heavy quark.
    """

    def __init__(self, z_max: float = 1.0) -> None:
        self.z_max = z_max
        low, high = np.log(SMALLEST_Z), np.log(CLOSEST_TO_ONE)
        lower = np.linspace(low, np.log(0.5), 1 + int(np.ceil((np.log(0.5) - low) / np.log(RATIO))))
        upper = np.linspace(np.log(0.5), high, 1 + int(np.ceil((np.log(0.5) - high) / np.log(RATIO))))
        self._starts = np.concatenate([lower[:-1], upper[:-1]])
        self._ends = np.concatenate([lower[1:], upper[1:]])
        self._n_lower = len(lower) - 1
        self.borders = z_max * np.concatenate([np.exp(lower), -np.expm1(upper[1:])])
        chebyshev = np.cos(np.pi * (2 * np.arange(DEGREE) + 1) / (2 * DEGREE))
        self._chebyshev = chebyshev
        # Barycentric weights of Chebyshev points of the first kind.
        self._weights = (-1.0) ** np.arange(DEGREE) * np.sin(np.pi * (2 * np.arange(DEGREE) + 1) / (2 * DEGREE))
        middle, half = (self._starts + self._ends) / 2, (self._ends - self._starts) / 2
        t = middle[:, None] + half[:, None] * chebyshev
        v = np.exp(t)
        v[self._n_lower :] = -np.expm1(t[self._n_lower :])
        self.nodes = z_max * v.ravel()

    def first_node(self, x: float) -> int:
        """Return the index of the first node of the panel that holds x (nodes run panel by panel)."""
        return DEGREE * int(np.clip(np.searchsorted(self.borders, x) - 1, 0, len(self._starts)))

    def interpolation(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the panel (q,) of each z and the Lagrange polynomials (q, node) there."""
        panel = np.clip(np.searchsorted(self.borders, z) - 1, 0, len(self._starts) - 1)
        v = z / self.z_max
        t = np.where(panel < self._n_lower, np.log(v), np.log1p(-v))
        start, end = self._starts[panel], self._ends[panel]
        s = (2 * t - start - end) / (end - start)
        difference = s[:, None] - self._chebyshev
        exact = np.abs(difference) < 1e-14
        terms = self._weights / np.where(exact, 1.0, difference)
        lagrange = terms / terms.sum(axis=1, keepdims=True)
        hit = exact.any(axis=1)
        lagrange[hit] = exact[hit]
        return panel, lagrange

    def matrices(self, x: float, basis: Basis) -> tuple[np.ndarray, np.ndarray]:
        """Return the matrices (j, node) that integrate the regular and the singular part at x."""
        n_nodes = len(self.nodes)
        regular = np.zeros((len(basis.x), len(self._starts), DEGREE))
        singular = np.zeros_like(regular)
        top = self.borders[-1]
        if x >= top:
            return regular.reshape(-1, n_nodes), singular.reshape(-1, n_nodes)
        kinks = x / basis.x
        cuts = np.concatenate([[x], self.borders, kinks])
        cuts = np.unique(cuts[(cuts >= x) & (cuts <= top)])
        z, weight = _gauss(cuts, self.z_max)
        panel, lagrange = self.interpolation(z)
        product = basis(x / z) / z[:, None]
        at_x = basis(np.array([x]))[0]
        for p in np.unique(panel):
            here = panel == p
            weighted = weight[here, None] * lagrange[here]
            regular[:, p] = product[here].T @ weighted
            singular[:, p] = (product[here] - at_x).T @ weighted
        return regular.reshape(-1, n_nodes), singular.reshape(-1, n_nodes)


def _gauss(cuts: np.ndarray, z_max: float) -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss-Legendre nodes and weights in z for each interval between ``cuts``.

    Above half the support the variable is ln(1 - z / z_max), below it ln z.
    """
    s, w = np.polynomial.legendre.leggauss(GAUSS)
    a, b = cuts[:-1], cuts[1:]
    upper = (a + b) / 2 > 0.5 * z_max
    low = np.where(upper, np.log1p(-a / z_max), np.log(a))
    high = np.where(upper, np.log1p(-b / z_max), np.log(b))
    t = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * s
    z = np.where(upper[:, None], -z_max * np.expm1(t), np.exp(t))
    jacobian = np.where(upper[:, None], -(z_max - z), z)
    weight = (high - low)[:, None] / 2 * w * jacobian
    return z.ravel(), weight.ravel()
