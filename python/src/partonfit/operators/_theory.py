"""Theory tables as an operator in NumPy: from x f on the tables' grid to predictions for data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from partonfit._errors import SettingError, nearest
from partonfit._vocabulary import EVOLUTION, FITTED, to_evolution
from partonfit.operators._adapters import operator
from partonfit.operators._protocol import Operator
from partonfit.theory._forward import ForwardMap, QuadraticRows
from partonfit.theory._operations import OPERATIONS

_BASES = ("evolution", "fitted")
_TINY = 1e-100  # an imaginary step whose square is zero in float64


def theory_operator(data: Any, theory: Any = None, *, basis: str = "evolution") -> Operator:
    """Make an operator of theory tables, the same predictions as :func:`predictions`.

    Parameters
    ----------
    data
        Data after cuts (:func:`load_data`), a list of datasets, or a forward map.
    theory
        The theory (:func:`load_theory`) that has their tables; nothing with a forward map.
    basis
        "evolution": the state is x f(x, Q0) of the 14 combinations of the evolution basis on the
        union of the tables' x grids, flattened (flavour, x). "fitted": of the 8 combinations that a
        network parametrises (Sigma, g, V, V3, V8, T3, T8, T15).

    Returns
    -------
    Operator
        From (flavour * x,) to predictions (data,); NumPy alone, batched, thread-safe, with a key made
        of the tables' hashes, and linear where all data points are linear in the PDF.

    Raises
    ------
    SettingError
        When the basis is unknown, or a theory is missing or one too many.

    Examples
    --------
    >>> import partonfit as pf
    >>> op = theory_operator(pf.load_data("hera"), pf.load_theory("hera"), basis="fitted")
    >>> op
    <theory tables: 336 -> 1145, batched, linear, thread-safe>
    """
    if basis not in _BASES:
        msg = f"Unknown basis {basis!r}. {nearest(str(basis), _BASES, what='basis')}"
        raise SettingError(msg)
    if isinstance(data, ForwardMap):
        if theory is not None:
            msg = "A forward map holds its theory: leave out the second argument."
            raise SettingError(msg)
        forward = data
    else:
        if theory is None:
            msg = "theory_operator needs data and a theory: theory_operator(data, load_theory(...))."
            raise SettingError(msg)
        from partonfit.theory._map import forward_map

        forward = forward_map(data, theory)
    tables = _Tables(forward, basis)
    return operator(
        forward=tables.forward, tangent_linear=tables.tangent_linear, adjoint=tables.adjoint,
        n_state=tables.n_state, n_obs=forward.n_data, batched=True, thread_safe=True,
        linear=bool(forward.linear.all()), name="theory tables", key=tables.key,
    )  # fmt: skip


class _Tables:
    """The three functions of a forward map; leading axes are free."""

    def __init__(self, forward: ForwardMap, basis: str) -> None:
        self.map = forward
        self.rotation = to_evolution() if basis == "fitted" else np.eye(len(EVOLUTION))
        self.n_flavours = len(FITTED) if basis == "fitted" else len(EVOLUTION)
        self.n_state = self.n_flavours * len(forward.x)
        # The rows act on the chosen basis at once: the smaller one is the faster.
        self.matrix = np.einsum("rfx,fk->rkx", forward.matrix, self.rotation).reshape(-1, self.n_state)
        self.key = f"{forward.hash}|{basis}|{_content(forward)}"

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return predictions (..., data)."""
        return self.map.combine(self._rows(x))

    def tangent_linear(self, x: np.ndarray, dx: np.ndarray) -> np.ndarray:
        """Return the change of the predictions (..., data)."""
        change = self._change_of_rows(x, dx)
        result = np.zeros((*change.shape[:-1], self.map.n_data))
        for points, rows, slope in self._slopes(x):
            result[..., points] += slope * change[..., rows]
        return result

    def adjoint(self, x: np.ndarray, dy: np.ndarray) -> np.ndarray:
        """Return the gradient (..., state) of dy . predictions."""
        weight = np.zeros((*dy.shape[:-1], self.map.n_rows))
        for points, rows, slope in self._slopes(x):
            part = slope * dy[..., points]
            # One row can serve several points (a common normalisation), so add, do not set.
            np.add.at(weight, (..., rows), part)  # type: ignore[arg-type]
        result = weight[..., self.map.linear_rows] @ self.matrix
        if self.map.quadratic:
            xf = self._pdf(x)
            bent = np.zeros(np.broadcast_shapes(xf.shape, (*dy.shape[:-1], 1, 1)))
            for block in self.map.quadratic:
                _add_gradient(block, xf, weight[..., block.rows], bent)
            result = result + np.einsum("...fx,fk->...kx", bent, self.rotation).reshape(*dy.shape[:-1], -1)
        return result

    def _pdf(self, x: np.ndarray) -> np.ndarray:
        return np.einsum("fk,...kx->...fx", self.rotation, x.reshape(*x.shape[:-1], self.n_flavours, -1))

    def _rows(self, x: np.ndarray) -> np.ndarray:
        result = np.empty((*x.shape[:-1], self.map.n_rows))
        result[..., self.map.linear_rows] = x @ self.matrix.T
        for block in self.map.quadratic:
            result[..., block.rows] = block.predict(self._pdf(x))
        return result

    def _change_of_rows(self, x: np.ndarray, dx: np.ndarray) -> np.ndarray:
        result = np.empty((*dx.shape[:-1], self.map.n_rows))
        result[..., self.map.linear_rows] = dx @ self.matrix.T
        if self.map.quadratic:
            xf, d_xf = self._pdf(x), self._pdf(dx)
            for block in self.map.quadratic:
                # A quadratic form q: q(a + b) - q(a - b) = 2 times its derivative at a along b, exactly.
                result[..., block.rows] = (block.predict(xf + d_xf) - block.predict(xf - d_xf)) / 2
        return result

    def _slopes(self, x: np.ndarray) -> list[tuple[np.ndarray, np.ndarray, Any]]:
        """Return (points, rows, derivative of the points by the rows) for every operand of every group.

        The operations are ratios and sums, so an imaginary step gives their derivatives to rounding.
        """
        values = None
        result: list[tuple[np.ndarray, np.ndarray, Any]] = []
        for group in self.map.groups:
            operation = OPERATIONS[group.operation]
            if operation.linear:
                result += [(group.points, rows, 1.0) for rows in group.rows]
                continue
            values = self._rows(x) if values is None else values
            operands = [values[..., rows].astype(complex) for rows in group.rows]
            for k, rows in enumerate(group.rows):
                result.append((group.points, rows, _partial(operation.apply, operands, k)))
        return result


