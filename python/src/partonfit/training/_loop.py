"""The loop: blocks of members, chunks of steps, finished members leave.

Members are trained in blocks of a fixed size, so that there is one compiled program however many
members there are, and so that a member's numbers do not depend on how many others there are. On a
CPU a small block keeps each member's matrices in cache over hundreds of steps, and the blocks run
on a pool of threads, one per core. Between rounds, members that have ended leave and the living
ones are packed into full blocks again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from partonfit._precision import precision_context
from partonfit.training._control import EngineControl
from partonfit.training._state import TrainState, Values
from partonfit.training._status import Status
from partonfit.training._step import Objective, Update, make_program

Progress = Callable[[int, int, dict[str, float]], None]
"""``progress(step, total, metrics)``, called on the caller's thread."""

_CPU_BLOCK = 4
_REPORT_SECONDS = 0.2


@dataclass(frozen=True)
class TrainResult:
    """What training leaves: one entry per member, in the order they came.

    Attributes
    ----------
    trainable, non_trainable
        Best values (member, ...) of each Keras variable.
    loss, validation
        (member,) at the best weights; NaN where there is none.
    epoch, best_epoch
        (member,) last epoch and epoch of the best weights (-1: none).
    status
        One :class:`Status` per member.
    history
        ``epoch`` (record,), ``loss`` and ``validation`` (member, record), NaN once a member ended.
    compilations
        Number of programs compiled.
    """

    trainable: Values
    non_trainable: Values
    loss: np.ndarray
    validation: np.ndarray
    epoch: np.ndarray
    best_epoch: np.ndarray
    status: tuple[Status, ...]
    history: dict[str, np.ndarray]
    compilations: int = 1


@dataclass
class _Block:
    """Members that go through the program together; ``index`` is -1 for padding."""

    index: np.ndarray
    states: TrainState
    members: Any


@dataclass
class _Record:
    """Losses every ``record_every`` epochs, gathered while blocks come and go."""

    every: int
    rows: dict[int, dict[int, tuple[float, float]]] = field(default_factory=dict)

    def add(self, index: np.ndarray, first: np.ndarray, loss: np.ndarray, validation: np.ndarray) -> None:
        for column, member in enumerate(index):
            if member < 0:
                continue
            start = int(first[column])
            for step in range(-start % self.every, len(loss), self.every):
                if np.isnan(loss[step, column]) and np.isnan(validation[step, column]):
                    break
                row = self.rows.setdefault(start + step, {})
                row[int(member)] = (loss[step, column], validation[step, column])

    def table(self, members: int) -> dict[str, np.ndarray]:
        epochs = np.array(sorted(self.rows), dtype=np.int64)
        out = np.full((2, members, len(epochs)), np.nan)
        for j, epoch in enumerate(epochs):
            for member, pair in self.rows[int(epoch)].items():
                out[:, member, j] = pair
        return {"epoch": epochs, "loss": out[0], "validation": out[1]}


def initial_states(trainable: Values, non_trainable: Values, optimizer: Values) -> TrainState:
    """Return the states before the first step, from stacked (member, ...) values."""
    count = len(trainable[0]) if trainable else 0
    stacked = tuple(np.broadcast_to(v, (count, *np.shape(v))).copy() for v in optimizer)
    kind = np.result_type(*[v.dtype for v in trainable])
    return TrainState(
        trainable=trainable,
        non_trainable=non_trainable,
        optimizer=stacked,
        best_trainable=trainable,
        best_non_trainable=non_trainable,
        best_loss=np.full(count, np.nan, kind),
        best_validation=np.full(count, np.inf, kind),
        best_epoch=np.full(count, -1, np.int32),
        epoch=np.zeros(count, np.int32),
        status=np.full(count, Status.RUNNING, np.int8),
    )


def run(
    objective: Objective,
    update: Update,
    states: TrainState,
    members: Any,
    shared: Any,
    control: EngineControl,
    progress: Progress | None = None,
) -> TrainResult:
    """Train every member until it ends.

    Parameters
    ----------
    objective, update
        Pure functions of one member (see :mod:`partonfit.training._step`).
    states
        Initial states with a leading member axis.
    members
        Pytree of arrays (member, ...): what differs between members.
    shared
        Pytree of arrays that all members see.
    control
        Settings of the engine.
    progress
        Called a few times a second with the mean epoch of the running members, ``epochs`` and the
        metrics ``running``, ``members``, ``loss`` and ``validation`` (medians of the best so far).

    Notes
    -----
    ``KeyboardInterrupt`` ends training: members still running keep their best weights and get the
    status ``INTERRUPTED``.
    """
    count = len(states.status)
    size = control.block_size or _default_block(count)
    final: dict[int, TrainState] = {}
    record = _Record(control.record_every)
    workers = _workers()
    with precision_context(control.precision):
        blocks = _pack(np.arange(count), _as_numpy(states), _as_numpy(members), size)
        shared = jax.device_put(shared)
        reporter = _Reporter(progress, control.epochs, count)
        reporter(blocks, final)  # says that work has begun: compilation takes seconds
        program = jax.jit(make_program(objective, update, control))
        compiled = program.lower(blocks[0].states, blocks[0].members, shared).compile()

        def advance(block: _Block) -> tuple[np.ndarray, np.ndarray]:
            with precision_context(control.precision):
                block.states, losses = compiled(block.states, block.members, shared)
                loss, validation = jax.block_until_ready(losses)
                return np.asarray(loss), np.asarray(validation)

        try:
            while blocks:
                _round(blocks, advance, workers, record, partial(reporter, blocks, final))
                blocks = _collect(blocks, final, size)
            reporter([], final)
        except KeyboardInterrupt:
            _interrupt(blocks, final)
    return _result(final, count, record)


