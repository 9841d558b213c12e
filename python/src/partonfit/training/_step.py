"""One pure step of one member: a few epochs, and what is kept of them.

An epoch evaluates the present weights and only then updates them: one forward pass thus serves the
training loss, its gradient and the validation loss. After every few epochs the weights among them that
are the best so far are remembered and it is decided whether, and when, the member has ended; what is
kept of a member that has ended never changes again. Looking at several epochs at once changes no
number, but a validation that needs a large matrix reads it once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from partonfit.training._control import EngineControl
from partonfit.training._state import Evaluation, TrainState, Values
from partonfit.training._status import Status

Objective = Callable[[Values, Values, Any, Any, Any], Evaluation]
"""``objective(trainable, non_trainable, member, shared, epoch)``: pure, for one member."""

Judge = Callable[[Evaluation, Any, Any], tuple[Any, Any]]
"""``judge(evaluation, member, shared) -> (validation, passed)``: pure, for one epoch of one member."""

Update = Callable[[Values, Values, Values], tuple[Values, Values]]
"""``update(gradients, trainable, optimizer) -> (trainable, optimizer)``: pure, for one member."""

Row = dict[str, Any]
"""What epochs leave, (epoch,) each: ``epoch`` (-1 once a member has ended), ``loss``, ``validation``."""

Step = Callable[[TrainState, Any, Any], tuple[TrainState, Row]]
"""``step(state, member, shared) -> (state, row)``: a fixed number of epochs of one member, pure."""

_STRIDE = 50


class _Present(NamedTuple):
    """What an epoch changes."""

    trainable: Values
    non_trainable: Values
    optimizer: Values
    epoch: Any


class _Look(NamedTuple):
    """What an epoch leaves for the decision: its evaluation, and the weights before the update."""

    evaluation: Evaluation
    epoch: Any
    weights: tuple[Values, Values]


class _Verdict(NamedTuple):
    """What is decided epoch by epoch; ``chosen`` is the number of the best of them (-1: none)."""

    status: Any
    best_epoch: Any
    best_validation: Any
    chosen: Any


def all_finite(tree: Any) -> Any:
    """Whether no leaf of ``tree`` holds NaN or infinity."""
    # One sum per tensor instead of a boolean per element: NaN and infinity survive a sum.
    return jnp.isfinite(sum(jnp.sum(leaf) for leaf in jax.tree.leaves(tree)))


def make_step(objective: Objective, update: Update, control: EngineControl, judge: Judge | None = None) -> Step:
    """Return the full-batch step: evaluations of the weights, each with one update, then the decision.

    Parameters
    ----------
    objective
        Loss and validation of one member.
    update
        Rule of the optimizer.
    control
        Settings of the engine.
    judge
        Makes validation and ``passed`` of an epoch from its evaluation (of which it gets no
        non-trainable values), where that is cheaper for several epochs together: they come as one
        batch. ``None``: the evaluation has them, and every step is one epoch.
    """

    def epoch(carry: _Present, member: Any, shared: Any) -> tuple[_Present, _Look]:
        def loss(trainable: Values) -> tuple[Any, Evaluation]:
            evaluation = objective(trainable, carry.non_trainable, member, shared, carry.epoch)
            return evaluation.loss, evaluation

        (_, evaluation), gradients = jax.value_and_grad(loss, has_aux=True)(carry.trainable)
        trainable, optimizer = update(gradients, carry.trainable, carry.optimizer)
        weights = (carry.trainable, carry.non_trainable)
        look = _Look(evaluation._replace(non_trainable=()), carry.epoch, weights)
        return _Present(trainable, evaluation.non_trainable, optimizer, carry.epoch + 1), look

    def judged(look: _Look, member: Any, shared: Any) -> tuple[Any, Any]:
        if judge is None:
            return look.evaluation.validation, look.evaluation.passed
        return judge(look.evaluation, member, shared)

    def step(state: TrainState, member: Any, shared: Any) -> tuple[TrainState, Row]:
        begin = _Present(state.trainable, state.non_trainable, state.optimizer, state.epoch)
        last, looks = jax.lax.scan(
            lambda carry, _: epoch(carry, member, shared),
            begin,
            length=1 if judge is None else min(_STRIDE, control.epochs + 1),
        )
        validation, passed = jax.vmap(judged, in_axes=(0, None, None))(looks, member, shared)
        losses = looks.evaluation.loss
        # A gradient that is not finite shows in the weights of the next epoch.
        finite = jnp.isfinite(losses) & jnp.isfinite(validation) & jax.vmap(all_finite)(looks.weights[0])
        settled, row = settle(state, looks.weights, losses, validation, looks.epoch, finite, control, passed)
        ended_at = jnp.where(state.status == Status.RUNNING, jnp.max(row["epoch"]), state.epoch)
        # Weights of a member that has ended may wander: they are never looked at again, and freezing
        # them would cost one selection per tensor and step. What is kept is frozen by ``settle``.
        new = replace(
            settled,
            trainable=last.trainable,
            non_trainable=last.non_trainable,
            optimizer=last.optimizer,
            epoch=jnp.where(settled.status == Status.RUNNING, last.epoch, ended_at),
        )
        return new, row

    return step


def settle(
    state: TrainState, weights: tuple[Values, Values], loss: Any, validation: Any, epoch: Any, finite: Any,
    control: EngineControl, passed: Any = True,
) -> tuple[TrainState, Row]:  # fmt: skip
    """Remember the best weights so far, and decide whether the member goes on, epoch by epoch.

    Parameters
    ----------
    state
        Before the decision.
    weights
        The (trainable, non-trainable) values (epoch, ...) that ``loss`` and ``validation`` belong to.
    loss, validation, epoch, finite, passed
        (epoch,) each: losses, number of epochs that led to them, whether everything was still finite,
        and whether the weights may count as best.
    """
    numbers = jnp.arange(epoch.shape[0], dtype=jnp.int32)

    def one(carry: _Verdict, look: tuple[Any, ...]) -> tuple[_Verdict, Any]:
        number, validation, epoch, finite, passed = look
        running = carry.status == Status.RUNNING
        better = running & finite & passed
        if control.keep == "best":
            better = better & (validation < carry.best_validation - control.min_delta)
        best_epoch = jnp.where(better, epoch, carry.best_epoch)
        after = _Verdict(
            _next_status(carry.status, epoch, best_epoch, finite, control),
            best_epoch,
            jnp.where(better, validation, carry.best_validation),
            jnp.where(better, number, carry.chosen),
        )
        return after, jnp.where(running, epoch, -1)

    before = _Verdict(state.status, state.best_epoch, state.best_validation, jnp.int32(-1))
    verdict, epochs = jax.lax.scan(
        one, before, (numbers, validation, epoch, finite, jnp.broadcast_to(passed, epoch.shape))
    )

    def best(new: Any, old: Any) -> Any:
        return jax.tree.map(lambda n, o: jnp.where(verdict.chosen >= 0, n[verdict.chosen], o), new, old)

    settled = replace(
        state,
        best_trainable=best(weights[0], state.best_trainable),
        best_non_trainable=best(weights[1], state.best_non_trainable),
        best_loss=best(loss, state.best_loss),
        best_validation=verdict.best_validation,
        best_epoch=verdict.best_epoch,
        status=verdict.status,
    )
    return settled, {"epoch": epochs, "loss": loss, "validation": validation}


def _next_status(status: Any, epoch: Any, best_epoch: Any, finite: Any, control: EngineControl) -> Any:
    running = status == Status.RUNNING
    after = jnp.where(epoch >= control.epochs, Status.FINISHED, Status.RUNNING)
    if control.patience is not None:
        # Patience only counts once a first best exists: before that the threshold was never passed.
        tired = (best_epoch >= 0) & (epoch - best_epoch >= control.patience)
        after = jnp.where(tired, Status.STOPPED, after)
    after = jnp.where(finite, after, Status.DIVERGED)
    return jnp.where(running, after, status).astype(status.dtype)
