"""What the R package calls for devices and for training any Keras model: the rest of the bridge."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

import partonfit as pf
from partonfit import _columns
from partonfit._bridge_keras import callbacks_of
from partonfit._bridge_operators import Handle, _OfR
from partonfit._errors import SettingError


def data_parallel(devices: int | None) -> dict[str, Any]:
    """Divide Keras' work over devices (``keras.distribution.DataParallel``) and say what was found.

    Raises
    ------
    SettingError
        When there are fewer devices than asked for.
    """
    import jax

    found = jax.local_devices()
    count = len(found) if devices is None else devices
    if count > len(found):
        hint = (
            " On a CPU, devices are made before the start: set the environment variable "
            f"XLA_FLAGS=--xla_force_host_platform_device_count={count} in a new session."
            if found[0].platform == "cpu"
            else ""
        )
        msg = f"devices is {count}, but there {'is' if len(found) == 1 else 'are'} {len(found)}.{hint}"
        raise SettingError(msg)
    names = [f"{d.platform}:{d.id}" for d in found[:count]]
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=names) if count > 1 else None)
    return {"devices": [f"{d.platform}:{d.id} ({d.device_kind})" for d in found[:count]], "present": len(found)}


def ask_for_cpu_devices(count: int) -> bool:
    """Make ``count`` devices of the CPU, unless JAX counted its devices already; say whether it worked."""
    import jax

    if "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return True
    try:
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError:  # the devices are counted when JAX first computes
        return False
    return True


def train_stateless(
    model: Any,
    loss: Any,
    data: Any,
    validation: Any,
    settings: Mapping[str, Any],
    metrics: Sequence[Any],
    form: str = "keras",
    callbacks: Sequence[Any] | None = None,
    progress: Callable[..., Any] | None = None,
) -> dict[str, Any]:
    """Train a Keras model of R's by :func:`partonfit.train` and return plain values and a handle.

    ``loss`` is the name of a Keras loss, a Keras loss, or a function of R's, which is called while the
    program is traced: on R's thread, once. ``form`` says what an R function takes: "keras" for
    (y_true, y_pred), "batch" for (predict, batch), "key" for (predict, batch, key).
    """

    def report(step: int, total: int, values: Mapping[str, Any]) -> None:
        if progress is not None:
            progress(int(step), int(total), {name: float(value) for name, value in values.items()})

    if callable(loss) and not hasattr(loss, "get_config"):
        loss = _traced(_OfR(loss, "the loss", threading.current_thread()), form)
    trained = pf.train(
        model, loss, _arrays(data), validation=validation if np.isscalar(validation) else _arrays(validation),
        metrics=list(metrics), callbacks=callbacks_of(callbacks), progress=report, **settings,
    )  # fmt: skip
    epoch = np.asarray(trained.history["epoch"], dtype=np.int64)
    members = len(trained.status)
    columns = {
        "member": np.repeat(np.arange(members, dtype=np.int64), len(epoch)),
        "epoch": np.tile(epoch, members),
    }
    for name, values in trained.history.items():
        if name != "epoch":
            columns[name] = np.ascontiguousarray(np.asarray(values, dtype=float).reshape(-1))
    return {
        "handle": Handle(trained),
        "seed": int(trained.seed),
        "history": columns,
        "members": {
            "member": np.arange(members, dtype=np.int64),
            "status": [s.label for s in trained.status],
            "epoch": _columns.column(trained.epoch, "whole"),
            "best_epoch": _columns.column(trained.best_epoch, "whole"),
            "loss": _columns.column(trained.loss, "number"),
            "validation": _columns.column(trained.validation, "number"),
        },
    }


def _traced(function: _OfR, form: str) -> Any:
    """Return a Keras loss or a plain function: the engine reads the signature of a loss."""
    if form == "keras":
        return _LossOfR(function)
    if form == "key":

        def with_key(predict: Any, batch: Any, key: Any) -> Any:
            return function(predict, batch, key)

        return with_key

    def loss(predict: Any, batch: Any) -> Any:
        return function(predict, batch)

    return loss


class _LossOfR(keras.losses.Loss):
    """An R function of (y_true, y_pred) that gives one number for each sample."""

    def __init__(self, function: _OfR) -> None:
        super().__init__(name="loss_of_r")
        self.function = function

    def call(self, y_true: Any, y_pred: Any) -> Any:
        values = self.function(y_true, y_pred)
        if not getattr(values, "ndim", 0):
            msg = (
                "A loss of (y_true, y_pred) must return one number for each sample, not one for all: take means "
                "over the last axis only."
            )
            raise SettingError(msg)
        return values


def predict_stateless(handle: Handle, x: Any) -> np.ndarray:
    """Return the outputs (member, sample, ...) of all members."""
    return np.ascontiguousarray(np.asarray(handle.value.predict(_arrays(x)), dtype=float))


def write_back(handle: Handle, member: int) -> None:
    """Give the Keras model the trained weights of a member."""
    handle.value.write_back(member)


def _arrays(data: Any) -> Any:
    """Return R's arrays in C order; lists become tuples, as Keras losses expect (x, y)."""
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data)
    if isinstance(data, Mapping):
        return {name: _arrays(value) for name, value in data.items()}
    return None if data is None else tuple(_arrays(value) for value in data)
