"""One epoch over mini-batches as a step of the engine.

A batch is a set of rows of the data, gathered inside the compiled program; the order of the rows is
drawn anew for each member and epoch from the member's own key. When the last batch has fewer samples
than the others it is a batch of its own size in the same program: its mean, its batch statistics and
any loss of the user are then those of its samples, which no padding could give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from partonfit.training._control import EngineControl
from partonfit.training._losses import BatchLoss
from partonfit.training._metrics import Meter, meter_results
from partonfit.training._state import TrainState, Values
from partonfit.training._status import Status
from partonfit.training._step import Row, Step, Update, all_finite, settle

_ORDER, _BATCHES, _VALIDATION = range(3)  # streams of a member's key within one epoch


@dataclass(frozen=True)
class Problem:
    """What is trained: the loss of a batch, what is measured, and how the samples are cut.

    Attributes
    ----------
    loss
        Pure loss of one batch.
    meters
        What is measured; the first is the loss.
    fresh
        Values of all meters at the beginning of an epoch.
    batch_size
        Samples per update and per part of the validation data (``None``: all).
    shuffle
        Whether each epoch visits the samples in a new order.
    finalised
        ``finalised(trainable, optimizer)``: the weights that training leaves (moving averages, where
        the optimizer keeps them).
    """

    loss: BatchLoss
    meters: tuple[Meter, ...]
    fresh: Values
    batch_size: int | None
    shuffle: bool
    finalised: Callable[[Values, Values], Values]


def overlay(shared: Any, own: Any) -> Any:
    """Return ``shared`` with the arrays of ``own`` in their places, where it has any."""
    return jax.tree.map(lambda mine, theirs: theirs if mine is None else mine, own, shared, is_leaf=lambda v: v is None)


def over_batches(body: Callable, carry: Any, data: Any, size: int | None, key: Any = None) -> Any:
    """Return ``carry`` after ``body(carry, batch, number) -> carry`` over all batches of ``data``.

    Parameters
    ----------
    data
        Pytree of arrays (sample, ...).
    size
        Samples per batch (``None``: all); the last batch holds what is left.
    key
        Draws the order of the samples (``None``: as they are).
    """
    samples = jax.tree.leaves(data)[0].shape[0]
    size = min(size or samples, samples)
    full, rest = divmod(samples, size)
    if full + (rest > 0) == 1:
        return body(carry, data, 0)  # one batch of everything: the order does not matter
    order = jnp.arange(samples) if key is None else jax.random.permutation(key, samples)

    def one(carry: Any, batch: tuple[Any, Any]) -> tuple[Any, None]:
        rows, number = batch
        return body(carry, jax.tree.map(lambda a: a.at[rows].get(mode="promise_in_bounds"), data), number), None

    if full:
        carry, _ = jax.lax.scan(one, carry, (order[: full * size].reshape(full, size), jnp.arange(full)))
    if rest:
        carry, _ = one(carry, (order[full * size :], full))
    return carry


def make_epoch_step(problem: Problem, update: Update, control: EngineControl) -> Step:
    """Return the step that makes one update per batch, then validates, remembers and decides.

    ``member`` holds ``key`` and, where members have data of their own, ``data`` and ``validation``;
    ``shared`` holds ``data``, ``mask``, ``validation`` and ``validation_mask``. Rows of the history are
    as in Keras: ``loss`` and metrics are means over the epoch while the weights change, validation
    is that of the weights after it. Without validation data, the loss takes its place.
    """

    def step(state: TrainState, member: Any, shared: Any) -> tuple[TrainState, Row]:
        epoch_key = jax.random.fold_in(jax.random.wrap_key_data(member["key"], impl="threefry2x32"), state.epoch)
        order, batches, held_out = (jax.random.fold_in(epoch_key, i) for i in (_ORDER, _BATCHES, _VALIDATION))

        def learn(carry: tuple[Values, ...], batch: Any, number: Any) -> tuple[Values, ...]:
            trainable, non_trainable, optimizer, meters = carry

            def loss(values: Values) -> tuple[Any, tuple[Values, Values]]:
                return problem.loss(values, non_trainable, meters, *batch, jax.random.fold_in(batches, number), True)

            (_, (non_trainable, meters)), gradients = jax.value_and_grad(loss, has_aux=True)(trainable)
            trainable, optimizer = update(gradients, trainable, optimizer)
            return trainable, non_trainable, optimizer, meters

        data = (overlay(shared["data"], member["data"]), shared["mask"])
        begin = (state.trainable, state.non_trainable, state.optimizer, problem.fresh)
        trainable, non_trainable, optimizer, meters = over_batches(
            learn, begin, data, problem.batch_size, order if problem.shuffle else None
        )
        kept = problem.finalised(trainable, optimizer)
        measured = meter_results(problem.meters, meters)
        loss = monitored = measured.pop("loss")
        if shared["validation"] is not None:

            def check(meters: Values, batch: Any, number: Any) -> Values:
                key = jax.random.fold_in(held_out, number)
                return problem.loss(kept, non_trainable, meters, *batch, key, False)[1][1]

            held = (overlay(shared["validation"], member["validation"]), shared["validation_mask"])
            results = meter_results(problem.meters, over_batches(check, problem.fresh, held, problem.batch_size))
            monitored = results.pop("loss")
            measured |= {f"validation_{name}": value for name, value in results.items()}
        finite = jnp.isfinite(loss) & jnp.isfinite(monitored) & all_finite(trainable)
        after = state.epoch + (finite & (state.status == Status.RUNNING)).astype(state.epoch.dtype)
        weights, loss, monitored, epochs, finites, measured = jax.tree.map(
            lambda a: a[None], ((kept, non_trainable), loss, monitored, after, finite, measured)
        )
        settled, row = settle(state, weights, loss, monitored, epochs, finites, control)
        new = replace(settled, trainable=trainable, non_trainable=non_trainable, optimizer=optimizer, epoch=after)
        # An epoch that was not finite is not counted, so it has no row.
        return new, row | measured | {"epoch": jnp.where(finite, row["epoch"], -1)}

    return step
