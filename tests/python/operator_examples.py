"""An operator whose derivatives are known on paper, in NumPy and in JAX, and what people get wrong."""

import numpy as np
import partonfit as pf

N_STATE, N_OBS = 5, 3
W = np.random.default_rng(5).normal(size=(N_OBS, N_STATE))


def forward(x):
    return np.tanh(x @ W.T)


def tangent_linear(x, dx):
    return (1 - np.tanh(x @ W.T) ** 2) * (dx @ W.T)


def adjoint(x, dy):
    return ((1 - np.tanh(x @ W.T) ** 2) * dy) @ W


def in_jax(x):
    """The same forward function, which JAX differentiates by itself."""
    import jax.numpy as jnp

    return jnp.tanh(x @ jnp.asarray(W, dtype=x.dtype).T)


def tanh_operator(**changes):
    """The operator, with some of its functions or settings replaced."""
    parts = {"forward": forward, "tangent_linear": tangent_linear, "adjoint": adjoint}
    return pf.operator(**(parts | {"n_state": N_STATE, "n_obs": N_OBS, "name": "tanh"} | changes))


def scalar_operator():
    """One state, one observation: sin."""
    return pf.operator(
        forward=np.sin,
        tangent_linear=lambda x, dx: np.cos(x) * dx,
        adjoint=lambda x, dy: np.cos(x) * dy,
        n_state=1,
        n_obs=1,
        name="sin",
    )


def changes(before, operator):
    """Return the calls made since ``before``, without zeros."""
    return {kind: n - before[kind] for kind, n in operator.calls.items() if n != before[kind]}
