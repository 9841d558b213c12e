"""What a NumPy operator costs inside JAX, and what can be done with it, by three bridges.

    python bench/operators_overhead.py --json operators.json

The bridges: partonfit.wrap_operator, jax.pure_callback inside jax.custom_vjp (what one writes by hand),
and tesseract-jax where it is installed (pip install tesseract-jax "tesseract-core[runtime]"; it is named and
left out otherwise). The operator is the same small one, y = tanh(W x) from 20 states to 6 observations, so
that nearly all the time is the bridge's. Times are the best of several rounds, in microseconds per call.
"""

from __future__ import annotations

import argparse
import os
import timeit
import types
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import partonfit as pf
from _common import machine, show
from partonfit.operators import original_errors

N_STATE, N_OBS, BATCH = 20, 6, 100
W = np.random.default_rng(0).normal(size=(N_OBS, N_STATE)) / 4


def forward(x: np.ndarray) -> np.ndarray:
    """Return tanh(W x); a state above 100 is outside of the domain."""
    if x.max() > 100:
        msg = "state above 100"
        raise LookupError(msg)
    return np.tanh(x @ W.T)


def tangent_linear(x: np.ndarray, dx: np.ndarray) -> np.ndarray:
    """Return its derivative along dx."""
    return (1 - np.tanh(x @ W.T) ** 2) * (dx @ W.T)


