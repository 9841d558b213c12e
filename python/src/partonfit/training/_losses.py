"""From what a user calls a loss to one pure function of explicit values and a batch.

Two kinds of loss lead to the same signature. A Keras loss compares the model's outputs with labels;
a function ``loss(predict, batch[, key])`` may do anything with the model at the member's present
values, its derivatives included. Either way the model's own losses (regularisers, ``add_loss``) are
added, and the values that a call of the model changes (moving averages, seeds) are handed on.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import keras
from jax.extend.core import get_opaque_trace_state

from partonfit._errors import SettingError
from partonfit.training._keras import is_seed_state, like
from partonfit.training._metrics import Meter, update_meters
from partonfit.training._outputs import as_list, by_output, output_names
from partonfit.training._state import Values

BatchLoss = Callable[..., tuple[Any, tuple[Values, Values]]]
"""``loss(trainable, non_trainable, meters, batch, mask, key, training)`` -> (value, (non_trainable, meters))."""

# Seeds that no plain call of the model has moved on are moved on by more than one call could.
_SEED_STRIDE = 1024


def is_function(loss: Any) -> bool:
    """Whether ``loss`` is a function of (predict, batch) rather than a Keras loss."""
    if not callable(loss) or isinstance(loss, keras.losses.Loss):
        return False
    return not str(getattr(loss, "__module__", "")).startswith("keras.")


def keras_losses(loss: Any, precision: str) -> Any:
    """Return ``loss`` (name, Keras loss or function; or a dict or list of those) as Keras losses.

    Raises
    ------
    SettingError
        When a name is unknown, or a loss computes in another precision than the model.
    """
    if isinstance(loss, dict):
        return {name: keras_losses(each, precision) for name, each in loss.items()}
    if isinstance(loss, (list, tuple)):
        return [keras_losses(each, precision) for each in loss]
    if loss is None or isinstance(loss, keras.losses.Loss):
        made = loss
    else:
        try:
            made: Any = keras.losses.get(loss)
        except (ValueError, TypeError) as error:
            msg = f"loss: Keras knows no loss {loss!r}. Give the name of one, a keras.losses.Loss or a function."
            raise SettingError(msg) from error
        if isinstance(made, keras.losses.Loss):
            made = type(made).from_config(made.get_config() | {"dtype": precision})
        else:
            made = _FunctionLoss(made, precision)
    if made is not None and made.dtype != precision:
        msg = (
            f"The loss {made.name!r} computes in {made.dtype} but the model in {precision}. "
            f"Make it with dtype={precision!r}."
        )
        raise SettingError(msg)
    return made


class _FunctionLoss(keras.losses.Loss):
    """One of Keras' loss functions with the reduction of Keras' loss classes."""

    def __init__(self, function: Callable, precision: str) -> None:
        super().__init__(name=getattr(function, "__name__", "loss"), dtype=precision)
        self.function = function

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return self.function(y_true, y_pred)


def masked_weight(weight: Any, mask: Any, reduction: str | None) -> Any:
    """Return the sample weights that leave padded samples (mask 0) out of a Keras reduction."""
    if mask is None:
        return weight
    # Keras divides by the number of samples, the padded ones included.
    scaled = mask * (mask.size / jnp.sum(mask)) if reduction in ("sum_over_batch_size", "mean") else mask
    return scaled if weight is None else weight * scaled


def supervised_loss(model: keras.Model, losses: Any, meters: tuple[Meter, ...]) -> BatchLoss:
    """Return the loss of a batch (x, y, sample weight) under Keras losses (``None``: the model's own only)."""
    names = output_names(model)

    def batch_loss(
        trainable: Values, non_trainable: Values, values: Values, batch: Any, mask: Any, key: Any, training: bool
    ) -> tuple[Any, tuple[Values, Values]]:
        x, y, weight = batch
        outputs, updated, own = call(model, trainable, non_trainable, x, training)
        total = sum(own)
        if losses is not None:
            parts = (
                by_output(losses, outputs, names, "loss"),
                by_output(y, outputs, names, "y") if len(as_list(outputs)) > 1 else [y],
                as_list(outputs),
                by_output(weight, outputs, names, "sample weights"),
            )
            for loss, truth, guess, each in zip(*parts, strict=True):
                if loss is not None:
                    total = total + loss(truth, guess, sample_weight=masked_weight(each, mask, loss.reduction))
        total = scalar(total)
        updated_meters = update_meters(meters, values, total, mask, batch, (y, outputs))
        return total, (like(updated, non_trainable), updated_meters)

    return batch_loss


def function_loss(model: keras.Model, loss: Callable, meters: tuple[Meter, ...]) -> BatchLoss:
    """Return the loss of a batch under a function of (predict, batch) or (predict, batch, key)."""
    with_key = _takes_key(loss)

    def batch_loss(
        trainable: Values, non_trainable: Values, values: Values, batch: Any, mask: Any, key: Any, training: bool
    ) -> tuple[Any, tuple[Values, Values]]:
        predict = _Predict(model, trainable, non_trainable, training)
        total = scalar(loss(predict, batch, key) if with_key else loss(predict, batch)) + sum(predict.own_losses())
        updated_meters = update_meters(meters, values, total, mask, batch, (predict, batch))
        return total, (predict.updated(), updated_meters)

    return batch_loss


def call(
    model: keras.Model, trainable: Values, non_trainable: Values, x: Any, training: bool
) -> tuple[Any, Values, Any]:
    """Call ``model`` at explicit values; return its outputs, the new non-trainable values and its own losses."""
    called: Any = model.stateless_call(
        list(trainable), list(non_trainable), x, return_losses=True, **_training(model, training)
    )
    outputs, updated, losses = called
    return outputs, tuple(updated), [jnp.sum(each) for each in losses]


def _training(model: keras.Model, training: bool) -> dict[str, bool]:
    return {"training": training} if model._call_has_training_arg else {}


def scalar(value: Any) -> Any:
    """Return ``value``, or raise :class:`SettingError` when it is not one number."""
    value = jnp.asarray(value)
    if value.shape != () or not jnp.issubdtype(value.dtype, jnp.floating):
        msg = (
            f"The loss of a batch must be one real number, not an array of shape {value.shape} and type {value.dtype}."
        )
        raise SettingError(msg)
    return value


def _takes_key(loss: Callable) -> bool:
    try:
        inspect.signature(loss).bind(None, None, None)
    except TypeError:
        return False
    return True


class _Predict:
    """The model at one member's present values, as a differentiable function of its inputs.

    All calls within one batch start from the same non-trainable values, so they share their dropout
    masks: derivatives of the prediction are those of one function. What a call changes is taken from
    the first plain call, that is, one outside of ``jax.grad``, ``jax.vmap`` and the like, from which
    no value may escape.
    """

    def __init__(self, model: keras.Model, trainable: Values, non_trainable: Values, training: bool) -> None:
        self._model, self._training = model, training
        self._trainable, self._non_trainable = trainable, non_trainable
        self._outside = get_opaque_trace_state(convention="flax")
        self._first: tuple[Values, list[Any]] | None = None
        self._most_losses, self._moves = 0, False

    def __call__(self, x: Any) -> Any:
        outputs, updated, losses = call(self._model, self._trainable, self._non_trainable, x, self._training)
        variables = self._model.non_trainable_variables
        self._moves |= any(
            new is not old and not is_seed_state(v)
            for v, new, old in zip(variables, updated, self._non_trainable, strict=True)
        )
        self._most_losses = max(self._most_losses, len(losses))
        if self._first is None and get_opaque_trace_state(convention="flax") == self._outside:
            self._first = (like(updated, self._non_trainable), losses)
        return outputs

    def own_losses(self) -> list[Any]:
        """Return regularisers and ``add_loss`` terms of the first plain call."""
        if self._first is not None:
            return self._first[1]
        variables = [*self._model.trainable_variables, *self._model.non_trainable_variables]
        with keras.StatelessScope(list(zip(variables, [*self._trainable, *self._non_trainable], strict=True))):
            losses = [jnp.sum(each) for each in self._model.losses]
        if len(losses) < self._most_losses:
            self._refuse("adds losses of its own when called (add_loss, activity regularisers)")
        return losses

    def updated(self) -> Values:
        """Return the non-trainable values after the batch."""
        if self._first is not None:
            return self._first[0]
        if self._moves:
            self._refuse("changes values of its own when called (moving averages of BatchNormalization)")
        variables = self._model.non_trainable_variables
        return tuple(
            value + jnp.asarray([0, _SEED_STRIDE], value.dtype) if is_seed_state(v) else value
            for v, value in zip(variables, self._non_trainable, strict=True)
        )

    def _refuse(self, what: str) -> None:
        msg = (
            f"The model {what}, but the loss function only calls predict() inside of jax.grad, jax.vmap or another "
            "transformation. Call it once outside, on the batch that these values should be taken from."
        )
        raise SettingError(msg)
