"""The explicit state of one member: everything that training changes, as one pytree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

Values = tuple[Any, ...]
"""Values of Keras variables, in the order Keras lists them."""


class Evaluation(NamedTuple):
    """What an objective says about one member at its present weights: scalars, but for the last."""

    loss: Any
    """Minimised: its gradient drives the optimizer."""
    validation: Any
    """Decides which weights are best and when to stop; or a pytree from which the step's judge finds that."""
    passed: Any
    """Whether these weights may count as best (thresholds, positivity)."""
    non_trainable: Values
    """Non-trainable values after the call (moving averages, seeds)."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TrainState:
    """State of one member (or, with a leading member axis, of a block of members)."""

    trainable: Values
    non_trainable: Values
    optimizer: Values
    best_trainable: Values
    best_non_trainable: Values
    best_loss: Any
    best_validation: Any
    best_epoch: Any
    epoch: Any
    status: Any