def adjoint(x: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """Return its gradient."""
    return ((1 - np.tanh(x @ W.T) ** 2) * dy) @ W


def twin(x: jax.Array) -> jax.Array:
    """The same in JAX: the right answers."""
    return jnp.tanh(x @ jnp.asarray(W, dtype=x.dtype).T)


def ours() -> Callable[[Any], Any]:
    """Return the operator wrapped by partonfit."""
    return pf.wrap_operator(
        pf.operator(
            forward=forward, tangent_linear=tangent_linear, adjoint=adjoint, n_state=N_STATE, n_obs=N_OBS, batched=True
        )
    )


def by_hand() -> Callable[[Any], Any]:
    """Return the operator as pure_callback inside custom_vjp."""

    def ask(function: Callable[..., Any], size: int, *arguments: Any) -> Any:
        shape = jax.ShapeDtypeStruct((size,), arguments[0].dtype)
        host = lambda *a: function(*(np.asarray(v, np.float64) for v in a)).astype(a[0].dtype)  # noqa: E731
        return jax.pure_callback(host, shape, *arguments, vmap_method="broadcast_all")

    @jax.custom_vjp
    def h(x: Any) -> Any:
        return ask(forward, N_OBS, x)

    h.defvjp(lambda x: (h(x), x), lambda x, dy: (ask(adjoint, N_STATE, x, dy),))
    return h


def tesseract(dtype: str) -> Callable[[Any], Any] | None:
    """Return the operator as a Tesseract in this process, or None when tesseract-jax is not installed."""
    try:
        from pydantic import BaseModel
        from tesseract_core import Tesseract
        from tesseract_core import runtime as tr
        from tesseract_jax import apply_tesseract
    except ImportError:
        return None
    number = {"float32": tr.Float32, "float64": tr.Float64}[dtype]
    api = types.ModuleType("tesseract_api")

    def model(name: str, field: str, size: int) -> Any:
        kind = tr.Differentiable[tr.Array[(size,), number]]
        return type(name, (BaseModel,), {"__annotations__": {field: kind}, "__module__": __name__})

    api.InputSchema, api.OutputSchema = model("InputSchema", "x", N_STATE), model("OutputSchema", "y", N_OBS)
    api.apply = lambda inputs: api.OutputSchema(y=forward(inputs.x).astype(dtype))
    api.jacobian_vector_product = lambda inputs, jvp_inputs, jvp_outputs, tangent_vector: {
        "y": tangent_linear(inputs.x, tangent_vector["x"]).astype(dtype)
    }
    api.vector_jacobian_product = lambda inputs, vjp_inputs, vjp_outputs, cotangent_vector: {
        "x": adjoint(inputs.x, cotangent_vector["y"]).astype(dtype)
    }
    api.abstract_eval = lambda abstract_inputs: {"y": {"shape": (N_OBS,), "dtype": dtype}}
    for name, annotation in (("apply", api.InputSchema), ("abstract_eval", None)):
        if annotation is not None:
            getattr(api, name).__annotations__ = {"inputs": annotation, "return": api.OutputSchema}
    loaded = Tesseract.from_tesseract_api(api)
    return lambda x: apply_tesseract(loaded, {"x": x}, vmap_method="sequential")["y"]


def microseconds(function: Callable[[], Any], rounds: int) -> float:
    """Return the best time per call; rounds are short (5 ms), so that some fall between other processes."""
    jax.block_until_ready(function())
    once = timeit.timeit(lambda: jax.block_until_ready(function()), number=3) / 3
    number = max(1, round(0.005 / once))
    return min(timeit.repeat(lambda: jax.block_until_ready(function()), number=number, repeat=rounds)) / number * 1e6


def times(h: Callable[[Any], Any], rounds: int) -> dict[str, Any]:
    """Return the cost of the usual calls of one bridge."""
    rng = np.random.default_rng(1)
    x, xs = (jnp.asarray(rng.normal(size=s), dtype=jnp.float32) for s in (N_STATE, (BATCH, N_STATE)))
    loss = lambda v: (h(v) ** 2).sum()  # noqa: E731
    calls = {
        "jit forward": (jax.jit(h), x),
        "jit gradient": (jax.jit(jax.grad(loss)), x),
        f"jit vmap({BATCH}) forward": (jax.jit(jax.vmap(h)), xs),
        f"jit vmap({BATCH}) gradient": (jax.jit(jax.vmap(jax.grad(loss))), xs),
        "forward outside jit": (h, x),
    }
    result: dict[str, Any] = {}
    for name, (function, argument) in calls.items():
        try:
            result[name] = microseconds(lambda f=function, a=argument: f(a), rounds)
        except Exception as error:
            result[name] = type(error).__name__
    return result


X = np.random.default_rng(2).normal(size=N_STATE).astype(np.float32)
XS = np.random.default_rng(3).normal(size=(4, N_STATE)).astype(np.float32)
CAPABILITIES: dict[str, Callable[[Any], Any]] = {
    "jit": lambda h: jax.jit(h)(X),
    "grad": lambda h: jax.jit(jax.grad(lambda x: (h(x) ** 2).sum()))(X),
    "jvp": lambda h: jax.jit(lambda x: jax.jvp(h, (x,), (x,)))(X),
    "vjp": lambda h: jax.vjp(h, X)[1](jnp.ones(N_OBS)),
    "linearize": lambda h: jax.linearize(h, X)[1](X),
    "jacfwd": lambda h: jax.jit(jax.jacfwd(h))(X),
    "jacrev": lambda h: jax.jit(jax.jacrev(h))(X),
    "vmap": lambda h: jax.jit(jax.vmap(h))(XS),
    "vmap, last axis": lambda h: jax.jit(jax.vmap(h, in_axes=1, out_axes=1))(XS.T),
    "vmap of vmap": lambda h: jax.jit(jax.vmap(jax.vmap(h)))(XS[None]),
    "vmap of grad": lambda h: jax.jit(jax.vmap(jax.grad(lambda x: (h(x) ** 2).sum())))(XS),
    "vmap of jvp": lambda h: jax.jit(jax.vmap(lambda x: jax.jvp(h, (x,), (x,))[1]))(XS),
    "vmap of jacfwd": lambda h: jax.jit(jax.vmap(jax.jacfwd(h)))(XS),
    "grad of scan": lambda h: jax.jit(
        jax.grad(lambda x: jax.lax.scan(lambda c, _: (c + 0.1 * h(c).sum(), None), x, None, length=3)[0].sum())
    )(X),
    "grad of checkpoint": lambda h: jax.jit(jax.grad(jax.checkpoint(lambda x: (h(x) ** 2).sum())))(X),
    "leading axes without vmap": lambda h: jax.jit(h)(XS),
}


def capability(h: Callable[[Any], Any], ask: Callable[[Any], Any]) -> str:
    """Return "yes", "wrong", or the name of what was raised."""
    right = jax.tree.leaves(ask(twin))
    try:
        found = jax.tree.leaves(jax.block_until_ready(ask(h)))
    except Exception as error:
        return type(error).__name__
    same = all(np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(found, right))  # noqa: B905
    return "yes" if same else "wrong"


def manners(h: Callable[[Any], Any]) -> dict[str, str]:
    """Return what comes of a second derivative and of an exception in the operator."""
    result = {}
    asked = {
        "second derivative": lambda: jax.jit(jax.hessian(lambda x: h(x).sum()))(X),
        "LookupError in jit": lambda: jax.jit(h)(X + 1000),
        "LookupError outside jit": lambda: h(jnp.asarray(X + 1000)),
    }
    for name, ask in asked.items():
        try:
            with original_errors():
                jax.block_until_ready(ask())
            result[name] = "no error"
        except Exception as error:
            result[name] = type(error).__name__
    return result


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    rows: dict[str, Any] = machine()
    x = np.random.default_rng(1).normal(size=N_STATE)
    rows["NumPy alone | forward"] = min(timeit.repeat(lambda: forward(x), number=1000, repeat=10)) * 1e3
    bridges = {"partonfit": ours(), "pure_callback": by_hand(), "tesseract-jax": tesseract("float32")}
    for name, h in bridges.items():
        if h is None:
            rows[f"{name} |"] = "left out: not installed"
            continue
        rows |= {f"{name} | {what}": value for what, value in times(h, options.rounds).items()}
        rows |= {f"{name} | {what}": capability(h, ask) for what, ask in CAPABILITIES.items()}
        rows |= {f"{name} | {what}": value for what, value in manners(h).items()}
    rows["load_after"] = round(os.getloadavg()[0], 2)
    show(rows, options.json)


if __name__ == "__main__":
    main()
