"""Covariance matrices of data, in float64: sources, assembly, factorisation.

The covariance is ``diag(s^2) + A A^T``: ``s`` collects the statistical and all point-to-point
independent uncertainties, each column of ``A`` is one correlated source. A source of type CORR acts
on the points of one dataset only; a named source acts on every dataset that lists it. Multiplicative
sources are proportional to the data (experimental covariance) or to predictions (t0 covariance,
arXiv:0912.2276).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from partonfit._errors import DataError
from partonfit.data._dataset import Dataset
from partonfit.data._record import INDEPENDENT, WITHIN


@dataclass(frozen=True, eq=False)
class Sources:
    """Uncertainties of several datasets, by source.

    Attributes
    ----------
    independent
        Size of the point-to-point independent part (data,).
    correlated
        Sizes of the correlated sources (data, source).
    labels
        For each correlated source a label of strings: ``(name,)`` for a shared source,
        ``(dataset, type, number)`` for one that acts within a dataset.
    """

    independent: np.ndarray
    correlated: np.ndarray
    labels: tuple[tuple[str, ...], ...]


def sources(datasets: Sequence[Dataset], scale: np.ndarray) -> Sources:
    """Sort all uncertainties by source.

    Parameters
    ----------
    datasets
        The datasets, in order.
    scale
        What multiplicative sources are proportional to (data,): the data or t0 predictions.
    """
    n = sum(dataset.n_data for dataset in datasets)
    variance = np.zeros(n)
    columns: dict[tuple[str, ...], np.ndarray] = {}
    start = 0
    for dataset in datasets:
        rows = slice(start, start + dataset.n_data)
        start = rows.stop
        variance[rows] = dataset.stat**2
        sizes = dataset.systematics.absolute(scale[rows])
        counts: dict[str, int] = {}
        for kind, size in zip(dataset.systematics.types, sizes.T, strict=True):
            if kind in INDEPENDENT:
                variance[rows] += size**2
                continue
            label: tuple[str, ...] = (kind,)
            if kind in WITHIN:
                counts[kind] = counts.get(kind, 0) + 1
                label = (dataset.name, kind, str(counts[kind]))
            column = columns.setdefault(label, np.zeros(n))
            column[rows] = size
    correlated = np.stack(list(columns.values()), axis=1) if columns else np.zeros((n, 0))
    return Sources(np.sqrt(variance), correlated, tuple(columns))


def assemble(datasets: Sequence[Dataset], scale: np.ndarray, extra: np.ndarray | None = None) -> np.ndarray:
    """Return the covariance (data, data) of several datasets plus ``extra``, divided by their weights."""
    found = sources(datasets, scale)
    matrix = found.correlated @ found.correlated.T
    matrix[np.diag_indices_from(matrix)] += found.independent**2
    if extra is not None:
        matrix += extra
    root = np.sqrt(np.concatenate([np.full(d.n_data, d.weight) for d in datasets]))
    if (root != 1).any():
        matrix /= root[:, None]
        matrix /= root[None, :]
    return matrix


def regularise(matrix: np.ndarray, floor: float) -> np.ndarray:
    """Return the covariance with the eigenvalues of its correlation matrix raised to ``floor``.

    The variances stay as they are up to the same floor. A floor of 0 changes nothing but rounding.

    Examples
    --------
    >>> regularise(np.array([[1.0, 1.0], [1.0, 1.0]]), 0.1).round(2)
    array([[1.05, 0.95],
           [0.95, 1.05]])
    """
    sigma = np.sqrt(np.diag(matrix))
    values, vectors = np.linalg.eigh(matrix / np.outer(sigma, sigma))
    correlation = (vectors * np.maximum(values, floor)) @ vectors.T
    result = correlation * np.outer(sigma, sigma)
    return (result + result.T) / 2


def cholesky(matrix: np.ndarray, slices: Mapping[str, slice]) -> np.ndarray:
    """Return the lower Cholesky factor of a covariance.

    Parameters
    ----------
    matrix
        Covariance (data, data).
    slices
        Which rows belong to which dataset; used to name the culprit.

    Raises
    ------
    DataError
        When the matrix is not positive definite; the message names the dataset and the smallest
        eigenvalue of its correlation matrix.
    """
    if not np.isfinite(matrix).all():
        row = int(np.argwhere(~np.isfinite(matrix))[0][0])
        msg = f"The covariance is not finite in row {row} (dataset {_owner(row, slices)})."
        raise DataError(msg)
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise DataError(_diagnose(matrix, slices)) from None


def _owner(row: int, slices: Mapping[str, slice]) -> str:
    return next((name for name, rows in slices.items() if rows.start <= row < rows.stop), "?")


def _diagnose(matrix: np.ndarray, slices: Mapping[str, slice]) -> str:
    advice = "Cut the points that cause it, choose another variant, or set a floor for the eigenvalues."
    for name, rows in slices.items():
        block = matrix[rows, rows]
        zero = np.flatnonzero(np.diag(block) <= 0)
        if len(zero):
            return (
                f"The covariance of dataset {name} is singular: point {zero[0]} has no uncertainty "
                f"(variance {block[zero[0], zero[0]]:.3g}). {advice}"
            )
        smallest = _smallest_eigenvalue(block)
        if smallest <= 0 or not _factorises(block):
            return (
                f"The covariance of dataset {name} is singular: the smallest eigenvalue of its "
                f"correlation matrix is {smallest:.3g}. {advice}"
            )
    names = ", ".join(slices)
    return (
        f"The covariance of the datasets {names} together is singular, though none is by itself: the "
        f"smallest eigenvalue of the correlation matrix is {_smallest_eigenvalue(matrix):.3g}. {advice}"
    )


def _factorises(block: np.ndarray) -> bool:
    try:
        np.linalg.cholesky(block)
    except np.linalg.LinAlgError:
        return False
    return True


def _smallest_eigenvalue(block: np.ndarray) -> float:
    sigma = np.sqrt(np.diag(block))
    return float(np.linalg.eigvalsh(block / np.outer(sigma, sigma))[0])


def eigenmodes(matrix: np.ndarray, order: np.ndarray) -> np.ndarray:
    r"""Return the whitening (mode, data) to the eigenmodes of the correlation matrix.

    .. math:: W = \Lambda^{-1/2} U^T D^{-1}, \qquad C = D U \Lambda U^T D

    so that the chi2 of residuals r is :math:`|W r|^2`, mode by mode. Modes are sorted by eigenvalue.

    Parameters
    ----------
    matrix
        Covariance (data, data), positive definite.
    order
        Rows in an order of their own (data,), such as that of their labels: where eigenvalues coincide
        (points without correlations) the vectors depend on it.

    Examples
    --------
    >>> w = eigenmodes(np.array([[4.0, 1.0], [1.0, 1.0]]), np.arange(2))
    >>> np.allclose(w.T @ w @ np.array([[4.0, 1.0], [1.0, 1.0]]), np.eye(2))
    True
    """
    sigma = np.sqrt(np.diag(matrix))[order]
    values, vectors = np.linalg.eigh(matrix[np.ix_(order, order)] / np.outer(sigma, sigma))
    result = np.empty_like(vectors)
    result[:, order] = (vectors / sigma[:, None]).T / np.sqrt(values)[:, None]
    return result
