"""Where values have to stay: exponents and parameters in their ranges, ln(1 - x) above minus infinity."""

from __future__ import annotations

from typing import Any

import keras

EDGE = -80.0
"""Smallest ln(1 - x): at x = 1, (1 - x)^beta is then zero to float32 for beta > 1.3, with finite slopes."""


@keras.saving.register_keras_serializable(package="partonfit")
class Within(keras.constraints.Constraint):
    """Put values back between their limits after every update."""

    def __init__(self, low: list[float], high: list[float]) -> None:
        self.low, self.high = list(low), list(high)

    def __call__(self, w: Any) -> Any:
        """Return the weight inside its limits."""
        ops: Any = keras.ops
        low, high = (ops.convert_to_tensor(limit, dtype=w.dtype) for limit in (self.low, self.high))
        return ops.clip(w, low, high)

    def get_config(self) -> dict:
        """Return the arguments that rebuild the constraint."""
        return {"low": self.low, "high": self.high}
