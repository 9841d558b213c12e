"""Rows quadratic in the PDF as a few signed squares, cheap enough for every step of a fit.

A row of a table for two hadrons is f^T A f, with f the fitted x f on the grid: some hundred thousand
products. Plausible PDFs are smooth and of a known size, flavour by flavour, so f is first written in units of a
prior covariance K, f = H u with H H^T = K. Then all rows share one basis of ``legs``, the leading
eigenvectors of sum_r G_r G_r^T with G_r = H^T A_r H in units of the row's own size, and each row keeps the
eigen-directions of its block that matter::

    row(f) = sum_d sign_d (direction_d . legs(f))^2

For few rows the detour over shared legs saves nothing; then every direction is a leg of its own.
The size of a row is its root mean square over PDFs drawn from K, and both cuts are made where what they leave
out has a root mean square under the tolerance in that unit. What this means for the PDFs of a fit is
measured after the fit with the whole tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from partonfit._vocabulary import EVOLUTION, TO_FLAVOURS

if TYPE_CHECKING:
    from partonfit.theory._forward import QuadraticRows

_CORRELATION = 1.0  # length in ln(1/x) + 5 (1 - x); neighbouring grid points are about 0.4 apart
_STRETCH = 5.0
_ROUGHNESS = 1e-3  # share of the prior variance without any smoothness
_LEAST_FLAVOUR = 0.1  # smallest size of a quark, in units of the largest at the same x
_SHARE = 0.3  # of the tolerance, for the legs; the directions take the rest, in quadrature
_WORTH_SHARING = 0.7  # shared legs are taken when they need less than this share of the products
_SMALLEST = 1e-5  # of the largest size over all x


@dataclass(frozen=True, eq=False)
class Reduction:
    """Quadratic rows in reduced form; made by :func:`reduce_rows`.

    Attributes
    ----------
    rows
        Row numbers in the forward map (row,).
    legs
        Linear features (leg, 14, x).
    directions
        (leg, direction), the square root of the weight inside; ``None`` when the legs are the directions.
    sums
        (direction, row): +1 or -1 where a direction belongs to a row.
    tolerance
        What was asked for.
    """

    rows: np.ndarray
    legs: np.ndarray = field(repr=False)
    directions: np.ndarray | None = field(repr=False)
    sums: np.ndarray = field(repr=False)
    tolerance: float

    def evaluate(self, legs: Any) -> Any:
        """Return the rows (..., row) from their legs (..., leg); pure, for NumPy and JAX alike."""
        xp = legs.__array_namespace__()
        sums = xp.asarray(self.sums, dtype=legs.dtype)
        projected = legs if self.directions is None else legs @ xp.asarray(self.directions, dtype=legs.dtype)
        # One product with a sparse matrix of signs costs less than slices and sums of many shapes.
        return (projected * projected) @ sums


def reduce_rows(
    blocks: Sequence[QuadraticRows], x: np.ndarray, reference: np.ndarray, completion: np.ndarray, tolerance: float
) -> Reduction:
    """Reduce all quadratic rows of a forward map.

    Parameters
    ----------
    blocks
        The rows, table by table.
    x
        Union grid of the map (x,).
    reference
        x f (14, x) of a PDF of typical size.
    completion
        (14, fitted) matrix from the fitted combinations to the evolution basis: only such PDFs are
        described by the result.
    tolerance
        Largest error of a row in units of its size, both as root mean squares over the prior; 0 keeps
        everything.

    Returns
    -------
    Reduction
        Its ``legs`` vanish at x points that no quadratic table has.
    """
    # Many small decompositions: the threads of BLAS would mostly wait for each other.
    with threadpool_limits(1, user_api="blas"):
        return _reduced(blocks, x, reference, completion, tolerance)


def _reduced(
    blocks: Sequence[QuadraticRows], x: np.ndarray, reference: np.ndarray, completion: np.ndarray, tolerance: float
) -> Reduction:
    used = np.unique(np.concatenate([block.x_index for block in blocks]))
    used = used[x[used] < 1]  # every PDF vanishes at x = 1; keeping it would only spoil the conditioning
    root = _prior_root(x[used], reference[:, used], completion)
    scaled = [root.T @ _matrices(block, used, completion) @ root for block in blocks]
    rows = np.concatenate([block.rows for block in blocks])
    sizes = np.concatenate([_size(part) for part in scaled])
    scaled = np.concatenate(scaled) / sizes[:, None, None]
    _, vectors = np.linalg.eigh(np.einsum("rij,rkj->ik", scaled, scaled, optimize=True))
    vectors = vectors[:, ::-1]
    rotated = vectors.T @ scaled @ vectors
    count = _n_legs(rotated, _SHARE * tolerance)
    directions, sums = _packed(
        [_directions(row, np.sqrt(1 - _SHARE**2) * tolerance) for row in rotated[:, :count, :count]], sizes
    )
    whitened = np.linalg.solve(root.T, vectors[:, :count])
    if count * (len(root) + len(sums)) > _WORTH_SHARING * len(root) * len(sums):
        whitened, directions = whitened @ directions, None
    legs = np.zeros((whitened.shape[1], len(EVOLUTION), len(x)))
    own = whitened.T.reshape(len(legs), len(used), -1)
    legs[:, :, used] = np.einsum("lxf,fk->lkx", own, np.linalg.pinv(completion))
    return Reduction(rows, legs, directions, sums, tolerance)


def _prior_root(x: np.ndarray, reference: np.ndarray, completion: np.ndarray) -> np.ndarray:
    """Return H with H H^T the prior covariance of the fitted x f (x * fitted): flavours apart, each smooth in x."""
    flavours = TO_FLAVOURS @ completion
    light = np.unique(flavours[flavours.any(axis=1)].round(12), axis=0)  # c and cbar are one unless V15 is fitted
    size = np.abs(light @ np.linalg.pinv(completion) @ reference)
    quark = light @ completion[EVOLUTION.index("g")] == 0
    size[quark] = np.maximum(size[quark], _LEAST_FLAVOUR * size[quark].max(axis=0))
    size = np.maximum(size, _SMALLEST * size.max())
    place = np.log(1 / x) + _STRETCH * (1 - x)
    smooth = np.exp(-0.5 * ((place[:, None] - place) / _CORRELATION) ** 2) + _ROUGHNESS * np.eye(len(x))
    mixing = np.linalg.pinv(light)
    covariance = np.einsum("fk,kx,xy,ky,gk->xfyg", mixing, size, smooth, size, mixing, optimize=True)
    covariance = covariance.reshape(mixing.shape[0] * len(x), -1)
    # The sizes at small and large x differ by many powers of ten: only the correlations are decomposed.
    scale = np.sqrt(covariance.diagonal())
    values, vectors = np.linalg.eigh(covariance / scale[:, None] / scale)
    return scale[:, None] * vectors * np.sqrt(np.maximum(values, _ROUGHNESS * values.mean() * 1e-6))


def _matrices(block: QuadraticRows, used: np.ndarray, completion: np.ndarray) -> np.ndarray:
    """Return the symmetric matrices (row, x * fitted, x * fitted) of a block in the fitted combinations."""
    fitted, count = completion.shape[1], len(used)
    pairs = np.einsum("cf,cg->cfg", completion[block.first], completion[block.second])
    dense = np.einsum("rcxy,cfg->rxfyg", block.values, pairs, optimize=True)
    inside = np.isin(block.x_index, used)
    dense = dense[:, inside][:, :, :, inside]
    place = np.searchsorted(used, block.x_index[inside])
    full = np.zeros((len(block.rows), count, fitted, count, fitted))
    full[:, place[:, None], :, place[None, :], :] = dense.transpose(1, 3, 0, 2, 4)
    full = full.reshape(len(block.rows), count * fitted, count * fitted)
    return 0.5 * (full + full.transpose(0, 2, 1))


def _size(matrices: np.ndarray) -> np.ndarray:
    """Return the root mean square (row,) of u^T G u over normal u."""
    mean = np.trace(matrices, axis1=1, axis2=2)
    found = np.sqrt(mean**2 + 2 * (matrices**2).sum(axis=(1, 2)))
    return np.where(found > 0, found, 1.0)


def _n_legs(rotated: np.ndarray, tolerance: float) -> int:
    """Return the smallest leading block (leg, leg) that misses at most ``tolerance`` of every row."""
    inside = np.stack([np.cumsum(np.cumsum(row**2, axis=0), axis=1).diagonal() for row in rotated])
    missed = np.sqrt(2 * np.maximum(inside[:, -1:] - inside, 0.0)).max(axis=0)
    enough = np.flatnonzero(missed <= tolerance)
    # Differences of sums of squares carry rounding: a tolerance below it keeps everything.
    return int(enough[0]) + 1 if len(enough) and tolerance > 1e-8 else rotated.shape[1]


def _directions(matrix: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues and eigenvectors of a row without the small ones."""
    values, vectors = np.linalg.eigh(matrix)
    order = np.argsort(-np.abs(values))
    tail = np.sqrt(2 * np.cumsum(values[order][::-1] ** 2))[::-1]
    kept = order[tail > tolerance]
    return values[kept], vectors[:, kept]


def _packed(kept: Sequence[tuple[np.ndarray, np.ndarray]], sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the directions (leg, direction) of all rows and the signs that sum them (direction, row)."""
    ends = np.cumsum([len(values) for values, _ in kept])
    directions, sums = np.zeros((len(kept[0][1]), ends[-1])), np.zeros((ends[-1], len(kept)))
    for row, ((values, vectors), end) in enumerate(zip(kept, ends, strict=True)):
        own = slice(end - len(values), end)
        directions[:, own] = vectors * np.sqrt(np.abs(values) * sizes[row])
        sums[own, row] = np.sign(values)
    return directions, sums