def _partial(function: Callable[..., Any], operands: list[np.ndarray], k: int) -> np.ndarray:
    moved = [value + 1j * _TINY if i == k else value for i, value in enumerate(operands)]
    return function(*moved).imag / _TINY


def _add_gradient(block: QuadraticRows, xf: np.ndarray, weight: np.ndarray, total: np.ndarray) -> None:
    """Add to ``total`` (..., 14, x) the gradient of weight . rows of a quadratic block."""
    own = xf[..., block.x_index]
    mixed = np.einsum("...r,rcxy->...cxy", weight, block.values, optimize=True)
    first = np.einsum("...cxy,...cy->...cx", mixed, own[..., block.second, :])
    second = np.einsum("...cxy,...cx->...cy", mixed, own[..., block.first, :])
    for legs, part in ((block.first, first), (block.second, second)):
        np.add.at(total, (..., legs[:, None], block.x_index[None, :]), part)  # type: ignore[arg-type]


def _content(forward: ForwardMap) -> str:
    """Return a hash of what the tables' own hash leaves out: which points, and how they combine."""
    import hashlib

    sha = hashlib.sha256(forward.matrix.tobytes())
    for group in forward.groups:
        sha.update(group.operation.encode() + group.points.tobytes() + group.rows.tobytes())
    for block in forward.quadratic:
        sha.update(block.values.tobytes())
    return sha.hexdigest()
