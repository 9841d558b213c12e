"""Trained weights as plain arrays, and x f from them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import keras
import numpy as np

from partonfit._precision import precision_context
from partonfit._vocabulary import completion


@dataclass(frozen=True)
class Weights:
    """Weights of every replica and the description of the model they belong to.

    Attributes
    ----------
    model
        JSON text: the Keras serialisation of the model.
    trainable, non_trainable
        One array (replica, ...) per Keras variable, in Keras' order.
    precision
        ``"float32"`` or ``"float64"``.
    """

    model: str
    trainable: tuple[np.ndarray, ...]
    non_trainable: tuple[np.ndarray, ...]
    precision: str

    def __len__(self) -> int:
        return len(self.trainable[0])

    def xf(self, x: np.ndarray, replicas: np.ndarray) -> np.ndarray:
        """Return x f at Q0, (replica, 14, x), of the replicas numbered in ``replicas``."""
        points = np.asarray(x, dtype=self.precision)
        # A new shape is a new compilation: all replicas always, and x filled up to few lengths.
        filled = np.concatenate([points, np.full(_length(len(points)) - len(points), 0.5, self.precision)])
        with precision_context(self.precision):
            evaluate, complete = _evaluator(self.model)
            everyone = np.asarray(evaluate(self.trainable, self.non_trainable, filled[:, None]))
        fitted = everyone[replicas, : len(points)].astype(np.float64)
        # Exactly at x = 1 the logarithms of the preprocessing are not finite; x f vanishes there.
        fitted[:, points >= 1] = 0.0
        return np.einsum("ek,rxk->rex", complete, fitted)


def _length(count: int) -> int:
    """Return the smallest of 64, 256, 1024, ... that holds ``count`` points.

    Examples
    --------
    >>> [_length(n) for n in (1, 64, 65, 1500)]
    [64, 64, 256, 4096]
    """
    length = 64
    while length < count:
        length *= 4
    return length


@lru_cache(maxsize=4)
def _evaluator(model: str) -> tuple[Any, np.ndarray]:
    """Return the jitted evaluation of all replicas of a model (few are alive at a time), and its completion."""
    # safe_mode refuses lambda layers: a stored fit can never bring code of its own.
    network = keras.saving.deserialize_keras_object(json.loads(model), safe_mode=True)

    def one(trainable: Any, non_trainable: Any, x: Any) -> Any:
        return network.stateless_call(list(trainable), list(non_trainable), x, training=False)[0]

    return jax.jit(jax.vmap(one, in_axes=(0, 0, None))), completion(network)