def _workers() -> int:
    if jax.default_backend() != "cpu":
        return 1
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _default_block(count: int) -> int:
    # The same size for one member as for a hundred: the same program, and so the same bits.
    return _CPU_BLOCK if jax.default_backend() == "cpu" else count


def _as_numpy(tree: Any) -> Any:
    return jax.tree.map(np.asarray, tree)


def _pack(index: np.ndarray, states: TrainState, members: Any, size: int) -> list[_Block]:
    """Split the members into full blocks; the last one is filled with ended copies of its last."""
    blocks = []
    for start in range(0, len(index), size):
        rows = np.arange(start, min(start + size, len(index)))
        padding = size - len(rows)
        take = np.concatenate([rows, np.full(padding, rows[-1])])
        chosen = jax.tree.map(lambda a, t=take: a[t], states)
        chosen.status[len(rows) :] = Status.FINISHED
        numbers = np.concatenate([index[rows], np.full(padding, -1)])
        mine = jax.device_put(jax.tree.map(lambda a, t=take: a[t], members))
        blocks.append(_Block(numbers, jax.device_put(chosen), mine))
    return blocks


def _round(blocks: list[_Block], advance: Callable, workers: int, record: _Record, report: Callable[[], None]) -> None:
    """Advance every block by one dispatch; ``report`` is called on this thread as they finish."""
    before = [np.asarray(block.states.epoch) for block in blocks]
    outcomes = []
    with ThreadPoolExecutor(min(workers, len(blocks))) as pool:
        futures = [pool.submit(advance, block) for block in blocks]
        try:
            for future in futures:
                outcomes.append(future.result())
                report()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    for block, first, (loss, validation) in zip(blocks, before, outcomes, strict=True):
        record.add(block.index, first, loss, validation)


def _collect(blocks: list[_Block], final: dict[int, TrainState], size: int) -> list[_Block]:
    """Take ended members out; pack the living ones anew when that frees at least one block."""
    living = []
    for block in blocks:
        status = np.asarray(block.states.status)
        for column, member in enumerate(block.index):
            if member >= 0 and status[column] != Status.RUNNING:
                final[int(member)] = jax.tree.map(lambda a, c=column: np.asarray(a[c]), block.states)
                block.index[column] = -1
        living.append(np.flatnonzero(block.index >= 0))
    total = sum(len(rows) for rows in living)
    if total == 0:
        return []
    if -(-total // size) == len(blocks):
        return blocks

    def gather(trees: list[Any]) -> Any:
        return jax.tree.map(
            lambda *leaves: np.concatenate([np.asarray(a)[r] for a, r in zip(leaves, living, strict=True)]),
            *trees,
        )

    index = np.concatenate([block.index[rows] for block, rows in zip(blocks, living, strict=True)])
    return _pack(index, gather([b.states for b in blocks]), gather([b.members for b in blocks]), size)


def _interrupt(blocks: list[_Block], final: dict[int, TrainState]) -> None:
    for block in blocks:
        for column, member in enumerate(block.index):
            if member >= 0:
                state = jax.tree.map(lambda a, c=column: np.asarray(a[c]), block.states)
                if state.status == Status.RUNNING:
                    state = replace(state, status=np.int8(Status.INTERRUPTED))
                final[int(member)] = state


class _Reporter:
    """Calls the user's progress function, but not more often than anyone can read."""

    def __init__(self, progress: Progress | None, epochs: int, count: int) -> None:
        self.progress, self.epochs, self.count = progress, epochs, count
        self.last = -np.inf

    def __call__(self, blocks: list[_Block], final: dict[int, TrainState]) -> None:
        now = time.monotonic()
        # Without blocks there is nothing left to do: the end is always reported.
        if self.progress is None or (blocks and now - self.last < _REPORT_SECONDS):
            return
        self.last = now
        living = [_as_numpy(b.states) for b in blocks]
        rows = [(s, c) for b, s in zip(blocks, living, strict=True) for c in np.flatnonzero(b.index >= 0)]
        running = [int(s.epoch[c]) for s, c in rows if s.status[c] == Status.RUNNING]
        if blocks and not running:
            return  # all have ended: said once the results are collected
        best = [(s.best_loss[c], s.best_validation[c]) for s, c in rows]
        best += [(s.best_loss, s.best_validation) for s in final.values()]
        known = np.array([pair for pair in best if np.isfinite(pair).all()], dtype=float).reshape(-1, 2)
        metrics = {"running": float(len(running)), "members": float(self.count)}
        if len(known):
            metrics |= {"loss": float(np.median(known[:, 0])), "validation": float(np.median(known[:, 1]))}
        self.progress(int(np.mean(running)) if running else self.epochs, self.epochs, metrics)


def _result(final: dict[int, TrainState], count: int, record: _Record) -> TrainResult:
    states = [final[member] for member in range(count)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *states)
    status = []
    for code, best in zip(stacked.status, stacked.best_epoch, strict=True):
        ended = Status(int(code))
        if best < 0 and ended.usable:
            ended = Status.INTERRUPTED if ended is Status.INTERRUPTED else Status.NEVER_PASSED
        status.append(ended)
    return TrainResult(
        trainable=stacked.best_trainable,
        non_trainable=stacked.best_non_trainable,
        loss=stacked.best_loss,
        validation=np.where(stacked.best_epoch >= 0, stacked.best_validation, np.nan),
        epoch=stacked.epoch,
        best_epoch=stacked.best_epoch,
        status=tuple(status),
        history=record.table(count),
    )
