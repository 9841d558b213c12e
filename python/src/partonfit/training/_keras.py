"""A Keras model and optimizer as pure functions of explicit values.

Keras objects are read once, before training; nothing is stored on them while training holds their
values, and the result is written back at the end, so that ``model.save()`` saves what was trained.
"""

from __future__ import annotations

import inspect
from typing import Any

import jax.numpy as jnp
import keras
import numpy as np

from partonfit import _seeds
from partonfit._errors import SettingError
from partonfit.training._state import Values


def initial_values(model: keras.Model, seed: int, member: int) -> tuple[Values, Values]:
    """Draw the initial (trainable, non-trainable) values of one member.

    Each weight ``w`` of a layer is made again by the layer's own ``w_initializer``, with a seed of
    its own (stream "initialisation", member, position of the weight: Keras' automatic names count
    up from model to model, so they would give every fit of a session other numbers). What ``model``
    holds is kept for every member where a layer has no such attribute, and in layers that are not
    trained (``layer.trainable = False``).
    """
    makers = _initializers(model)

    def draw(variable: Any, kind: str, position: int) -> np.ndarray:
        value = np.asarray(variable.value)
        if is_seed_state(variable):
            # Without a seed state of its own every member would drop the same units.
            offset = _seeds.integer(seed, "dropout", member, position)
            return np.asarray([offset, 0], dtype=value.dtype)
        maker = makers.get(id(variable))
        if maker is None:
            return value
        config = maker.get_config()
        if "seed" in config:
            config["seed"] = _seeds.integer(seed, "initialisation", member, kind, position)
        fresh = type(maker).from_config(config)
        # Drawn in float32 whatever the precision, so that a float64 run starts from the same weights.
        return np.asarray(fresh(variable.shape, dtype="float32")).astype(value.dtype)

    return (
        tuple(draw(v, "trainable", i) for i, v in enumerate(model.trainable_variables)),
        tuple(draw(v, "non_trainable", i) for i, v in enumerate(model.non_trainable_variables)),
    )


def present_values(model: keras.Model, seed: int, member: int) -> tuple[Values, Values]:
    """Return the values that ``model`` holds, as :func:`initial_values` does; only seeds are the member's own."""
    drawn = initial_values(model, seed, member)[1]
    return (
        tuple(np.asarray(v.value) for v in model.trainable_variables),
        tuple(
            new if is_seed_state(v) else np.asarray(v.value)
            for v, new in zip(model.non_trainable_variables, drawn, strict=True)
        ),
    )


def differs_in_training(model: keras.Model) -> bool:
    """Whether some layer of ``model`` computes otherwise in training (Dropout, BatchNormalization, ...)."""
    leaves = [layer for layer in model._flatten_layers(include_self=False, recursive=True) if not layer._layers]
    # Keras gives Dense the argument too, which makes no use of it.
    same = (keras.layers.Dense, keras.layers.InputLayer)
    return any("training" in inspect.signature(layer.call).parameters for layer in leaves if type(layer) not in same)


def is_seed_state(variable: Any) -> bool:
    """Whether ``variable`` is the state of a Keras seed generator."""
    return variable.path.endswith("seed_generator_state")


def _initializers(model: keras.Model) -> dict[int, keras.initializers.Initializer]:
    found = {}
    for layer in model._flatten_layers(include_self=True, recursive=True):
        for variable in layer._trainable_variables + layer._non_trainable_variables:
            # Dense keeps its kernel behind a property of the same name without the underscore.
            maker = getattr(layer, f"{variable.name.lstrip('_')}_initializer", None)
            if layer.trainable and isinstance(maker, keras.initializers.Initializer):
                found[id(variable)] = maker
    return found


def precision_of(model: keras.Model) -> str:
    """Return the precision of the model's weights: the widest floating type among them."""
    kinds = {np.dtype(v.value.dtype) for v in model.variables if v.dtype.startswith("float")}
    return str(np.result_type(*kinds)) if kinds else keras.config.floatx()


