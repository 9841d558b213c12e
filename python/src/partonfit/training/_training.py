"""What :func:`train` returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import keras
import numpy as np

from partonfit._checks import whole
from partonfit._errors import SettingError
from partonfit._precision import keras_floatx, precision_context
from partonfit.training._keras import write_back
from partonfit.training._loop import TrainResult
from partonfit.training._losses import call
from partonfit.training._state import Values
from partonfit.training._status import Status


@dataclass(frozen=True)
class Training:
    """What :func:`train` returns: one entry per member, in order.

    Attributes
    ----------
    status
        How each member ended (:class:`Status`).
    loss, validation
        (member,) of the epoch whose weights were kept, as in ``history``; without validation data
        both are the loss. NaN where there is none.
    epoch, best_epoch
        (member,) epochs made, and the epoch whose weights were kept (-1: none).
    history
        ``epoch`` (record,) and, as (member, record), ``loss``, ``validation``, each metric ``m`` and
        ``validation_m``; NaN once a member has ended. As in Keras, losses and metrics of the
        training data are means over the epoch while the weights change.
    seed, precision
        As trained.
    compilations
        Number of programs compiled.
    error
        What a callback raised, if that ended the training.
    """

    status: tuple[Status, ...]
    loss: np.ndarray
    validation: np.ndarray
    epoch: np.ndarray
    best_epoch: np.ndarray
    history: dict[str, np.ndarray]
    seed: int
    precision: str
    compilations: int
    error: Exception | None
    _model: keras.Model = field(repr=False)
    _values: tuple[Values, Values] = field(repr=False)
    _forward: Callable = field(repr=False)

    @property
    def usable(self) -> np.ndarray:
        """(member,) whether a member ended well: index for what :meth:`predict` returns."""
        return np.array([status.usable for status in self.status])

    def values(self, member: int = 0) -> tuple[Values, Values]:
        """Return the trained (trainable, non-trainable) values of one member, in Keras' order."""
        return tuple(tuple(leaf[member] for leaf in group) for group in self._values)  # pyright: ignore[reportReturnType]

    def predict(self, x: Any) -> Any:
        """Return the outputs (member, sample, ...) of all members at ``x`` (an array, or a dict or list of arrays).

        A member that never had finite weights to keep (``best_epoch`` is -1) gives NaN.
        """
        with precision_context(self.precision), keras_floatx(self.precision):
            x = jax.tree.map(lambda a: _as_array(a, self.precision), x)
            return jax.tree.map(np.asarray, self._forward(*self._values, x))

    def write_back(self, member: int = 0) -> keras.Model:
        """Give the model the trained values of ``member``, for ``save()`` or ``predict()``, and return it.

        Raises
        ------
        SettingError
            When there is no such member, or it has no trained weights.
        """
        if whole("member", member, least=0) >= len(self.status):
            msg = f"There is no member {member}: members are numbered 0 to {len(self.status) - 1}."
            raise SettingError(msg)
        if self.best_epoch[member] < 0:
            msg = f"Member {member} has no trained weights: it {self.status[member].sentence(int(self.epoch[member]))}."
            raise SettingError(msg)
        with precision_context(self.precision):
            write_back(self._model, *self.values(member))
        return self._model


def _as_array(leaf: Any, precision: str) -> np.ndarray:
    array = np.asarray(leaf)
    return array.astype(precision) if array.dtype.kind == "f" else array


def _trained(result: TrainResult) -> tuple[Values, Values]:
    """Return the kept values, NaN for members without any: initial weights must not pass for trained ones."""
    lost = result.best_epoch < 0

    def blank(leaf: np.ndarray) -> np.ndarray:
        return np.where(lost.reshape(-1, *(1,) * (leaf.ndim - 1)), np.nan, leaf) if leaf.dtype.kind == "f" else leaf

    return jax.tree.map(blank, (result.trainable, result.non_trainable)) if lost.any() else (
        result.trainable, result.non_trainable
    )  # fmt: skip


def training_of(model: keras.Model, result: TrainResult, seed: int, precision: str) -> Training:
    """Return what :func:`train` returns; the model has the weights of member 0 afterwards, if it has any."""
    one = lambda trainable, non_trainable, x: call(model, trainable, non_trainable, x, False)[0]  # noqa: E731
    training = Training(
        status=result.status,
        loss=result.loss,
        validation=result.validation,
        epoch=result.epoch,
        best_epoch=result.best_epoch,
        history=result.history,
        seed=seed,
        precision=precision,
        compilations=result.compilations,
        error=result.error,
        _model=model,
        _values=_trained(result),
        _forward=jax.jit(jax.vmap(one, in_axes=(0, 0, None))),
    )
    if training.best_epoch[0] >= 0:
        training.write_back(0)
    return training
