"""The forward map: from a PDF on one x grid to predictions for all data points.

Linear tables are rows of one matrix; quadratic ones stay as blocks. Rows then combine to data points
(ratios, sums) by the datasets' operations. :mod:`partonfit.theory._map` builds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from partonfit._errors import TheoryError
from partonfit._vocabulary import EVOLUTION
from partonfit.theory._operations import OPERATIONS
from partonfit.theory._reduction import Reduction, reduce_rows

SAME_X = 1e-10
"""Relative difference below which two grid points are one."""


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
    reduction
        The quadratic rows in the short form that a fit uses, made by :meth:`reduced`.
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
    reduction: Reduction | None = field(default=None, repr=False)

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

    def on(self, x: np.ndarray) -> ForwardMap:
        """Return the same map on a larger grid.

        Parameters
        ----------
        x
            Momentum fractions (x,), ascending, that contain those of the map up to rounding.

        Raises
        ------
        TheoryError
            When a point of the map is missing in ``x``.
        """
        columns = columns_of(x, self.x)
        matrix = np.zeros((len(self.matrix), len(EVOLUTION), len(x)))
        matrix[:, :, columns] = self.matrix
        quadratic = tuple(replace(block, x_index=columns[block.x_index]) for block in self.quadratic)
        return replace(self, x=x, matrix=matrix, quadratic=quadratic, reduction=None)

    def reduced(self, reference: np.ndarray, completion: np.ndarray, tolerance: float = 1e-3) -> ForwardMap:
        """Return the map with its quadratic rows also in the short form that a fit uses.

        Predictions stay exact; :meth:`nonlinear_matrix` and :meth:`nonlinear_points` take the short form.

        Parameters
        ----------
        reference
            x f (14, x) on the grid of the map: a PDF of typical size.
        completion
            (14, fitted) matrix from the fitted combinations to the evolution basis.
        tolerance
            Error of a row in units of its size, as root mean squares over smooth PDFs like the reference.
        """
        if not self.quadratic:
            return self
        return replace(self, reduction=reduce_rows(self.quadratic, self.x, reference, completion, tolerance))

    def nonlinear_matrix(self) -> np.ndarray:
        """Return linear features (feature, 14, x) from which the points follow that are not linear in the PDF.

        They are the linear rows that those points combine, then the legs of the quadratic ones.

        Raises
        ------
        TheoryError
            When one of those points needs a table quadratic in the PDF and the map is not :meth:`reduced`.
        """
        rows = self._nonlinear_rows
        straight = rows[np.isin(rows, self.linear_rows)]
        matrix = self.matrix[np.searchsorted(self.linear_rows, straight)]
        if len(straight) == len(rows):
            return matrix
        if self.reduction is None:
            msg = "Some data points need tables that are quadratic in the PDF. Call reduced() on the map first."
            raise TheoryError(msg)
        return np.concatenate([matrix, self.reduction.legs])

    def nonlinear_points(self, features: Any) -> Any:
        """Return the points that are not linear in the PDF (..., point) from their features (..., feature).

        Parameters
        ----------
        features
            :meth:`nonlinear_matrix` applied to x f; NumPy or JAX.

        Returns
        -------
        array
            The points in the order of ``np.flatnonzero(~linear)``; a pure function of ``features``.
        """
        xp = features.__array_namespace__()
        rows = features
        if self.reduction is not None:
            straight, place = self._row_places
            parts = [features[..., :straight], self.reduction.evaluate(features[..., straight:])]
            rows = _picked(xp.concatenate(parts, axis=-1), place)
        groups = self._nonlinear_groups
        parts = [OPERATIONS[g.operation].apply(*(_picked(rows, operand) for operand in g.rows)) for g in groups]
        order = np.argsort(np.concatenate([group.points for group in groups]))
        return _picked(xp.concatenate(parts, axis=-1), order)

    @cached_property
    def _row_places(self) -> tuple[int, np.ndarray]:
        """Number of linear rows among the nonlinear ones, and where each of these stands once rows are made."""
        rows = self._nonlinear_rows
        straight = rows[np.isin(rows, self.linear_rows)]
        made = np.concatenate([straight, self.reduction.rows if self.reduction else []]).astype(int)
        sequence = np.argsort(made)
        return len(straight), sequence[np.searchsorted(made[sequence], rows)]

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


def _picked(array: Any, index: np.ndarray) -> Any:
    """Return array[..., index]; neighbours as a slice, whose gradient needs no scatter in compiled code."""
    first, count = int(index[0]), len(index)
    if not np.array_equal(index, np.arange(first, first + count)):
        return array[..., index]
    return array if count == array.shape[-1] else array[..., first : first + count]


def columns_of(x: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return the columns of the grid ``x`` (ascending) that the points ``own`` are, up to rounding."""
    right = np.clip(np.searchsorted(x, own), 0, len(x) - 1)
    left = np.maximum(right - 1, 0)
    found = np.where(np.abs(x[left] - own) < np.abs(x[right] - own), left, right)
    lost = np.flatnonzero(np.abs(x[found] / own - 1) > SAME_X)
    if len(lost):
        msg = f"The grid lacks the point x = {own[lost[0]]:g}, which a table needs. Take the union of the grids."
        raise TheoryError(msg)
    return found


def union_grid(grids: Iterable[np.ndarray]) -> np.ndarray:
    """Return all points of several grids, ascending; points that differ by rounding are one."""
    points = np.sort(np.concatenate(list(grids)))
    new = np.concatenate([[True], np.diff(points) > SAME_X * points[1:]])
    return points[new]
