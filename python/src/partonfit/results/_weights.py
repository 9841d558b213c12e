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
from partonfit._vocabulary import to_evolution


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
        chosen = [tuple(a[replicas] for a in group) for group in (self.trainable, self.non_trainable)]
        with precision_context(self.precision):
            points = np.asarray(x, dtype=self.precision)[:, None]
            fitted = np.asarray(_evaluator(self.model)(*chosen, points), dtype=np.float64)
        # Exactly at x = 1 the logarithms of the preprocessing are not finite; x f vanishes there.
        fitted[:, np.asarray(x) >= 1] = 0.0
        return np.einsum("ek,rxk->rex", to_evolution(), fitted)


@lru_cache(maxsize=4)
def _evaluator(model: str) -> Any:
    """Return the jitted evaluation of all replicas of a model (few are alive at a time)."""
    # safe_mode refuses lambda layers: a stored fit can never bring code of its own.
    network = keras.saving.deserialize_keras_object(json.loads(model), safe_mode=True)

    def one(trainable: Any, non_trainable: Any, x: Any) -> Any:
        return network.stateless_call(list(trainable), list(non_trainable), x, training=False)[0]

    return jax.jit(jax.vmap(one, in_axes=(0, 0, None)))
