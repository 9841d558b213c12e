"""The one place where a precision becomes a JAX setting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax
import keras


@contextmanager
def precision_context(precision: str) -> Iterator[None]:
    """Let arrays of ``precision`` exist, and nothing less precise be used for products.

    float64 arrays exist in JAX only where x64 is on; products in less than the full precision of
    their operands (TF32, bfloat16 passes) are never wanted in a fit.
    """
    with jax.enable_x64(precision == "float64"), jax.default_matmul_precision("highest"):
        yield


@contextmanager
def keras_floatx(precision: str) -> Iterator[None]:
    """Let Keras make what it is not told a type for (learning rates, constants, losses) in ``precision``.

    The setting is global, so this is for the thread that builds and traces, not for those that compute.
    """
    before = keras.config.floatx()
    keras.config.set_floatx(precision)
    try:
        yield
    finally:
        keras.config.set_floatx(before)
