"""The chi2 of a replica without the data dimension: a quadratic form in a few hundred features.

With C = L L^T the covariance of all data and M the linear theory map, the whitened map is
factorised once, L^-1 M = U S V^T, and cut at a relative singular value. The features z = S V^T f
then stand for every prediction: p = L U z. Points that are no linear function of the PDF (ratios)
stay as explicit features. For any subset of the points, chi2 is z^T G z - 2 h^T z + c with a small
symmetric G; the training subset comes from the validation points alone, because

    chi2_training = |w|^2 - (P w)_v^T (P_vv)^-1 (P w)_v,     P = C^-1, w the whole residual

(block inverse of C), which costs the smaller of the two factorisations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from partonfit.theory import ForwardMap


class QuadraticForm(NamedTuple):
    """chi2 as d^T matrix d - 2 vector^T d + constant, d = features - reference features."""

    matrix: np.ndarray
    vector: np.ndarray
    constant: float

    def __call__(self, features: np.ndarray) -> float:
        """Return chi2 at ``features`` (feature,), measured from the reference."""
        return float(features @ (self.matrix @ features - 2 * self.vector) + self.constant)


@dataclass(frozen=True)
class Compression:
    """Features of a theory map under a covariance; made by :func:`compress`.

    Attributes
    ----------
    completion
        (14, fitted): from the fitted combinations to the evolution basis.
    linear
        (x * fitted, feature): features of the linear points from the flattened x f (x, fitted).
    rows
        (x * fitted, row): rows of the nonlinear points, or ``None`` when all points are linear.
    mix
        (nonlinear, feature): features that the nonlinear points add.
    reference
        (feature,): features of the reference PDF; every form is centred there, so that float32
        differences keep their digits.
    response, dual
        (data, feature): predictions per unit feature, and the inverse covariance times them.
    precision
        (data, data): inverse of the covariance.
    """

    forward: ForwardMap
    completion: np.ndarray
    linear: np.ndarray
    rows: np.ndarray | None
    mix: np.ndarray | None
    reference: np.ndarray
    reference_xf: np.ndarray
    reference_points: np.ndarray | None
    rank: int
    cut: float
    covariance: np.ndarray
    precision: np.ndarray
    response: np.ndarray
    dual: np.ndarray

    def features(self, xf: np.ndarray) -> np.ndarray:
        """Return features minus reference features (feature,) of x f (x, fitted)."""
        shift = (xf - self.reference_xf).ravel()
        features = shift @ self.linear
        if self.mix is not None:
            points = self.forward.nonlinear_points(xf.ravel() @ self.rows)
            features = features + (points - self.reference_points) @ self.mix
        return features

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

    def forms(self, values: np.ndarray, training: np.ndarray) -> tuple[QuadraticForm, QuadraticForm]:
        """Return the training and validation chi2 of one replica as quadratic forms.

        Parameters
        ----------
        values
            Pseudodata (data,).
        training
            Boolean mask (data,): points of the training set.
        """
        held = ~training
        pulled = self.precision @ values
        # All points first: the features are whitened, so their own form is the identity.
        whole = _Form(np.eye(len(self.reference)), self.dual.T @ values, float(values @ pulled))
        if not held.any():
            return self._centred(whole), self._centred(whole.minus(whole))
        extra = _gram(self.precision[np.ix_(held, held)], self.dual[held], pulled[held])
        validation = _gram(self.covariance[np.ix_(held, held)], self.response[held], values[held])
        return self._centred(whole.minus(extra)), self._centred(validation)

    def _centred(self, form: _Form) -> QuadraticForm:
        pushed = form.matrix @ self.reference
        constant = form.constant + self.reference @ (pushed - 2 * form.vector)
        return QuadraticForm(form.matrix, form.vector - pushed, float(constant))


class _Form(NamedTuple):
    """A quadratic form in absolute features."""

    matrix: np.ndarray
    vector: np.ndarray
    constant: float

    def minus(self, other: _Form) -> _Form:
        return _Form(self.matrix - other.matrix, self.vector - other.vector, self.constant - other.constant)


def _gram(block: np.ndarray, columns: np.ndarray, target: np.ndarray) -> _Form:
    """Form of |block^(-1/2) (columns z - target)|^2."""
    factor = cholesky(block, lower=True, check_finite=False)
    half = solve_triangular(factor, np.column_stack([columns, target]), lower=True, check_finite=False)
    design, goal = half[:, :-1], half[:, -1]
    return _Form(design.T @ design, design.T @ goal, float(goal @ goal))


def compress(
    forward: ForwardMap, covariance: np.ndarray, reference: Any, completion: np.ndarray, cut: float = 1e-6
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
    """
    factor = cholesky(covariance, lower=True)
    fitted = np.linalg.pinv(completion)
    linear = np.einsum("dkx,kf->dxf", forward.linear_matrix(), completion)
    whitened = solve_triangular(factor, linear.reshape(len(covariance), -1), lower=True)
    left, singular, right = np.linalg.svd(whitened, full_matrices=False)
    rank = int((singular > cut * singular[0]).sum()) if singular[0] > 0 else 0
    basis, project = left[:, :rank], (singular[:rank, None] * right[:rank]).T
    reference_xf = (fitted @ np.asarray(reference(forward.x))).T
    rows = mix = reference_points = None
    features = reference_xf.ravel() @ project
    crooked = np.flatnonzero(~forward.linear)
    if len(crooked):
        columns = solve_triangular(factor, np.eye(len(covariance))[:, crooked], lower=True)
        basis, upper = _orthogonal(left[:, :rank], columns)
        mix = upper[:, rank:].T
        project = np.pad(project, ((0, 0), (0, len(crooked))))
        rows = np.einsum("rkx,kf->xfr", forward.nonlinear_matrix(), completion).reshape(reference_xf.size, -1)
        reference_points = forward.nonlinear_points(reference_xf.ravel() @ rows)
        features = reference_xf.ravel() @ project + reference_points @ mix
    return Compression(
        forward, completion, project, rows, mix, features, reference_xf, reference_points, rank, cut, covariance,
        precision=cho_solve((factor, True), np.eye(len(covariance))),
        response=factor @ basis,
        dual=solve_triangular(factor, basis, lower=True, trans=1),
    )  # fmt: skip


def _orthogonal(basis: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Extend an orthonormal basis by columns: (extended, R) with [basis, columns] = extended R."""
    rank, extra = basis.shape[1], columns.shape[1]
    overlap = basis.T @ columns
    fresh, triangle = np.linalg.qr(columns - basis @ overlap)
    upper = np.block([[np.eye(rank), overlap], [np.zeros((extra, rank)), triangle]])
    return np.column_stack([basis, fresh]), upper
