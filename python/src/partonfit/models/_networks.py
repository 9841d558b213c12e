"""The networks that ``pdf_model()`` makes: dense, or one small dense network for each output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from partonfit import _seeds
from partonfit._checks import real
from partonfit._errors import SettingError, nearest

LAYER_TYPES = ("dense", "dense_per_flavour")


def make_network(
    inputs: int,
    outputs: int,
    *,
    nodes: Sequence[int],
    activation: str | Sequence[str],
    initializer: str,
    layer_type: str,
    dropout: float,
    precision: str,
) -> keras.Model:
    """Return a network (None, inputs) -> (None, outputs) with hidden layers of ``nodes``.

    Raises
    ------
    SettingError
        When a name is not known to Keras, or the settings do not fit together.
    """
    if layer_type not in LAYER_TYPES:
        msg = f"layer_type must be 'dense' or 'dense_per_flavour', not {layer_type!r}."
        raise SettingError(msg)
    rate = real("dropout", dropout, most=1)
    if not 0 <= rate < 1:
        msg = f"dropout must be at least 0 and less than 1, not {dropout}."
        raise SettingError(msg)
    if rate and layer_type != "dense":
        msg = "dropout needs layer_type='dense': in small networks of their own, whole outputs would drop out."
        raise SettingError(msg)
    if rate and not nodes:
        msg = "dropout needs a hidden layer."
        raise SettingError(msg)
    names = _activations(activation, len(nodes))
    maker = known_initializer(initializer)
    if layer_type == "dense":
        widths = [*nodes, outputs]
        made: list[Any] = [
            keras.layers.Dense(width, activation=name, kernel_initializer=maker, dtype=precision)
            for width, name in zip(widths, names, strict=True)
        ]
        if rate:
            made.insert(-1, keras.layers.Dropout(rate, dtype=precision))
    else:
        made = [
            DensePerOutput(width, outputs, activation=name, kernel_initializer=maker, dtype=precision)
            for width, name in zip([*nodes, 1], names, strict=True)
        ]
        made.append(keras.layers.Reshape((outputs,), dtype=precision))
    return keras.Sequential([keras.Input((inputs,), dtype=precision), *made], name="network")


def _activations(activation: str | Sequence[str], count: int) -> list[str]:
    names = [activation] * count if isinstance(activation, str) else list(activation)
    if len(names) != count:
        msg = f"activation must be one name, or one for each of the {count} hidden layers; got {len(names)}."
        raise SettingError(msg)
    for name in names:
        try:
            keras.activations.get(name)
        except (ValueError, TypeError) as error:
            known = [n for n in dir(keras.activations) if n[0].islower() and n not in ("get", "serialize")]
            msg = f"activation: Keras knows no {name!r}. {nearest(str(name), known, what='activation')}"
            raise SettingError(msg) from error
    return [*names, "linear"]


def known_initializer(name: Any) -> Any:
    """Return the Keras initializer of a name, or raise :class:`SettingError`."""
    try:
        return keras.initializers.get(name)
    except (ValueError, TypeError) as error:
        known = [n for n in dir(keras.initializers) if n[0].islower() and n not in ("get", "serialize")]
        msg = f"initializer: Keras knows no {name!r}. {nearest(str(name), known, what='initializer')}"
        raise SettingError(msg) from error


@keras.saving.register_keras_serializable(package="partonfit")
class Each(keras.initializers.Initializer):
    """Fill each slice along the first axis by an initializer, as if it were a weight of its own."""

    def __init__(self, inner: Any, seed: int = 0) -> None:
        self.inner: Any = keras.initializers.get(inner)
        self.seed = seed

    def __call__(self, shape: tuple[int, ...], dtype: str | None = None) -> object:
        """Return the weight (slice, ...)."""
        config = self.inner.get_config()
        slices = []
        for i in range(shape[0]):
            if "seed" in config:
                config["seed"] = _seeds.integer(self.seed, "slice", i)
            slices.append(np.asarray(type(self.inner).from_config(config)(shape[1:], dtype=dtype)))
        return keras.ops.convert_to_tensor(np.stack(slices), dtype=dtype)

    def get_config(self) -> dict:
        """Return the arguments that rebuild the initializer."""
        return {"inner": keras.saving.serialize_keras_object(self.inner), "seed": self.seed}


@keras.saving.register_keras_serializable(package="partonfit")
class DensePerOutput(keras.layers.Layer):
    """Dense layers side by side, one for each of ``outputs``: (x, in) or (x, output, in) to (x, output, units)."""

    def __init__(
        self, units: int, outputs: int, *, activation: Any = None, kernel_initializer: Any = "glorot_normal",
        **keywords: Any,
    ) -> None:  # fmt: skip
        super().__init__(**keywords)
        self.units, self.outputs = units, outputs
        self.activation = keras.activations.get(activation)
        inner = keras.initializers.get(kernel_initializer)
        self.kernel_initializer = inner if isinstance(inner, Each) else Each(inner)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Make kernel (output, in, units) and bias (output, units)."""
        shape = (self.outputs, input_shape[-1], self.units)
        self.kernel = self.add_weight(shape=shape, initializer=self.kernel_initializer, name="kernel")
        self.bias = self.add_weight(shape=(self.outputs, self.units), initializer="zeros", name="bias")

    def call(self, x: Any) -> Any:
        """Return the layers' values."""
        ops: Any = keras.ops
        equation = "xi,oiu->xou" if len(x.shape) == 2 else "xoi,oiu->xou"
        return self.activation(ops.einsum(equation, x, self.kernel) + self.bias)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return (x, output, units)."""
        return (input_shape[0], self.outputs, self.units)

    def get_config(self) -> dict:
        """Return the arguments that rebuild the layer."""
        return super().get_config() | {
            "units": self.units, "outputs": self.outputs,
            "activation": keras.activations.serialize(self.activation),
            "kernel_initializer": keras.saving.serialize_keras_object(self.kernel_initializer),
        }  # fmt: skip
