"""From an operator in NumPy to a function that JAX can differentiate, map and compile."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from partonfit._errors import SettingError, nearest
from partonfit.operators._host import Host
from partonfit.operators._primitives import A, F, T
from partonfit.operators._store import open_store

_MODES = ("forward", "tangent_linear")
_POLICIES = ("raise", "nan")


@dataclass(frozen=True, eq=False, repr=False)
class WrappedOperator:
    """An operator as a function of JAX arrays; :func:`wrap_operator` makes it.

    Calling it is ``forward(x)`` in mode "forward" and ``tangent_linear(x, dx)`` in mode
    "tangent_linear" (``dx`` alone with a fixed state). It has the protocol's attributes, but takes
    and gives JAX arrays, with any leading axes.

    Attributes
    ----------
    operator
        The operator as it was given.
    mode
        "forward" or "tangent_linear".
    at
        The fixed state of mode "tangent_linear" (state,), or None.
    """

    operator: Any
    mode: str
    at: np.ndarray | None
    _host: Host = field(repr=False)

    def __repr__(self) -> str:
        """Return one line: name, mode and sizes."""
        fixed = " at a fixed state" if self.at is not None else ""
        return f"<wrapped {self._host.name}: {self.mode}{fixed}, {self.n_state} -> {self.n_obs}>"

    def __call__(self, *arguments: Any) -> jax.Array:
        """Return forward(x), or tangent_linear(x, dx), by the mode."""
        if self.mode == "forward":
            expected, function = "x", self.forward
        elif self.at is None:
            expected, function = "x, dx", self.tangent_linear
        else:
            expected, function, arguments = "dx", self.tangent_linear, (self.at, *arguments)
        if len(arguments) != (1 if self.mode == "forward" else 2):
            msg = f"Operator '{self._host.name}' in mode '{self.mode}' is called with ({expected})."
            raise SettingError(msg)
        return function(*arguments)

    @property
    def n_state(self) -> int:
        """Size of the state."""
        return self._host.n_state

    @property
    def n_obs(self) -> int:
        """Number of observations."""
        return self._host.n_obs

    @property
    def linear(self) -> bool:
        """Whether the derivatives do not depend on the state."""
        return self._host.linear

    @property
    def calls(self) -> dict[str, int]:
        """Calls of the operator so far: forward, tangent_linear, adjoint, and results taken from the store."""
        return dict(self._host.calls)

    def forward(self, x: Any) -> jax.Array:
        """Return the observations (..., observation) of states (..., state)."""
        (x,) = _floats(x)
        scalar, (x,) = self._vectors(("state", x, self.n_state))
        return _as_scalar(F.bind(x, host=self._host), scalar)

    def tangent_linear(self, x: Any, dx: Any) -> jax.Array:
        """Return H(x) dx (..., observation); leading axes of x and dx stretch over one another."""
        x, dx = _floats(x, dx)
        scalar, (x, dx) = self._vectors(("state", x, self.n_state), ("direction dx", dx, self.n_state))
        return _as_scalar(T.bind(x, dx, host=self._host), scalar)

    def adjoint(self, x: Any, dy: Any) -> jax.Array:
        """Return H(x)^T dy (..., state); leading axes of x and dy stretch over one another."""
        x, dy = _floats(x, dy)
        scalar, (x, dy) = self._vectors(("state", x, self.n_state), ("observation vector dy", dy, self.n_obs))
        return _as_scalar(A.bind(x, dy, host=self._host), scalar)

    def gauss_newton_product(self, x: Any, v: Any, weight: Any = None) -> jax.Array:
        """Return J^T W J v (..., state), J being the Jacobian of the operator at x.

        It is the Hessian of 1/2 (y - H(x))^T W (y - H(x)) without the term with second derivatives of
        the operator, which no black box has: exact for linear operators and close where residuals
        are small. One tangent-linear and one adjoint call.

        Parameters
        ----------
        x, v
            States and directions (..., state).
        weight
            W: None for the identity, a vector (observation,) for a diagonal, a matrix
            (observation, observation), or a function of (..., observation).

        Examples
        --------
        >>> import numpy as np, partonfit as pf
        >>> H = pf.wrap_operator(pf.matrix_operator([[1.0, 2.0], [0.0, 1.0]]))
        >>> H.gauss_newton_product(np.zeros(2), np.array([1.0, 0.0]), weight=np.array([1.0, 3.0])).tolist()
        [1.0, 2.0]
        """
        y = self.tangent_linear(x, v)
        if weight is not None and callable(weight):
            y = weight(y)
        elif weight is not None:
            w = jnp.asarray(weight, dtype=y.dtype)
            if w.shape not in ((self.n_obs,), (self.n_obs, self.n_obs)):
                msg = f"weight must have shape ({self.n_obs},) or ({self.n_obs}, {self.n_obs}), not {w.shape}."
                raise SettingError(msg)
            y = y * w if w.ndim == 1 else jnp.matmul(y, w.T, precision="highest")
        return self.adjoint(x, y)

    def _vectors(self, *arguments: tuple[str, Any, int]) -> tuple[bool, list[Any]]:
        """Check last axes, give all the same number of axes, and say whether a scalar is wanted back."""
        scalar = self.n_state == self.n_obs == 1 and all(a.ndim == 0 for _, a, _ in arguments)
        arrays = []
        for what, a, size in arguments:
            vector = a.reshape(1) if a.ndim == 0 and size == 1 else a
            if vector.ndim == 0 or vector.shape[-1] != size:
                msg = f"The {what} given to operator '{self._host.name}' must have shape (..., {size}), not {a.shape}."
                raise SettingError(msg)
            arrays.append(vector)
        try:
            np.broadcast_shapes(*(a.shape[:-1] for a in arrays))
        except ValueError:
            shapes = " and ".join(str(a.shape) for a in arrays)
            msg = f"The leading axes of {shapes} given to operator '{self._host.name}' do not fit one another."
            raise SettingError(msg) from None
        depth = max(a.ndim for a in arrays)
        return scalar, [a if a.ndim == depth else a.reshape(*[1] * (depth - a.ndim), *a.shape) for a in arrays]


def _floats(*values: Any) -> list[jax.Array]:
    """Return JAX arrays of one float type; whole numbers become floats."""
    arrays = [jnp.asarray(value) for value in values]
    dtype = jnp.result_type(*arrays)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        msg = f"Operators take real numbers, not {dtype}."
        raise SettingError(msg)
    if not jnp.issubdtype(dtype, jnp.floating):
        dtype = jnp.result_type(float)
    return [a if a.dtype == dtype else a.astype(dtype) for a in arrays]


def _as_scalar(array: jax.Array, scalar: bool) -> jax.Array:
    return array.reshape(()) if scalar else array


# Wrapping the same operator again gives the same callable while that lives: jit then finds what it
# has compiled. Weak, so that a large operator is not kept for this alone.
_wrapped: weakref.WeakValueDictionary[tuple[Any, ...], WrappedOperator] = weakref.WeakValueDictionary()


def wrap_operator(
    op: Any, *, mode: str = "forward", at: Any = None, reload_results: Any = False, nonfinite: str = "raise"
) -> WrappedOperator:
    """Make an operator written in NumPy a function that JAX can differentiate, map and compile.

    ``jit``, ``grad``, ``value_and_grad``, ``jvp``, ``vjp``, ``linearize``, ``vmap`` (nested, any
    axis), ``jacfwd``, ``jacrev``, ``scan``, ``checkpoint`` and sharding over devices work, in any
    order, with one forward and one adjoint call per gradient. Second derivatives are refused, except
    for operators that say they are linear.

    Parameters
    ----------
    op
        Anything that follows :class:`ObservationOperator`.
    mode
        "forward": the result is called with states x. "tangent_linear": with (x, dx), or with dx
        alone when ``at`` fixes the state; derivatives with respect to dx are then the adjoint.
    at
        The fixed state (state,) of mode "tangent_linear". It is copied: changing yours later does
        not move the linearisation point.
    reload_results
        True keeps results on disk, in the folder ``operators`` of the cache, and takes them from
        there; a path names the folder. The operator needs a ``key``.
    nonfinite
        "raise": a value that is not finite, in or out, is an error. "nan": a sample whose state is
        not finite gives NaN without a call, and what the operator returns is passed on: one diverged
        member of an ensemble does not end the others.

    Returns
    -------
    WrappedOperator
        A function of JAX arrays with leading axes, x (..., state) to y (..., observation). With one
        state and one observation scalars are taken too. Also ``tangent_linear``, ``adjoint``,
        ``gauss_newton_product`` and ``calls``.

    Raises
    ------
    SettingError
        When ``op`` is no operator, a mode or policy is unknown, or results cannot be stored.

    Notes
    -----
    The operator gets private float64 copies and its results are taken down to the caller's type at
    the end. Outside ``jit`` it runs in the calling thread. Inside, it runs on a thread of the
    compiled program; an exception then reaches you as XLA's, unless
    ``partonfit.operators.original_errors`` is around the call.

    ``vmap`` of ``cond`` calls the operator for both branches. ``jit(grad(f))`` leaves out a forward
    call whose value is not used: checks of the domain belong in the adjoint too. In a program that
    the compiler splits over devices one device makes the calls for all; inside ``shard_map`` each
    device makes those of its part.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, partonfit as pf
    >>> op = pf.operator(
    ...     forward=lambda x: x**2, tangent_linear=lambda x, dx: 2 * x * dx,
    ...     adjoint=lambda x, dy: 2 * x * dy, n_state=3, n_obs=3,
    ... )
    >>> H = pf.wrap_operator(op)
    >>> jax.jit(jax.grad(lambda x: H(x).sum()))(jnp.arange(3.0)).tolist()
    [0.0, 2.0, 4.0]
    >>> H.calls["adjoint"]
    1
    """
    for what, value, known in (("mode", mode, _MODES), ("nonfinite", nonfinite, _POLICIES)):
        if value not in known:
            msg = f"Unknown {what} {value!r}. {nearest(str(value), known, what=what)}"
            raise SettingError(msg)
    if isinstance(op, WrappedOperator):
        op = op.operator
    if callable(getattr(op, "wrapped", None)):
        return op.wrapped(mode, at)  # it computes in JAX: a callback would be slower, and can hang
    store = open_store(reload_results, getattr(op, "key", None))
    host_key = (id(op), nonfinite, str(store.folder) if store else None)
    fixed = None
    if at is not None:
        if mode != "tangent_linear":
            msg = "at= fixes the state of mode='tangent_linear'; a forward call takes its state as argument."
            raise SettingError(msg)
        fixed = np.array(at, dtype=np.float64)
    key = (*host_key, mode, None if fixed is None else fixed.tobytes())
    found = _wrapped.get(key)
    if found is None:
        found = WrappedOperator(op, mode, fixed, Host(op, store, nonfinite))
        if fixed is not None and fixed.shape != (found.n_state,):
            msg = f"at must have shape ({found.n_state},), not {fixed.shape}."
            raise SettingError(msg)
        _wrapped[key] = found
    return found
