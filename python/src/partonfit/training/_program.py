"""Many steps of a block of members in one compiled program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from partonfit.training._state import TrainState
from partonfit.training._status import Status
from partonfit.training._step import Step


def make_program(step: Step, capacity: int) -> Callable:
    """Return ``program(states, members, shared, count) -> (states, rows)``.

    Parameters
    ----------
    step
        ``step(state, member, shared) -> (state, row)`` of one member; ``row`` is a dictionary of
        arrays (epoch,), its ``epoch`` -1 once the member has ended.
    capacity
        Largest ``count`` of epochs.

    Returns
    -------
    callable
        Leading axis of ``states`` and ``members`` is the member of the block. ``count`` is a traced
        whole number, so that the loop can choose the length of a chunk without a second compilation.
        The rows come back as (epoch, member) arrays; ``epoch`` is -1 beyond those that were made. A step
        that makes several epochs makes all of them: there may be a few more than ``count``.
    """
    batched = jax.vmap(step, in_axes=(0, 0, None), out_axes=(0, 1))

    def program(states: TrainState, members: Any, shared: Any, count: Any) -> tuple[TrainState, Any]:
        shapes = jax.eval_shape(batched, states, members, shared)[1]
        stride = shapes["epoch"].shape[0]
        room = -(-capacity // stride) * stride
        empty = jax.tree.map(lambda s: jnp.full((room, *s.shape[1:]), -1, s.dtype), shapes)

        def going(carry: tuple) -> Any:
            done, states, _ = carry
            # A block whose last member has ended need not turn to the end of the chunk.
            return (done < count) & jnp.any(states.status == Status.RUNNING)

        def body(carry: tuple) -> tuple:
            done, states, kept = carry
            states, row = batched(states, members, shared)
            put = jax.lax.dynamic_update_slice_in_dim
            return done + stride, states, jax.tree.map(lambda k, o: put(k, o, done, 0), kept, row)

        _, states, kept = jax.lax.while_loop(going, body, (jnp.int32(0), states, empty))
        return states, kept

    return program
