"""Means and Keras metrics over the batches of one epoch, as explicit values that start anew each epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from partonfit._errors import SettingError
from partonfit.training._outputs import as_list, by_output, output_names
from partonfit.training._state import Values


@dataclass(frozen=True)
class Meter:
    """One quantity of an epoch.

    Attributes
    ----------
    name
        Its name in the history.
    metric
        The Keras metric that adds up; only its stateless methods are used.
    seen
        ``seen(total, count, mask, subject)`` -> arguments of the metric's update; ``total`` is the loss
        of the batch, ``count`` its number of samples and ``subject`` what the loss was made from.
    """

    name: str
    metric: keras.metrics.Metric
    seen: Callable[[Any, Any, Any, Any], tuple[Any, ...]]


def loss_meter(precision: str) -> Meter:
    """Return the mean of the loss over an epoch, each batch weighted by its number of samples."""
    return Meter("loss", keras.metrics.Mean(name="loss", dtype=precision), lambda total, count, *_: (total, count))


def keras_meters(metrics: Any, model: keras.Model, outputs: Any, y: Any, precision: str) -> tuple[Meter, ...]:
    """Return the meters of Keras metrics (names, metrics or functions of (y_true, y_pred)).

    Parameters
    ----------
    metrics
        A list for the one output (or for each), or a dict or list of lists by output.
    outputs, y
        Arrays, or their shapes, as the model and the data give them.
    """
    names, several = output_names(model), len(as_list(outputs)) > 1
    nested = isinstance(metrics, (list, tuple)) and any(isinstance(each, (list, tuple)) for each in metrics)
    wanted = metrics if isinstance(metrics, dict) or nested else [metrics] * len(as_list(outputs))
    labels = sorted(outputs) if isinstance(outputs, dict) else names
    if len(labels) != len(as_list(outputs)):
        labels = [str(i) for i in range(len(as_list(outputs)))]
    truths = by_output(y, outputs, names, "y") if several else [y]
    found = []
    for place, (each, truth, guess) in enumerate(
        zip(by_output(wanted, outputs, names, "metrics"), truths, as_list(outputs), strict=True)
    ):
        for one in [] if each is None else each if isinstance(each, (list, tuple)) else [each]:
            metric = _metric(one, truth, guess, precision)
            name = f"{labels[place]}_{metric.name}" if several else metric.name
            found.append(Meter(name, metric, _compares(place, several, names)))
    return tuple(found)


def _compares(place: int, several: bool, names: list[str]) -> Callable[[Any, Any, Any, Any], tuple[Any, ...]]:
    def seen(total: Any, count: Any, mask: Any, subject: Any) -> tuple[Any, ...]:
        y, outputs = subject
        truth = by_output(y, outputs, names, "y")[place] if several else y
        return (truth, as_list(outputs)[place], mask)

    return seen


def _metric(wanted: Any, y: Any, output: Any, precision: str) -> keras.metrics.Metric:
    """Return the Keras metric, its variables built, that ``wanted`` stands for."""
    if isinstance(wanted, str) and wanted.lower() in ("accuracy", "acc"):
        metric = _accuracy(y, output)(name=wanted, dtype=precision)
    else:
        try:
            metric: Any = keras.metrics.get(wanted)
        except (ValueError, TypeError) as error:
            msg = f"Keras knows no metric {wanted!r}. Give the name of one, a keras.metrics.Metric or a function."
            raise SettingError(msg) from error
        if isinstance(wanted, str) and isinstance(metric, keras.metrics.Metric):
            metric = type(metric).from_config(metric.get_config() | {"dtype": precision, "name": wanted})
        if not isinstance(metric, keras.metrics.Metric):
            name = wanted if isinstance(wanted, str) else getattr(wanted, "__name__", "metric")
            metric = keras.metrics.MeanMetricWrapper(metric, name=name, dtype=precision)
    # Some metrics make their variables only when they see the first labels.
    metric.update_state(np.zeros((2, *y.shape[1:]), y.dtype), np.zeros((2, *output.shape[1:]), output.dtype))
    return metric


def _accuracy(y: Any, output: Any) -> Any:
    """Return the accuracy that Keras means by ``"accuracy"`` for these shapes."""
    if output.shape[-1] == 1:
        return keras.metrics.BinaryAccuracy
    if len(y.shape) < len(output.shape) or y.shape[-1] == 1:
        return keras.metrics.SparseCategoricalAccuracy
    return keras.metrics.CategoricalAccuracy


def function_meters(metrics: Any, precision: str) -> tuple[Meter, ...]:
    """Return the meters of functions of (predict, batch): means over the samples of an epoch."""
    if not isinstance(metrics, dict):
        metrics = {getattr(each, "__name__", str(each)): each for each in metrics}
    for name, function in metrics.items():
        if not callable(function) or isinstance(function, keras.metrics.Metric):
            msg = f"metrics: with a loss function, {name!r} must be a function of (predict, batch), not {function!r}."
            raise SettingError(msg)

    def seen(function: Callable) -> Callable[[Any, Any, Any, Any], tuple[Any, ...]]:
        return lambda total, count, mask, subject: (function(*subject), count)

    return tuple(Meter(n, keras.metrics.Mean(name=n, dtype=precision), seen(f)) for n, f in metrics.items())


def first_values(meters: tuple[Meter, ...]) -> Values:
    """Return the values of all meters at the beginning of an epoch."""
    values = []
    for meter in meters:
        meter.metric.reset_state()
        values += [np.asarray(v.value) for v in meter.metric.variables]
    return tuple(values)


def update_meters(meters: tuple[Meter, ...], values: Values, total: Any, mask: Any, batch: Any, subject: Any) -> Values:
    """Return the values of all meters after one more batch."""
    count = samples_of(batch) if mask is None else jnp.sum(mask)
    updated: list[Any] = []
    for meter in meters:
        own = values[len(updated) : len(updated) + len(meter.metric.variables)]
        new = meter.metric.stateless_update_state(list(own), *meter.seen(total, count, mask, subject))
        updated += [jnp.asarray(a, dtype=b.dtype) for a, b in zip(new, own, strict=True)]
    return tuple(updated)


def meter_results(meters: tuple[Meter, ...], values: Values) -> dict[str, Any]:
    """Return name -> number of one epoch."""
    results, place = {}, 0
    for meter in meters:
        width = len(meter.metric.variables)
        result: Any = meter.metric.stateless_result(list(values[place : place + width]))
        place += width
        parts = (
            {f"{meter.name}_{k}": v for k, v in result.items()} if isinstance(result, dict) else {meter.name: result}
        )
        for name, value in parts.items():
            if jnp.ndim(value):
                msg = (
                    f"The metric {name!r} gives an array of shape {jnp.shape(value)}; only single numbers are recorded."
                )
                raise SettingError(msg)
            results[name] = jnp.asarray(value)
    return results


def samples_of(batch: Any) -> int:
    """Return the number of samples in a batch."""
    return jax.tree.leaves(batch)[0].shape[0]
