"""The forward map: from a PDF on one x grid to predictions for all data points.

Linear tables are rows of one matrix; quadratic ones stay as blocks. Rows then combine to data points
(ratios, sums) by the datasets' operations. :mod:`partonfit.theory._map` builds it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from partonfit._errors import TheoryError
from partonfit._vocabulary import EVOLUTION
from partonfit.theory._operations import OPERATIONS


@dataclass(frozen=True, eq=False)
class QuadraticRows:
    """Rows of one quadratic table.

    Attributes
    ----------
    rows
        Their row numbers (row,).
    x_index
        The table's x points as columns of the union grid (x,).
    first, second
        For each channel the positions of the two legs in the evolution basis (channel,).
    values
        Weights (row, channel, x1, x2).
    """

    rows: np.ndarray
    x_index: np.ndarray
    first: np.ndarray
    second: np.ndarray
    values: np.ndarray

    def predict(self, xf: np.ndarray) -> np.ndarray:
        """Return the rows (..., row) for x f on the union grid (..., 14, x)."""
        own = xf[..., self.x_index]
        one, other = own[..., self.first, :], own[..., self.second, :]
        # The contraction over the second leg first keeps the largest intermediate at (row, channel, x).
        half = np.einsum("rcxy,...cy->...rcx", self.values, other, optimize=True)
        return np.einsum("...rcx,...cx->...r", half, one, optimize=True)


@dataclass(frozen=True, eq=False)
class PointGroup:
    """Data points that share an operation: their numbers (point,) and their rows (operand, point)."""

    operation: str
    points: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True, eq=False)
class ForwardMap:
    """From x f at the starting scale to predictions.

    Attributes
    ----------
    x
        Union of the x grids of all tables (x,), ascending.
    matrix
        The linear rows (row, 14, x), evolution basis; conversion factors and C-factors are inside.
    linear_rows
        Their row numbers (row,).
    quadratic
        The rows quadratic in the PDF.
    n_rows
        Number of all rows.
    groups
        How rows combine to data points.
    linear
        Whether a data point is linear in the PDF (data,).
    q0
        Scale of the PDF [GeV].
    hash
        SHA-256 over the tables used.
    """

    x: np.ndarray
    matrix: np.ndarray = field(repr=False)
    linear_rows: np.ndarray = field(repr=False)
    quadratic: tuple[QuadraticRows, ...] = field(repr=False)
    n_rows: int
    groups: tuple[PointGroup, ...] = field(repr=False)
    linear: np.ndarray = field(repr=False)
    q0: float
    hash: str

    @property
    def n_data(self) -> int:
        """Number of data points."""
        return len(self.linear)

    def rows(self, xf: np.ndarray) -> np.ndarray:
        """Return all rows (..., row) for x f on the union grid (..., 14, x)."""
        xf = np.asarray(xf, dtype=np.float64)
        if xf.shape[-2:] != (len(EVOLUTION), len(self.x)):
            msg = f"The PDF must have shape (..., 14, {len(self.x)}), not {xf.shape}."
            raise TheoryError(msg)
        flat = xf.reshape(*xf.shape[:-2], -1)
        result = np.empty((*xf.shape[:-2], self.n_rows))
        result[..., self.linear_rows] = flat @ self.matrix.reshape(len(self.matrix), flat.shape[-1]).T
        for block in self.quadratic:
            result[..., block.rows] = block.predict(xf)
        return result

    def combine(self, rows: Any) -> Any:
        """Return data points (..., data) from rows (..., row).

        A pure function of its argument: it accepts NumPy and JAX arrays, and can be differentiated and
        compiled.
        """
        xp = rows.__array_namespace__()
        parts = [
            OPERATIONS[group.operation].apply(*(rows[..., operand] for operand in group.rows)) for group in self.groups
        ]
        return xp.concatenate(parts, axis=-1)[..., self._order]

    def predict(self, xf: np.ndarray) -> np.ndarray:
        """Return predictions (..., data) for x f on the union grid (..., 14, x)."""
        return self.combine(self.rows(xf))

    def linear_matrix(self) -> np.ndarray:
        """Return the matrix (data, 14, x) of the points that are linear in the PDF; other rows are zero.

        Where all points are linear, ``predict`` is this matrix applied to x f.
        """
        result = np.zeros((self.n_data, *self.matrix.shape[1:]))
        position = np.full(self.n_rows, -1)
        position[self.linear_rows] = np.arange(len(self.linear_rows))
        for group in self.groups:
            chosen = self.linear[group.points]
            for operand in group.rows:  # linear operations are sums of their operands
                result[group.points[chosen]] += self.matrix[position[operand[chosen]]]
        return result

    def nonlinear_matrix(self) -> np.ndarray:
        """Return the rows (row, 14, x) that the points that are not linear in the PDF are made of.

        Raises
        ------
        TheoryError
            When one of those points needs a table quadratic in the PDF.
        """
        if np.isin(self._nonlinear_rows, self.linear_rows, invert=True).any():
            msg = (
                "Some data points need tables that are quadratic in the PDF (hadron collisions). Predictions "
                "and chi2 take them; the fit does not yet. Leave those datasets out."
            )
            raise TheoryError(msg)
        return self.matrix[np.searchsorted(self.linear_rows, self._nonlinear_rows)]

    def nonlinear_points(self, rows: Any) -> Any:
        """Return the points that are not linear in the PDF (..., point) from their rows (..., row).

        Parameters
        ----------
        rows
            :meth:`nonlinear_matrix` applied to x f; NumPy or JAX.

        Returns
        -------
        array
            The points in the order of ``np.flatnonzero(~linear)``; a pure function of ``rows``.
        """
        xp = rows.__array_namespace__()
        groups = self._nonlinear_groups
        parts = [OPERATIONS[group.operation].apply(*(rows[..., operand] for operand in group.rows)) for group in groups]
        order = np.argsort(np.concatenate([group.points for group in groups]))
        return xp.concatenate(parts, axis=-1)[..., order]

    @cached_property
    def _nonlinear_rows(self) -> np.ndarray:
        chosen = [group.rows[:, ~self.linear[group.points]].ravel() for group in self.groups]
        return np.unique(np.concatenate(chosen))

    @cached_property
    def _nonlinear_groups(self) -> tuple[PointGroup, ...]:
        """The nonlinear points by operation, their rows counted within ``_nonlinear_rows``."""
        result = []
        for group in self.groups:
            crooked = ~self.linear[group.points]
            if crooked.any():
                rows = np.searchsorted(self._nonlinear_rows, group.rows[:, crooked])
                result.append(PointGroup(group.operation, group.points[crooked], rows))
        return tuple(result)

    @cached_property
    def _order(self) -> np.ndarray:
        return np.argsort(np.concatenate([group.points for group in self.groups]))
