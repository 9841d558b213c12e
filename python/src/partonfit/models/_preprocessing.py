"""Preprocessing: the factors x^(1-alpha) (1-x)^beta in front of each network output.

Ranges from which the exponents of each replica are drawn: NNPDF4.0 (arXiv:2109.02653, table 3.3
after iteration).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from partonfit import _seeds
from partonfit._errors import SettingError, nearest
from partonfit._vocabulary import FITTED
from partonfit.models._limits import EDGE, Within

Ranges = dict[str, tuple[float, float]]

# The second half is our own: V15 like V; flavours like sea quarks at small x, wide at large x.
ALPHA: Ranges = {
    "Sigma": (1.089, 1.119), "g": (0.7504, 1.098), "V": (0.479, 0.7384), "V3": (0.1073, 0.4397),
    "V8": (0.5507, 0.7837), "T3": (-0.4506, 0.9305), "T8": (0.5877, 0.8687), "T15": (1.089, 1.141),
    "V15": (0.479, 0.7384),
    "u": (0.95, 1.10), "ubar": (0.95, 1.10), "d": (0.95, 1.10), "dbar": (0.95, 1.10),
    "s": (0.95, 1.10), "sbar": (0.95, 1.10), "c": (0.95, 1.10), "cbar": (0.95, 1.10),
}  # fmt: skip
BETA: Ranges = {
    "Sigma": (1.475, 3.119), "g": (2.814, 5.669), "V": (1.549, 3.532), "V3": (1.733, 3.458),
    "V8": (1.516, 3.356), "T3": (1.745, 3.424), "T8": (1.522, 3.515), "T15": (1.492, 3.222),
    "V15": (1.549, 3.532),
    "u": (2.0, 4.0), "ubar": (4.0, 9.0), "d": (2.5, 5.0), "dbar": (4.0, 9.0),
    "s": (4.0, 9.0), "sbar": (4.0, 9.0), "c": (4.0, 9.0), "cbar": (4.0, 9.0),
}  # fmt: skip


def checked_ranges(name: str, ranges: Ranges | None, default: Ranges, outputs: tuple[str, ...] = FITTED) -> Ranges:
    """Return ``default`` of the ``outputs`` overlaid with ``ranges`` after checking names and order of the limits."""
    merged = {output: default[output] for output in outputs}
    for flavour, limits in (ranges or {}).items():
        if flavour not in outputs:
            msg = f"{name}: unknown combination {flavour!r}. {nearest(flavour, outputs, what='combination')}"
            raise SettingError(msg)
        try:
            low, high = (float(v) for v in limits)
        except (TypeError, ValueError):
            low = high = np.nan
        if not (np.isfinite([low, high]).all() and low <= high):
            msg = f"{name}: the range of {flavour} must be (low, high) with low <= high, not {limits!r}."
            raise SettingError(msg)
        merged[flavour] = (low, high)
    return merged


@keras.saving.register_keras_serializable(package="partonfit")
class UniformRange(keras.initializers.Initializer):
    """Draw each exponent uniformly from its own range, in float64 and then rounded."""

    def __init__(self, low: list[float], high: list[float], seed: int = 0) -> None:
        self.low, self.high, self.seed = list(low), list(high), seed

    def __call__(self, shape: tuple[int, ...], dtype: str | None = None) -> object:
        """Return one value (fitted,) per range."""
        drawn = _seeds.stream(self.seed, "exponents").uniform(self.low, self.high)
        return keras.ops.convert_to_tensor(drawn.reshape(shape), dtype=dtype)

    def get_config(self) -> dict:
        """Return the arguments that rebuild the initializer."""
        return {"low": self.low, "high": self.high, "seed": self.seed}


@keras.saving.register_keras_serializable(package="partonfit")
class Preprocessing(keras.layers.Layer):
    """The factor x^(1-alpha_k) (1-x)^beta_k, shape (x, fitted), for x of shape (x, 1).

    Parameters
    ----------
    alpha, beta
        Ranges (low, high) by combination; each replica draws its exponents uniformly from them.
    trainable_exponents
        Whether the exponents are then trained; they stay in their ranges.
    outputs
        Names of the network's outputs.
    """

    def __init__(
        self, alpha: Ranges | None = None, beta: Ranges | None = None,
        trainable_exponents: bool = False, outputs: Sequence[str] = FITTED, **keywords: Any,
    ) -> None:  # fmt: skip
        super().__init__(**keywords)
        self.outputs = tuple(outputs)
        self.alpha_ranges = checked_ranges("alpha", alpha, ALPHA, self.outputs)
        self.beta_ranges = checked_ranges("beta", beta, BETA, self.outputs)
        self.trainable_exponents = trainable_exponents
        self.alpha_initializer = self._drawn(self.alpha_ranges)
        self.beta_initializer = self._drawn(self.beta_ranges)

    def _drawn(self, ranges: Ranges) -> UniformRange:
        return UniformRange([ranges[name][0] for name in self.outputs], [ranges[name][1] for name in self.outputs])

    def build(self, _: Any = None) -> None:
        """Make the weights alpha and beta, one per fitted combination."""
        for name in ("alpha", "beta"):
            drawn: UniformRange = getattr(self, f"{name}_initializer")
            weight = self.add_weight(
                shape=(len(self.outputs),), initializer=drawn, trainable=self.trainable_exponents, name=name,
                constraint=Within(drawn.low, drawn.high) if self.trainable_exponents else None,
            )  # fmt: skip
            setattr(self, name, weight)

    def call(self, x: Any) -> Any:
        """Return the factor at x (x, 1)."""
        ops: Any = keras.ops
        # At x = 1 the logarithm has to stay finite, or slopes in beta are not numbers.
        return ops.exp((1 - self.alpha) * ops.log(x) + self.beta * ops.maximum(ops.log1p(-x), EDGE))

    def get_config(self) -> dict:
        """Return the arguments that rebuild the layer."""
        return super().get_config() | {
            "alpha": self.alpha_ranges, "beta": self.beta_ranges,
            "trainable_exponents": self.trainable_exponents, "outputs": list(self.outputs),
        }  # fmt: skip
