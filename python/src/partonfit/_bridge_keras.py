"""Keras objects of R's: models, optimizers and callbacks made by R's keras3 or through reticulate.

R objects hold plain values, so a model or an optimizer becomes its description in JSON. Classes that
were written in R exist in this session only: they are registered with Keras under their own names, so
that a description finds them again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import keras

import partonfit as pf
from partonfit._bridge_fits import plain_progress
from partonfit._errors import SettingError

# These change weights or rates that are not in the Keras model while it trains.
_UNFIT = (
    keras.callbacks.BackupAndRestore,
    keras.callbacks.EarlyStopping,
    keras.callbacks.LearningRateScheduler,
    keras.callbacks.ModelCheckpoint,
    keras.callbacks.ReduceLROnPlateau,
    keras.callbacks.SwapEMAWeights,
)


def keras_text(thing: Any) -> str:
    """Return the description of a Keras model or optimizer as JSON, the plain value that R keeps of it."""
    if not isinstance(thing, (keras.Model, keras.optimizers.Optimizer)):
        msg = f"This is no Keras model and no Keras optimizer, but {type(thing).__module__}.{type(thing).__name__}."
        raise SettingError(msg)
    for layer in _parts(thing):
        _registered(type(layer))
    try:
        text = json.dumps(keras.saving.serialize_keras_object(thing))
        keras.saving.deserialize_keras_object(json.loads(text), safe_mode=True)
    except (TypeError, ValueError, NotImplementedError, AttributeError) as error:
        msg = (
            f"Keras cannot describe this {type(thing).__name__} and build it again ({type(error).__name__}: {error}). "
            "A layer of one's own needs get_config() with the arguments of its constructor; functions inside "
            "layers (lambda) do not work, make them a layer."
        )
        raise SettingError(msg) from error
    return text


def keras_object(text: str) -> Any:
    """Return the Keras object that :func:`keras_text` described."""
    try:
        return keras.saving.deserialize_keras_object(json.loads(text), safe_mode=True)
    except (TypeError, ValueError) as error:
        msg = f"Keras cannot build this model: {error}. Define layers of your own before they are used."
        raise SettingError(msg) from error


def keras_widths(text: str) -> list[int]:
    """Return the number of weights and the numbers of layers, for printing."""
    model = keras_object(text)
    return [int(model.count_params()), len(model.layers)]


def _parts(thing: Any) -> list[Any]:
    flatten = getattr(thing, "_flatten_layers", None)
    return [thing] if flatten is None else list(flatten(include_self=True, recursive=True))


def _registered(kind: type) -> None:
    if kind.__module__.partition(".")[0] in ("keras", "partonfit"):
        return
    if keras.saving.get_registered_name(kind) == kind.__name__:  # not registered by its author
        keras.saving.get_custom_objects()[kind.__name__] = kind


# --- callbacks ---------------------------------------------------------------------------------------


class OfKeras:
    """A Keras callback, called between chunks of epochs: about once a second."""

    def __init__(self, callback: Any) -> None:
        if isinstance(callback, _UNFIT):
            msg = (
                f"{type(callback).__name__} of Keras works on one model that fit() trains, and cannot work here. "
                "Stopping is by patience=, the best weights are kept, checkpoint= keeps the state."
            )
            raise SettingError(msg)
        self.callback, self.model = callback, SimpleNamespace(stop_training=False)
        self.__qualname__ = type(callback).__name__

    def open(self, resumed: bool = False) -> None:
        """Begin."""
        self.callback.set_params({})
        self.callback.set_model(self.model)
        self.callback.on_train_begin({})

    def __call__(self, step: int, total: int, metrics: Mapping[str, Any]) -> None:
        """Report the last epoch of a chunk under Keras' names."""
        logs = {name: float(value) for name, value in metrics.items()}
        for ours, theirs in (("training", "loss"), ("validation", "val_loss")):
            if ours in logs:
                logs.setdefault(theirs, logs[ours])
        self.callback.on_epoch_begin(int(step) - 1, {})
        self.callback.on_epoch_end(int(step) - 1, logs)
        if self.model.stop_training:
            raise KeyboardInterrupt

    def close(self) -> None:
        """End."""
        self.callback.on_train_end({})


def callbacks_of(callbacks: Sequence[Any] | None) -> list[Callable[..., Any]]:
    """Return paths of CSV files, Keras callbacks and functions of R's as callbacks of the core."""
    found: list[Any] = []
    for callback in callbacks or ():
        if isinstance(callback, str):
            found.append(pf.CSVLogger(callback))
        elif isinstance(callback, keras.callbacks.Callback):
            found.append(OfKeras(callback))
        elif callable(callback):
            found.append(plain_progress(callback))
        else:
            kind = type(callback)
            msg = f"A callback must be a function, a path or a Keras callback, not {kind.__module__}.{kind.__name__}."
            raise SettingError(msg)
    return found
