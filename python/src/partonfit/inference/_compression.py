"""The chi2 of a replica without the data dimension: a quadratic form in a few hundred features.

With C = L L^T the covariance of all data and M the linear theory map, the whitened map is
factorised once, L^-1 M = U S V^T, and cut at a relative singular value. The features z = S V^T f
then stand for every linear prediction: p = L U z. Points that are no linear function of the PDF
(ratios) are features themselves, computed from a few more linear rows; those rows take part in the
factorisation, weighted by what they do to the points, so that they too follow from z. Everything is
measured from a reference PDF, so that float32 differences keep their digits. For any subset of the
points, chi2 is d^T G d - 2 h^T d + c with a small symmetric G; the training subset comes from the
validation points alone, because

    chi2_training = |w|^2 - (P w)_v^T (P_vv)^-1 (P w)_v,     P = C^-1, w the whole residual

(block inverse of C), which costs the smaller of the two factorisations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from partonfit._precision import precision_context
from partonfit.theory import ForwardMap


class QuadraticForm(NamedTuple):
    """chi2 as d^T matrix d - 2 vector^T d + constant, d = features - reference features."""

    matrix: np.ndarray
    vector: np.ndarray
    constant: float

    def __call__(self, features: np.ndarray) -> float:
        """Return chi2 at ``features`` (feature,), measured from the reference."""
        return float(features @ (self.matrix @ features - 2 * self.vector) + self.constant)

    def minus(self, other: QuadraticForm) -> QuadraticForm:
        """Return the difference of two forms."""
        return QuadraticForm(self.matrix - other.matrix, self.vector - other.vector, self.constant - other.constant)


@dataclass(frozen=True)
class Compression:
    """Features of a theory map under a covariance; made by :func:`compress`.

    Attributes
    ----------
    completion
        (14, fitted): from the fitted combinations to the evolution basis.
    project
        (x * fitted, z): the linear features z from the flattened x f (x, fitted).
    spread
        (z, row): rows of the nonlinear points from z, or ``None`` when all points are linear.
    reference_xf, reference_rows, reference_points, reference_predictions
        x f (x, fitted), rows, nonlinear points and all predictions (data,) at the reference PDF.
    gram
        (feature, feature): the form of all points.
    precision
        (data, data): inverse of the covariance.
    response, dual
        (data, feature): predictions per unit feature, and the inverse covariance times them.
    modes
        (mode, data) whitening to the modes that are divided into training and validation; ``None``: points are.
    """

    forward: ForwardMap
    completion: np.ndarray
    project: np.ndarray
    spread: np.ndarray | None
    reference_xf: np.ndarray
    reference_rows: np.ndarray | None
    reference_points: np.ndarray | None
    reference_predictions: np.ndarray
    rank: int
    cut: float
    covariance: np.ndarray
    precision: np.ndarray
    response: np.ndarray
    dual: np.ndarray
    gram: np.ndarray
    modes: np.ndarray | None = None

    def features(self, xf: np.ndarray) -> np.ndarray:
        """Return features minus reference features (feature,) of x f (x, fitted)."""
        z = (xf - self.reference_xf).ravel() @ self.project
        if self.spread is None:
            return z
        points = self.forward.nonlinear_points(self.reference_rows + z @ self.spread)
        return np.concatenate([z, points - self.reference_points])

    def error(self, xf: np.ndarray, values: np.ndarray) -> float:
        """Return by how much the compressed chi2 of all points misses the plain one, per point.

        Parameters
        ----------
        xf
            x f (x, fitted) at which to compare.
        values
            Data (data,).
        """
        everything = np.ones(len(values), dtype=bool)
        short = self.forms(values, everything)[0](self.features(xf))
        residual = self.forward.predict(self.completion @ xf.T) - values
        return abs(short - float(residual @ self.precision @ residual)) / len(values)

    @cached_property
    def _mode_response(self) -> np.ndarray:
        assert self.modes is not None
        return self.modes @ self.response

    def nonlinear_sets(self, training: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which nonlinear points enter the training and which the validation chi2 (point,).

        A mode is made of all points, so with modes all of them enter both.
        """
        inside = training[~self.forward.linear]
        return (inside, ~inside) if self.modes is None else (np.ones_like(inside), np.ones_like(inside))

    def forms(self, values: np.ndarray, training: np.ndarray) -> tuple[QuadraticForm, QuadraticForm]:
        """Return the training and validation chi2 of one replica as quadratic forms.

        Parameters
        ----------
        values
            Pseudodata (data,).
        training
            Boolean mask (data,): points, or modes, of the training set.
        """
        held = ~training
        target = values - self.reference_predictions
        pulled = self.precision @ target
        whole = QuadraticForm(self.gram, self.dual.T @ target, float(target @ pulled))
        if not held.any():
            return whole, whole.minus(whole)
        if self.modes is not None:
            design, goal = self._mode_response[held], self.modes[held] @ target
            validation = QuadraticForm(design.T @ design, design.T @ goal, float(goal @ goal))
            return whole.minus(validation), validation
        extra = _gram(self.precision[np.ix_(held, held)], self.dual[held], pulled[held])
        validation = _gram(self.covariance[np.ix_(held, held)], self.response[held], target[held])
        return whole.minus(extra), validation


