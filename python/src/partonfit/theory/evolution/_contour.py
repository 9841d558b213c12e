r"""Mellin inversion on fixed nodes: the Talbot contour with one Gauss-Legendre rule.

.. math::
    N(t) = o + r\,\theta(\cot\theta + i), \quad \theta = \pi (2t - 1), \quad
    f(x) = \int_{1/2}^{t_\max} dt\; \mathrm{Re}\Big[\frac{-i}{\pi} \frac{dN}{dt}\, x^{-N} \tilde f(N)\Big]

eko chooses r = 6.4 / (0.1 - ln x) for every x. A few values of r serve all x, and make the moments of
splitting functions independent of x, so that they are computed once and kept. They are twice eko's: the
integrand then falls off before the contour is cut, where eko's cut leaves some 1e-5 at small x.
Source: Abate and Valko, Int. J. Numer. Meth. Eng. 60 (2004) 979; eko, arXiv:2202.02338.
"""

from __future__ import annotations

from functools import cache

import numpy as np

_SCALE = 14.0
RADII = _SCALE / np.geomspace(21.0, 0.1, 12)
"""Values of r, ascending: from x near 1e-9 to x = 1."""

_T_MAX = 0.965
_PANELS, _NODES = 3, 32


@cache
def nodes() -> tuple[np.ndarray, np.ndarray]:
    """Return N - o (radius, node) for every radius, and weight times -i/pi dN/dt."""
    s, w = np.polynomial.legendre.leggauss(_NODES)
    edges = np.linspace(0.5, _T_MAX, _PANELS + 1)
    half = np.diff(edges)[:, None] / 2
    t = ((edges[:-1] + edges[1:])[:, None] / 2 + half * s).ravel()
    weight = (half * w).ravel()
    theta = np.pi * (2 * t - 1)
    shape = theta / np.tan(theta) + 1j * theta
    slope = 2 * np.pi * (1 / np.tan(theta) - theta / np.sin(theta) ** 2 + 1j)
    return RADII[:, None] * shape, RADII[:, None] * (-1j / np.pi * slope * weight)


def group(x: np.ndarray) -> np.ndarray:
    """Return the index of the radius that serves each x (x,)."""
    wanted = _SCALE / (0.1 - np.log(x))
    return np.abs(np.log(RADII)[None, :] - np.log(wanted)[:, None]).argmin(axis=1)


class Basis:
    """Interpolation polynomials of a grid: degree 4 in ln x between grid points, as in eko.

    Parameters
    ----------
    x
        Grid (x,), ascending.
    degree
        Degree of the polynomials.
    """

    def __init__(self, x: np.ndarray, degree: int = 4) -> None:
        self.x = np.asarray(x, dtype=float)
        self.degree = degree
        self._log = np.log(self.x)
        n = len(self.x)
        # An even degree cannot be centred on the interval: eko takes the block that lies higher.
        self._first = np.clip(np.arange(n - 1) - (degree - 1) // 2, 0, n - 1 - degree)
        self._coefficients = np.zeros((n - 1, degree + 1, degree + 1))  # interval, power, point of block
        for i, first in enumerate(self._first):
            s = self._log[first : first + degree + 1] - self._log[i]
            self._coefficients[i] = np.linalg.inv(s[:, None] ** np.arange(degree + 1))

    def moments(self, n: np.ndarray, x: float) -> np.ndarray:
        """Return x^-N times the Mellin transform of each polynomial (node, j), above x only.

        The lower end of the interval that holds x contributes nothing once the contour is closed
        to the right, so it is left out.
        """
        log_x = np.log(x)
        result = np.zeros((len(n), len(self.x)), dtype=complex)
        intervals = np.flatnonzero(self._log[1:] > log_x + 1e-12)
        low, high = self._log[intervals], self._log[intervals + 1]
        upper = _primitives(n, high - low, self.degree) * np.exp(np.outer(high - log_x, n))[None]
        above = low > log_x + 1e-12
        lower = _primitives(n, np.zeros(int(above.sum())), self.degree)
        upper[:, above] -= lower * np.exp(np.outer(low[above] - log_x, n))[None]
        for k, i in enumerate(intervals):
            block = slice(self._first[i], self._first[i] + self.degree + 1)
            result[:, block] += upper[:, k].T @ self._coefficients[i]
        return result

    def values(self, x: np.ndarray) -> np.ndarray:
        """Return the polynomials at points x (x, j); zero below the grid."""
        log = np.log(np.atleast_1d(x))
        interval = np.clip(np.searchsorted(self._log, log) - 1, 0, len(self.x) - 2)
        result = np.zeros((len(log), len(self.x)))
        for row, (value, i) in enumerate(zip(log, interval, strict=True)):
            if value < self._log[0] - 1e-12:
                continue
            powers = (value - self._log[i]) ** np.arange(self.degree + 1)
            first = self._first[i]
            result[row, first : first + self.degree + 1] = powers @ self._coefficients[i]
        return result


def _primitives(n: np.ndarray, s: np.ndarray, degree: int) -> np.ndarray:
    """Return exp(-N s) times the primitive of exp(N s) s^p, (power, s, node)."""
    result = np.empty((degree + 1, len(s), len(n)), dtype=complex)
    result[0] = 1 / n
    for p in range(1, degree + 1):
        result[p] = (s[:, None] ** p - p * result[p - 1]) / n
    return result
