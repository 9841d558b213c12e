"""The one place where a precision becomes settings of JAX and Keras."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import jax
import keras

from partonfit._errors import SettingError


@contextmanager
def precision_context(precision: str) -> Iterator[None]:
    """Let arrays of ``precision`` exist, and nothing less precise be used for products.

    float64 arrays exist in JAX only where x64 is on; products in less than the full precision of
    their operands (TF32, bfloat16 passes) are never wanted in a fit.
    """
    double = precision == "float64"
    with (
        jax.enable_x64(double),
        jax.default_matmul_precision("highest"),
        _KEEP_FLOAT64 if double else nullcontext(),
    ):
        yield


class _KeepFloat64:
    """Let Keras' operations give float64 for float64.

    On JAX, Keras takes the result type of many operations (tanh, mean, division, ...) down from
    float64 to float32 whatever floatx is, as if x64 were always off: a float64 network would have
    float32 activations without a word. Threads may enter and leave in any order.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            self._set("float64")
            if keras.backend.result_type("float64", "float64") != "float64":
                msg = f"Keras {keras.__version__} computes float64 in float32 on JAX: use precision='float32'."
                raise SettingError(msg)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._set("float32")

    def _set(self, result: str) -> None:
        from keras.src.backend.common import dtypes  # Keras has no public switch

        getattr(dtypes, "BIT64_TO_BIT32_DTYPE", {})["float64"] = result


_KEEP_FLOAT64 = _KeepFloat64()


@contextmanager
def keras_floatx(precision: str) -> Iterator[None]:
    """Let Keras make what it is not told a type for (learning rates, constants, losses) in ``precision``.

    The setting is global, so this is for the thread that builds and traces, not for those that compute.
    When several threads do trace at a time, the last to leave puts back what was there before the first.
    """
    keras.config.dtype_policy()  # made at its first use, from floatx: it must not keep ours for ever
    with _floatx_lock:
        if not _floatx_inside:
            _floatx_before[:] = [keras.config.floatx()]
        _floatx_inside.append(precision)
        keras.config.set_floatx(precision)
    try:
        yield
    finally:
        with _floatx_lock:
            _floatx_inside.remove(precision)
            keras.config.set_floatx((_floatx_before + _floatx_inside)[-1])


_floatx_lock = threading.Lock()
_floatx_before: list[str] = []
_floatx_inside: list[str] = []
