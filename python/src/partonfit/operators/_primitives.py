"""Three JAX primitives: F (forward), T (tangent linear) and A (adjoint) of a NumPy operator.

jvp of F is T; T and A are linear in their second argument and are each other's transposes. All three
take any number of leading axes, so that batching is one more axis and one call of the host, however
deep ``vmap`` is nested. An argument that does not vary along an axis has size one there.

``custom_vjp`` around ``pure_callback`` would be shorter, but has no jvp, and costs five times as much
per call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from partonfit._errors import OperatorError
from partonfit.operators._host import Host, callback
from partonfit.operators._protocol import require

F = Primitive("observation_operator")
T = Primitive("observation_tangent_linear")
A = Primitive("observation_adjoint")
_KIND = {F: "forward", T: "tangent_linear", A: "adjoint"}

SECOND = (
    "The derivatives of operator '{name}' were differentiated again with respect to the state. A black box has no "
    "second derivatives (jax.hessian, grad of grad, a gradient of something that contains its gradient). For a "
    "least-squares problem take H.gauss_newton_product(x, v, weight), which is J^T W J v; a surrogate of the operator "
    "(fit_surrogate) has all derivatives. If the operator is linear, say so: operator(..., linear=True)."
)


def _abstract(primitive: Primitive) -> Any:
    def rule(*avals: Any, host: Host) -> ShapedArray:
        shape = np.broadcast_shapes(*(aval.shape[:-1] for aval in avals))
        out = (*shape, host.size_out(_KIND[primitive]))
        # The argument with all the axes also knows which mesh axes the result varies over.
        return max(avals, key=lambda aval: len(getattr(aval, "vma", ()))).update(shape=out, weak_type=False)

    return rule


def _eager(primitive: Primitive) -> Any:
    """Outside compiled code the operator runs here and now: in this thread, with its own exceptions."""

    def rule(*arrays: Any, host: Host) -> jax.Array:
        require(host.operator, _KIND[primitive])
        return jnp.asarray(host.run(_KIND[primitive], *(np.asarray(a) for a in arrays)))

    return rule


class _Double(tuple[Any]):
    """float64 results of a callback, for a JAX that looks at them in a thread of its own.

    Where x64 was switched on for the caller's thread only (``with jax.enable_x64(True)``), the thread
    that runs the callback does not know, and JAX would take the results down to float32 and then
    refuse them. Whoever iterates over this sees them with x64 on.
    """

    def __iter__(self) -> Iterator[Any]:
        with jax.enable_x64(True):
            yield from super().__iter__()


def _lowering(primitive: Primitive) -> Any:
    kind = _KIND[primitive]

    def rule(ctx: mlir.LoweringRuleContext, *operands: Any, host: Host) -> Any:
        require(host.operator, kind)
        run = callback(lambda *arrays: host.run(kind, *arrays))
        result, _, _ = mlir.emit_python_callback(
            ctx,
            (lambda *arrays: _Double(run(*arrays))) if ctx.avals_out[0].dtype == np.float64 else run,
            None,
            list(operands),
            ctx.avals_in,  # type: ignore[arg-type]
            ctx.avals_out,  # type: ignore[arg-type]
            has_side_effect=False,
            sharding=_one_device(ctx),
        )
        return result

    return rule


def _one_device(ctx: mlir.LoweringRuleContext) -> Any:
    """Return the annotation that makes one device run the call for all, where the compiler splits the program.

    Without it every device would make the whole call. The rule is JAX's own for ``pure_callback``; it
    is private, and where a later version has moved it the call is repeated, which is slow but right.
    """
    with suppress(ImportError):
        from jax._src.callback import _callback_op_sharding  # type: ignore[attr-defined]

        return _callback_op_sharding(ctx.module_context.axis_context, None, ctx.avals_out)
    return None


def _batched(primitive: Primitive) -> Any:
    def rule(arrays: Any, axes: Any, *, host: Host) -> tuple[Any, int]:
        moved = [
            jnp.expand_dims(a, 0) if axis is None else jnp.moveaxis(a, axis, 0)
            for a, axis in zip(arrays, axes, strict=True)
        ]
        return primitive.bind(*moved, host=host), 0

    return rule


def _zero(y: Any) -> Any:
    return ad.Zero.from_primal_value(y)  # type: ignore[attr-defined]  (missing from the stub)


def _jvp_forward(primals: Any, tangents: Any, *, host: Host) -> tuple[Any, Any]:
    (x,), (dx,) = primals, tangents
    y = F.bind(x, host=host)
    return y, _zero(y) if type(dx) is ad.Zero else T.bind(x, dx, host=host)


def _jvp_linear(primitive: Primitive) -> Any:
    def rule(primals: Any, tangents: Any, *, host: Host) -> tuple[Any, Any]:
        (x, v), (dx, dv) = primals, tangents
        if type(dx) is not ad.Zero and not host.linear:
            raise OperatorError(SECOND.format(name=host.name))
        y = primitive.bind(x, v, host=host)
        return y, _zero(y) if type(dv) is ad.Zero else primitive.bind(x, dv, host=host)

    return rule


def _transposed(primitive: Primitive, other: Primitive) -> Any:
    def rule(cotangent: Any, x: Any, v: Any, *, host: Host) -> list[Any]:
        if ad.is_undefined_primal(x):
            msg = (
                f"The {_KIND[primitive]} of operator '{host.name}' is linear in its second argument, not in the state."
            )
            raise OperatorError(msg)
        if type(cotangent) is ad.Zero:
            return [None, ad.Zero(v.aval)]
        result = other.bind(x, cotangent, host=host)
        # Where the direction was stretched over samples, its cotangent is the sum over them.
        stretched = tuple(i for i, n in enumerate(v.aval.shape[:-1]) if n == 1 and result.shape[i] != 1)
        return [None, result.sum(axis=stretched, keepdims=True) if stretched else result]

    return rule


def _register() -> None:
    ad.primitive_jvps[F] = _jvp_forward
    for primitive, other in ((T, A), (A, T)):
        ad.primitive_jvps[primitive] = _jvp_linear(primitive)
        ad.primitive_transposes[primitive] = _transposed(primitive, other)
    for primitive in (F, T, A):
        primitive.def_abstract_eval(_abstract(primitive))
        primitive.def_impl(_eager(primitive))
        batching.primitive_batchers[primitive] = _batched(primitive)
        mlir.register_lowering(primitive, _lowering(primitive))


_register()