def check_precision(model: keras.Model, precision: str) -> None:
    """Raise :class:`SettingError` when the model holds or computes another precision than asked for.

    What counts is what the arrays are: without ``jax_enable_x64`` JAX makes float32 arrays of what
    Keras calls float64.
    """
    held = {(v.dtype, str(v.value.dtype)) for v in model.variables if v.dtype.startswith(("float", "bfloat"))}
    cut = sorted({f"{wanted} weights are {actual} arrays" for wanted, actual in held if wanted != actual})
    if cut:
        msg = (
            f"The model's {', '.join(cut)}: it was built without jax_enable_x64. Set JAX_ENABLE_X64=1 (or call "
            f"jax.config.update('jax_enable_x64', True)) before building it, or build it with dtype='float32'."
        )
        raise SettingError(msg)
    wrong = sorted({actual for _, actual in held if actual != precision})
    if wrong:
        msg = (
            f"The model holds {', '.join(wrong)} weights but precision is {precision!r}. "
            f"Build its layers with dtype={precision!r}, or change precision."
        )
        raise SettingError(msg)
    for layer in model._flatten_layers(include_self=False, recursive=True):
        kind = _computes_in(layer)
        if kind.startswith(("float", "bfloat")) and kind != precision:
            msg = (
                f"The layer {layer.name!r} computes in {kind} but precision is {precision!r}. Build it with "
                f"dtype={precision!r}, or call keras.config.set_dtype_policy({precision!r}) before building the model."
            )
            raise SettingError(msg)


def _computes_in(layer: Any) -> str:
    if isinstance(layer, keras.Model):
        return ""  # a model within a model leaves computing to its layers
    # An input converts what comes in to its own type: integers stay what they are in any precision.
    return str(layer.dtype if isinstance(layer, keras.layers.InputLayer) else layer.compute_dtype)


def fresh_optimizer(optimizer: Any) -> keras.optimizers.Optimizer:
    """Return a new, unbuilt optimizer like ``optimizer`` (a name or a Keras optimizer), which stays untouched.

    Raises
    ------
    SettingError
        When Keras knows no such optimizer.
    """
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        msg = "LossScaleOptimizer is for float16, which is not offered: give its inner optimizer."
        raise SettingError(msg)
    if isinstance(optimizer, keras.optimizers.Optimizer):
        config = optimizer.get_config()
        schedule = getattr(optimizer, "_learning_rate", None)
        if isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
            config["learning_rate"] = schedule  # a user's own schedule need not be registered with Keras
        made = type(optimizer).from_config(config)
        for name in ("_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern"):
            if hasattr(optimizer, name):  # not part of the configuration
                setattr(made, name, getattr(optimizer, name))
        return made
    try:
        return keras.optimizers.get(optimizer)
    except (ValueError, TypeError) as error:
        msg = (
            f"optimizer: Keras knows no optimizer {optimizer!r}. Give the name of one, or a keras.optimizers.Optimizer."
        )
        raise SettingError(msg) from error


def optimizer_values(optimizer: keras.optimizers.Optimizer, model: keras.Model) -> Values:
    """Build ``optimizer`` for the trainable weights of ``model`` and return its initial values."""
    optimizer.build(model.trainable_variables)
    return tuple(np.asarray(v.value) for v in optimizer.variables)


def update_with(optimizer: keras.optimizers.Optimizer) -> Any:
    """Return the pure update rule of a built Keras optimizer (gradient clipping included)."""

    # Keras divides by it, because its own fit() multiplies the loss.
    scale = optimizer.loss_scale_factor

    def update(gradients: Values, trainable: Values, values: Values) -> tuple[Values, Values]:
        if scale is not None:
            gradients = tuple(g * scale for g in gradients)
        new_trainable, new_values = optimizer.stateless_apply(list(values), list(gradients), list(trainable))
        return like(new_trainable, trainable), like(new_values, values)

    return update


def finalised_with(optimizer: keras.optimizers.Optimizer) -> Any:
    """Return ``finalised(trainable, optimizer values)``: the weights that Keras leaves when training ends.

    They differ from the weights in training where the optimizer keeps averages (``use_ema``).
    """
    variables = list(optimizer._trainable_variables)

    def finalised(trainable: Values, values: Values) -> Values:
        mapping = [*zip(variables, trainable, strict=True), *zip(optimizer.variables, values, strict=True)]
        with keras.StatelessScope(mapping) as scope:
            optimizer.finalize_variable_values(variables)
        return tuple(scope.get_current_value(v) for v in variables)

    return finalised


def like(new: Any, old: Values) -> Values:
    """Return ``new`` in the types of ``old``: a scan needs them to stay."""
    return tuple(jnp.asarray(a, dtype=b.dtype) for a, b in zip(new, old, strict=True))


def write_back(model: keras.Model, trainable: Values, non_trainable: Values) -> None:
    """Assign one member's values to the variables of ``model``."""
    for variable, value in zip(model.trainable_variables, trainable, strict=True):
        variable.assign(value)
    for variable, value in zip(model.non_trainable_variables, non_trainable, strict=True):
        variable.assign(value)
