"""One pure step of one member, and many of them in one compiled program.

The step evaluates the present weights, remembers them when they are the best so far, decides
whether the member goes on, and only then updates. One forward pass thus serves the training loss,
its gradient and the validation loss; what is kept of a member that has ended never changes again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from partonfit.training._control import EngineControl
from partonfit.training._state import Evaluation, TrainState, Values
from partonfit.training._status import Status

Objective = Callable[[Values, Values, Any, Any, Any], Evaluation]
"""``objective(trainable, non_trainable, member, shared, epoch)``: pure, for one member."""

Update = Callable[[Values, Values, Values], tuple[Values, Values]]
"""``update(gradients, trainable, optimizer) -> (trainable, optimizer)``: pure, for one member."""

Row = dict[str, Any]
"""What one epoch leaves for the history: ``epoch`` (-1 once a member has ended), ``loss``, ``validation``."""

Step = Callable[[TrainState, Any, Any], tuple[TrainState, Row]]
"""``step(state, member, shared) -> (state, row)``: one epoch of one member, pure."""


def _choose(condition: Any, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def all_finite(tree: Any) -> Any:
    """Whether no leaf of ``tree`` holds NaN or infinity."""
    # One sum per tensor instead of a boolean per element: NaN and infinity survive a sum.
    return jnp.isfinite(sum(jnp.sum(leaf) for leaf in jax.tree.leaves(tree)))


def make_step(objective: Objective, update: Update, control: EngineControl) -> Step:
    """Return the full-batch step: one evaluation of the weights, then one update."""

    def step(state: TrainState, member: Any, shared: Any) -> tuple[TrainState, Row]:
        def loss(trainable: Values) -> tuple[Any, Evaluation]:
            evaluation = objective(trainable, state.non_trainable, member, shared, state.epoch)
            return evaluation.loss, evaluation

        (value, evaluation), gradients = jax.value_and_grad(loss, has_aux=True)(state.trainable)
        finite = jnp.isfinite(value) & jnp.isfinite(evaluation.validation) & all_finite(gradients)
        trainable, optimizer = update(gradients, state.trainable, state.optimizer)
        present = (state.trainable, state.non_trainable)
        settled, row = settle(
            state, present, value, evaluation.validation, state.epoch, finite, control, evaluation.passed
        )
        going_on = settled.status == Status.RUNNING
        # Weights of a member that has ended may wander: they are never looked at again, and freezing
        # them would cost one selection per tensor and step. What is kept is frozen by ``settle``.
        new = replace(
            settled,
            trainable=trainable,
            non_trainable=evaluation.non_trainable,
            optimizer=optimizer,
            epoch=state.epoch + going_on.astype(state.epoch.dtype),
        )
        return new, row

    return step


def settle(
    state: TrainState, present: tuple[Values, Values], loss: Any, validation: Any, epoch: Any, finite: Any,
    control: EngineControl, passed: Any = True,
) -> tuple[TrainState, Row]:  # fmt: skip
    """Remember weights that are the best so far, and decide whether the member goes on.

    Parameters
    ----------
    state
        Before the decision.
    present
        The (trainable, non-trainable) values that ``loss`` and ``validation`` belong to.
    epoch
        Number of epochs that led to them.
    finite
        Whether everything is still finite.
    passed
        Whether they may count as best.
    """
    running = state.status == Status.RUNNING
    better = running & finite & passed
    if control.keep == "best":
        better = better & (validation < state.best_validation - control.min_delta)
    best_epoch = jnp.where(better, epoch, state.best_epoch)
    settled = replace(
        state,
        best_trainable=_choose(better, present[0], state.best_trainable),
        best_non_trainable=_choose(better, present[1], state.best_non_trainable),
        best_loss=jnp.where(better, loss, state.best_loss),
        best_validation=jnp.where(better, validation, state.best_validation),
        best_epoch=best_epoch,
        status=_next_status(state.status, epoch, best_epoch, finite, control),
    )
    return settled, {"epoch": jnp.where(running, epoch, -1), "loss": loss, "validation": validation}


def _next_status(status: Any, epoch: Any, best_epoch: Any, finite: Any, control: EngineControl) -> Any:
    running = status == Status.RUNNING
    after = jnp.where(epoch >= control.epochs, Status.FINISHED, Status.RUNNING)
    if control.patience is not None:
        # Patience only counts once a first best exists: before that the threshold was never passed.
        tired = (best_epoch >= 0) & (epoch - best_epoch >= control.patience)
        after = jnp.where(tired, Status.STOPPED, after)
    after = jnp.where(finite, after, Status.DIVERGED)
    return jnp.where(running, after, status).astype(status.dtype)