def _gram(block: np.ndarray, columns: np.ndarray, target: np.ndarray) -> QuadraticForm:
    """Form of |block^(-1/2) (columns z - target)|^2."""
    factor = cholesky(block, lower=True, check_finite=False)
    half = solve_triangular(factor, np.column_stack([columns, target]), lower=True, check_finite=False)
    design, goal = half[:, :-1], half[:, -1]
    return QuadraticForm(design.T @ design, design.T @ goal, float(goal @ goal))


def compress(
    forward: ForwardMap,
    covariance: np.ndarray,
    reference: Any,
    completion: np.ndarray,
    cut: float = 1e-6,
    modes: np.ndarray | None = None,
) -> Compression:
    """Factorise a theory map under a covariance.

    Parameters
    ----------
    forward
        Theory map on the union grid.
    covariance
        (data, data), positive definite.
    reference
        A pdf callable: the forms are centred on it.
    completion
        (14, fitted) matrix from the fitted combinations to the evolution basis.
    cut
        Relative singular value below which a feature is dropped; 0 keeps every one.
    modes
        (mode, data) whitening to the modes that the split divides; ``None``: it divides points.
    """
    factor = cholesky(covariance, lower=True)
    reference_xf = (np.linalg.pinv(completion) @ np.asarray(reference(forward.x))).T
    crooked = np.flatnonzero(~forward.linear)
    linear = np.einsum("dkx,kf->dxf", forward.linear_matrix(), completion).reshape(len(covariance), -1)
    stack = solve_triangular(factor, linear, lower=True)
    rows = spread = reference_rows = reference_points = None
    if len(crooked):
        rows = np.einsum("rkx,kf->xfr", forward.nonlinear_matrix(), completion).reshape(reference_xf.size, -1)
        reference_rows = reference_xf.ravel() @ rows
        reference_points = forward.nonlinear_points(reference_rows)
        whitening = solve_triangular(factor, np.eye(len(covariance))[:, crooked], lower=True)
        stack = np.concatenate([stack, _row_weights(forward, reference_rows, whitening)[:, None] * rows.T])
    left, singular, right = np.linalg.svd(stack, full_matrices=False)
    rank = int((singular > cut * singular[0]).sum()) if singular[0] > 0 else 0
    response = factor @ left[: len(covariance), :rank]
    if rows is not None:
        spread = (right[:rank] @ rows) / singular[:rank, None]
        response = np.column_stack([response, np.eye(len(covariance))[:, crooked]])
    dual = cho_solve((factor, True), response)
    return Compression(
        forward, completion, (singular[:rank, None] * right[:rank]).T, spread,
        reference_xf, reference_rows, reference_points, forward.predict(completion @ reference_xf.T), rank, cut,
        covariance, cho_solve((factor, True), np.eye(len(covariance))), response, dual, response.T @ dual, modes,
    )  # fmt: skip


def _row_weights(forward: ForwardMap, rows: np.ndarray, whitening: np.ndarray) -> np.ndarray:
    """Return by how many standard deviations the nonlinear points move per unit of each row (row,)."""
    with precision_context("float64"):
        slopes = np.abs(jax.jacfwd(forward.nonlinear_points)(rows))
    return np.linalg.norm(whitening, axis=0) @ slopes
