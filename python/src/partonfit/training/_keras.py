"""A Keras model and optimizer as pure functions of explicit values.

Keras objects are read once, before training; nothing is stored on them while training holds their
values, and the result is written back at the end, so that ``model.save()`` saves what was trained.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from partonfit import _seeds
from partonfit._errors import SettingError
from partonfit.training._state import Values


def initial_values(model: keras.Model, seed: int, member: int) -> tuple[Values, Values]:
    """Draw the initial (trainable, non-trainable) values of one member.

    Each weight ``w`` of a layer is drawn again by the layer's own ``w_initializer`` with a seed of
    its own (stream "initialisation", member, position of the weight: Keras' automatic names count
    up from model to model, so they would give every fit of a session other numbers). A weight
    without such an attribute keeps the value it has in ``model`` for every member.
    """
    makers = _initializers(model)

    def draw(variable: Any, kind: str, position: int) -> np.ndarray:
        value = np.asarray(variable.value)
        if _is_seed_state(variable):
            # Without a seed state of its own every member would drop the same units.
            offset = _seeds.integer(seed, "dropout", member, position)
            return np.asarray([offset, 0], dtype=value.dtype)
        maker = makers.get(id(variable))
        config = maker.get_config() if maker is not None else {}
        if maker is None or "seed" not in config:
            return value
        config["seed"] = _seeds.integer(seed, "initialisation", member, kind, position)
        fresh = type(maker).from_config(config)
        # Drawn in float32 whatever the precision, so that a float64 run starts from the same weights.
        return np.asarray(fresh(variable.shape, dtype="float32")).astype(value.dtype)

    return (
        tuple(draw(v, "trainable", i) for i, v in enumerate(model.trainable_variables)),
        tuple(draw(v, "non_trainable", i) for i, v in enumerate(model.non_trainable_variables)),
    )


def _is_seed_state(variable: Any) -> bool:
    return variable.path.endswith("seed_generator_state")


def _initializers(model: keras.Model) -> dict[int, keras.initializers.Initializer]:
    found = {}
    for layer in model._flatten_layers(include_self=True, recursive=True):
        for variable in layer._trainable_variables + layer._non_trainable_variables:
            # Dense keeps its kernel behind a property of the same name without the underscore.
            maker = getattr(layer, f"{variable.name.lstrip('_')}_initializer", None)
            if isinstance(maker, keras.initializers.Initializer):
                found[id(variable)] = maker
    return found


def check_precision(model: keras.Model, precision: str) -> None:
    """Raise :class:`SettingError` when the model's weights have another precision than asked for."""
    wrong = sorted(
        {v.dtype for v in model.variables if v.dtype.startswith(("float", "bfloat")) and v.dtype != precision}
    )
    if wrong:
        msg = (
            f"The model holds {', '.join(wrong)} weights but precision is {precision!r}. "
            f"Build its layers with dtype={precision!r}, or change precision."
        )
        raise SettingError(msg)


def optimizer_values(optimizer: keras.optimizers.Optimizer, model: keras.Model) -> Values:
    """Build ``optimizer`` for the trainable weights of ``model`` and return its initial values."""
    optimizer.build(model.trainable_variables)
    return tuple(np.asarray(v.value) for v in optimizer.variables)


def update_with(optimizer: keras.optimizers.Optimizer) -> Any:
    """Return the pure update rule of a built Keras optimizer (gradient clipping included)."""

    def update(gradients: Values, trainable: Values, values: Values) -> tuple[Values, Values]:
        new_trainable, new_values = optimizer.stateless_apply(list(values), list(gradients), list(trainable))
        return tuple(new_trainable), tuple(new_values)

    return update


def write_back(model: keras.Model, trainable: Values, non_trainable: Values) -> None:
    """Assign one member's values to the variables of ``model``."""
    for variable, value in zip(model.trainable_variables, trainable, strict=True):
        variable.assign(value)
    for variable, value in zip(model.non_trainable_variables, non_trainable, strict=True):
        variable.assign(value)
