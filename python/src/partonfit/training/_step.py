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


def _all_finite(tree: Any) -> Any:
    # One sum per tensor instead of a boolean per element: NaN and infinity survive a sum.
    return jnp.isfinite(sum(jnp.sum(leaf) for leaf in jax.tree.leaves(tree)))


def make_step(objective: Objective, update: Update, control: EngineControl) -> Step:
    """Return the full-batch step: one evaluation of the weights, then one update."""

    def step(state: TrainState, member: Any, shared: Any) -> tuple[TrainState, Row]:
        def loss(trainable: Values) -> tuple[Any, Evaluation]:
            evaluation = objective(trainable, state.non_trainable, member, shared, state.epoch)
            return evaluation.loss, evaluation

        (value, evaluation), gradients = jax.value_and_grad(loss, has_aux=True)(state.trainable)
        running = state.status == Status.RUNNING
        finite = jnp.isfinite(value) & jnp.isfinite(evaluation.validation) & _all_finite(gradients)
        better = running & finite & evaluation.passed & (evaluation.validation < state.best_validation)
        best_epoch = jnp.where(better, state.epoch, state.best_epoch)
        status = _next_status(state.status, state.epoch, best_epoch, finite, control)
        going_on = status == Status.RUNNING
        trainable, optimizer = update(gradients, state.trainable, state.optimizer)
        # Weights of a member that has ended may wander: they are never looked at again, and freezing
        # them would cost one selection per tensor and step. What is kept is frozen by ``better``.
        new = replace(
            state,
            trainable=trainable,
            non_trainable=evaluation.non_trainable,
            optimizer=optimizer,
            best_trainable=_choose(better, state.trainable, state.best_trainable),
            best_non_trainable=_choose(better, state.non_trainable, state.best_non_trainable),
            best_loss=jnp.where(better, value, state.best_loss),
            best_validation=jnp.where(better, evaluation.validation, state.best_validation),
            best_epoch=best_epoch,
            epoch=state.epoch + going_on.astype(state.epoch.dtype),
            status=status,
        )
        return new, {"epoch": jnp.where(running, state.epoch, -1), "loss": value, "validation": evaluation.validation}

    return step


def _next_status(status: Any, epoch: Any, best_epoch: Any, finite: Any, control: EngineControl) -> Any:
    running = status == Status.RUNNING
    after = jnp.where(epoch >= control.epochs, Status.FINISHED, Status.RUNNING)
    if control.patience is not None:
        # Patience only counts once a first best exists: before that the threshold was never passed.
        tired = (best_epoch >= 0) & (epoch - best_epoch >= control.patience)
        after = jnp.where(tired, Status.STOPPED, after)
    after = jnp.where(finite, after, Status.DIVERGED)
    return jnp.where(running, after, status).astype(status.dtype)


def make_program(step: Step, control: EngineControl) -> Callable:
    """Return ``program(states, members, shared) -> (states, rows)``.

    Leading axis of ``states`` and ``members`` is the member of the block; the rows come back as
    (step, member) arrays.
    """
    batched = jax.vmap(step, in_axes=(0, 0, None))

    def program(states: TrainState, members: Any, shared: Any) -> tuple[TrainState, Row]:
        def body(carry: TrainState, _: None) -> tuple[TrainState, Row]:
            return batched(carry, members, shared)

        return jax.lax.scan(body, states, None, length=control.steps_per_dispatch)

    return program
