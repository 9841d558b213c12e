"""A surrogate as a function of JAX arrays: the twin of a wrapped operator, without callbacks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from partonfit._errors import SettingError
from partonfit.surrogates._network import tracing


class NativeOperator:
    """What ``wrap_operator(surrogate)`` returns: called like a wrapped operator, differentiable any number of times.

    ``calls`` stays empty: no black box is called.
    """

    def __init__(self, surrogate: Any, mode: str, at: Any) -> None:
        self.operator, self.mode = surrogate, mode
        self.at = None if at is None else np.array(at, dtype=np.float64)
        self.n_state, self.n_obs, self.linear = surrogate.n_state, surrogate.n_obs, surrogate.linear
        self.calls: dict[str, int] = dict.fromkeys(("forward", "tangent_linear", "adjoint", "stored"), 0)

    def __repr__(self) -> str:
        """Return one line: name, mode and sizes."""
        return f"<{self.operator.name} in JAX: {self.mode}, {self.n_state} -> {self.n_obs}>"

    def __call__(self, *arguments: Any) -> jax.Array:
        """Return forward(x), or tangent_linear(x, dx), by the mode."""
        if self.at is not None:
            arguments = (self.at, *arguments)
        if len(arguments) != (1 if self.mode == "forward" else 2):
            msg = f"{self!r} takes {'x' if self.mode == 'forward' else 'x, dx (dx alone where at= fixes x)'}."
            raise SettingError(msg)
        return self.forward(*arguments) if self.mode == "forward" else self.tangent_linear(*arguments)

    def forward(self, x: Any) -> jax.Array:
        """Return the mean observations (..., observation) of states (..., state)."""
        x = _float(x)
        if not x.ndim or x.shape[-1] != self.n_state:
            msg = f"The state given to {self.operator.name} must have shape (..., {self.n_state}), not {x.shape}."
            raise SettingError(msg)
        precision = "float64" if x.dtype == jnp.float64 else "float32"
        evaluator = self.operator.evaluator(precision)
        with tracing(precision):
            y = evaluator.traced(x.reshape(-1, self.n_state).astype(precision))
        return y.reshape(*x.shape[:-1], self.n_obs).astype(x.dtype)

    def tangent_linear(self, x: Any, dx: Any) -> jax.Array:
        """Return the derivative (..., observation) at ``x`` along ``dx``."""
        x, dx = jnp.broadcast_arrays(_float(x), _float(dx))
        return jax.jvp(self.forward, (x,), (dx.astype(x.dtype),))[1]

    def adjoint(self, x: Any, dy: Any) -> jax.Array:
        """Return the gradient (..., state) of dy . forward(x)."""
        x, dy = _float(x), _float(dy)
        axes = np.broadcast_shapes(x.shape[:-1], dy.shape[:-1])
        x, dy = jnp.broadcast_to(x, (*axes, self.n_state)), jnp.broadcast_to(dy, (*axes, self.n_obs))
        return jax.vjp(self.forward, x)[1](dy.astype(x.dtype))[0]

    def gauss_newton_product(self, x: Any, v: Any, weight: Any = None) -> jax.Array:
        """Return J^T W J v; ``weight`` as in :meth:`WrappedOperator.gauss_newton_product`."""
        y = self.tangent_linear(x, v)
        if callable(weight):
            y = weight(y)
        elif weight is not None:
            w = jnp.asarray(weight, dtype=y.dtype)
            y = y * w if w.ndim == 1 else jnp.matmul(y, w.T, precision="highest")
        return self.adjoint(x, y)


def _float(x: Any) -> jax.Array:
    array = jnp.asarray(x)
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(jnp.result_type(float))
