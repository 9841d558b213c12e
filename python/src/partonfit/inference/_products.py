"""Products with constant matrices, with the gradients that XLA computes fastest."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


@jax.custom_vjp
def through(vector: Any, matrix: Any, transposed: Any) -> Any:
    """Return vector @ matrix, whose gradient is a product with the stored transpose.

    Without it XLA transposes the matrix anew in every step, which costs more than the product.
    """
    return vector @ matrix


through.defvjp(lambda v, m, t: (v @ m, t), lambda t, cotangent: (cotangent @ t, None, None))


@jax.custom_vjp
def quadratic(features: Any, matrix: Any, vector: Any) -> Any:
    """Return f^T M f - 2 v^T f; value and gradient share one product with the symmetric M."""
    return _quadratic_forward(features, matrix, vector)[0]


def _quadratic_forward(features: Any, matrix: Any, vector: Any) -> tuple[Any, Any]:
    half_gradient = matrix @ features - vector
    return features @ (half_gradient - vector), half_gradient


def _quadratic_backward(half_gradient: Any, cotangent: Any) -> tuple[Any, None, None]:
    # Matrix and vector are data: nothing differentiates with respect to them.
    return 2 * cotangent * half_gradient, None, None


quadratic.defvjp(_quadratic_forward, _quadratic_backward)


@jax.custom_vjp
def picked(points: Any, picks: Any, places: Any) -> Any:
    """Return points[picks]; the gradient looks up ``places`` instead of scattering."""
    return points[picks]


picked.defvjp(
    lambda points, picks, places: (points[picks], places),
    lambda places, cotangent: (jnp.append(cotangent, 0)[places], None, None),
)
