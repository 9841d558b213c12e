"""Every transformation of JAX on a wrapped operator, against the same function written in JAX."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import partonfit as pf
import pytest
from operator_examples import changes, in_jax, scalar_operator, tanh_operator
from partonfit._precision import precision_context

N = 4  # states where several are needed


@dataclass
class Problem:
    """A function h, and the numbers it is asked with."""

    h: Any
    x: Any
    xs: Any  # N states, stacked
    dx: Any
    dy: Any

    def loss(self, x):
        return (self.h(x) ** 2).sum()

    def feed(self, x):
        """A step of a model that contains the operator: from a state to a state."""
        return x + 0.1 * self.h(x).sum() * jnp.ones_like(x)

    def scanned(self, x):
        return jax.lax.scan(lambda c, _: (self.feed(c), self.h(c)), x, None, length=3)

    def chosen(self, x):
        return jax.lax.cond(x.sum() > -100, self.h, lambda v: 2 * self.h(v), x)

    @property
    def tangent(self):
        """H(x) dx as a function of both, by the wrapper or by JAX."""
        if isinstance(self.h, pf.operators.WrappedOperator):
            return self.h.tangent_linear
        return lambda x, dx: jax.jvp(self.h, (x,), (dx,))[1]


# Each: what is done, and how often F, T and A are executed; then how many states an execution has.
TABLE = {
    "call": (lambda p: p.h(p.x), (1, 0, 0), 1),
    "jit": (lambda p: jax.jit(p.h)(p.x), (1, 0, 0), 1),
    "grad": (lambda p: jax.grad(p.loss)(p.x), (1, 0, 1), 1),
    "jit of grad": (lambda p: jax.jit(jax.grad(p.loss))(p.x), (1, 0, 1), 1),
    "jit of value_and_grad": (lambda p: jax.jit(jax.value_and_grad(p.loss))(p.x), (1, 0, 1), 1),
    "jvp": (lambda p: jax.jvp(p.h, (p.x,), (p.dx,)), (1, 1, 0), 1),
    "jit of jvp": (lambda p: jax.jit(lambda x, dx: jax.jvp(p.h, (x,), (dx,)))(p.x, p.dx), (1, 1, 0), 1),
    "vjp": (lambda p: jax.vjp(p.h, p.x)[1](p.dy), (1, 0, 1), 1),
    "linearize": (lambda p: jax.linearize(p.h, p.x)[1](p.dx), (1, 1, 0), 1),
    "linear_transpose": (lambda p: jax.linear_transpose(lambda v: p.tangent(p.x, v), p.dx)(p.dy), (0, 0, 1), 1),
    "vmap": (lambda p: jax.vmap(p.h)(p.xs), (1, 0, 0), N),
    "jit of vmap, last axis": (
        lambda p: jax.jit(jax.vmap(p.h, in_axes=-1, out_axes=-1))(jnp.moveaxis(p.xs, 0, -1)), (1, 0, 0), N,
    ),
    "vmap of vmap": (lambda p: jax.vmap(jax.vmap(p.h), in_axes=1)(jnp.stack([p.xs, -p.xs], 1)), (1, 0, 0), 2 * N),
    "jit of vmap of grad": (lambda p: jax.jit(jax.vmap(jax.grad(p.loss)))(p.xs), (1, 0, 1), N),
    "grad of vmap": (lambda p: jax.grad(lambda xs: jax.vmap(p.loss)(xs).sum())(p.xs), (1, 0, 1), N),
    "vmap of jvp, one state": (
        lambda p: jax.jit(jax.vmap(lambda v: jax.jvp(p.h, (p.x,), (v,))[1]))(p.xs), (0, 1, 0), N,
    ),
    "jacfwd": (lambda p: jax.jit(jax.jacfwd(p.h))(p.x), (0, 1, 0), "n_state"),
    "jacrev": (lambda p: jax.jit(jax.jacrev(p.h))(p.x), (0, 0, 1), "n_obs"),
    "scan": (lambda p: jax.jit(p.scanned)(p.x), (3, 0, 0), 1),
    "grad of scan": (lambda p: jax.jit(jax.grad(lambda x: (p.scanned(x)[0] ** 2).sum()))(p.x), (3, 0, 3), 1),
    "grad of checkpoint": (lambda p: jax.jit(jax.grad(jax.checkpoint(p.loss)))(p.x), (1, 0, 1), 1),
    "grad of cond": (lambda p: jax.jit(jax.grad(lambda x: (p.chosen(x) ** 2).sum()))(p.x), (1, 0, 1), 1),
    "lax.map": (lambda p: jax.jit(lambda xs: jax.lax.map(p.h, xs))(p.xs), (N, 0, 0), 1),
    "while": (lambda p: jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda i, c: p.feed(c), x))(p.x), (3, 0, 0), 1),
}  # fmt: skip

CASES = {
    "scalar": (scalar_operator, (), (), jnp.sin),
    "vector": (tanh_operator, (5,), (3,), in_jax),
    "batched": (lambda: tanh_operator(batched=True), (6, 5), (6, 3), in_jax),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    """An operator (one for all its transformations), and the shapes of its states and results."""
    make, state, seen, _ = CASES[request.param]
    return request.param, pf.wrap_operator(make()), state, seen


def problem(h, state, seen, dtype):
    rng = np.random.default_rng(1)
    x, xs, dx, dy = (rng.normal(size=shape).astype(np.float32) for shape in (state, (N, *state), state, seen))
    return Problem(h, *(jnp.asarray(a, dtype=dtype) for a in (x, xs, dx, dy)))


@cache
def right_answer(kind, name):
    """What JAX gives for the twin, in float64."""
    _, state, seen, twin = CASES[kind]
    with precision_context("float64"):
        return jax.tree.leaves(TABLE[name][0](problem(twin, state, seen, "float64")))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", TABLE)
def test_transformation(case, name, dtype):
    kind, H, state, seen = case
    transform, executions, states = TABLE[name]
    before = H.calls
    with precision_context(dtype):
        found = jax.block_until_ready(transform(problem(H, state, seen, dtype)))
    tolerance = {"float32": 2e-5, "float64": 1e-11}[dtype]
    for a, b in zip(jax.tree.leaves(found), right_answer(kind, name), strict=True):
        assert a.dtype == dtype
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    states = getattr(H, states) if isinstance(states, str) else states
    each = 1 if kind == "batched" else states
    wanted = dict(zip(("forward", "tangent_linear", "adjoint"), (n * each for n in executions), strict=True))
    assert changes(before, H) == {k: n for k, n in wanted.items() if n}
