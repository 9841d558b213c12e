"""The one place where a precision becomes a JAX setting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def precision_context(precision: str) -> Iterator[None]:
    """Let arrays of ``precision`` exist, and nothing less precise be used for products.

    float64 arrays exist in JAX only where x64 is on; products in less than the full precision of
    their operands (TF32, bfloat16 passes) are never wanted in a fit.
    """
    with jax.enable_x64(precision == "float64"), jax.default_matmul_precision("highest"):
        yield
