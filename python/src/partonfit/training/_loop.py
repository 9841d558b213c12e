"""The loop: blocks of members, chunks of steps, finished members leave.

Members are trained in blocks of a fixed size, so that there is one compiled program however many
members there are, and so that a member's numbers do not depend on how many others there are. On a
CPU a small block keeps each member's matrices in cache over hundreds of steps, and the blocks run
on a pool of threads, one per core. Between rounds, members that have ended leave and the living
ones are packed into full blocks again; and then there is time for progress, callbacks and a
checkpoint. How many steps a round makes follows the clock and changes no number.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from partonfit._precision import precision_context
from partonfit._threads import threads
from partonfit.training._callbacks import Callback, Callbacks
from partonfit.training._checkpoint import Checkpoint
from partonfit.training._control import EngineControl
from partonfit.training._devices import ByMember
from partonfit.training._pace import Block, Metrics, Pace, write_rows
from partonfit.training._program import make_program
from partonfit.training._record import Record
from partonfit.training._state import TrainState, Values
from partonfit.training._status import Status
from partonfit.training._step import Step

Progress = Callback
"""``progress(step, total, metrics)``, called on the caller's thread."""

_PASSES = 3
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
        ``epoch`` (record,); ``loss``, ``validation`` and what else the step reports (member, record),
        NaN once a member ended.
    compilations, compile_seconds
        Number of programs compiled, and how long that took.
    error
        What a callback raised, if one ended the training.
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
    compile_seconds: float = 0.0
    error: Exception | None = None


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
    step: Step,
    states: TrainState,
    members: Any,
    shared: Any,
    control: EngineControl,
    progress: Progress | None = None,
    *,
    callbacks: Iterable[Callback] = (),
    checkpoint: Checkpoint | None = None,
    placement: Any = None,
    shown: Callable[[dict[str, float]], dict[str, float]] | None = None,
) -> TrainResult:
    """Train every member until it ends.

    Parameters
    ----------
    step
        One epoch of one member, pure (see :mod:`partonfit.training._step`).
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
        metrics ``running``, ``members``, ``seconds``, ``loss`` and ``validation`` (medians of the
        best so far).
    callbacks
        Called like ``progress`` after every round (see :mod:`partonfit.training._callbacks`).
    checkpoint
        Where the state is kept, and gone on from (see :class:`Checkpoint`).
    placement
        Where everything lies (see :mod:`partonfit.training._devices`); ``None`` divides the members
        over all local devices.
    shown
        Translates the metrics before progress and callbacks get them.

    Notes
    -----
    ``KeyboardInterrupt``, or an exception in a callback, ends training: members still running keep
    their best weights and get the status ``INTERRUPTED``. In a checkpoint they stay as running ones,
    so that the training can be resumed.
    """
    # Models and programs of an earlier training sit in reference cycles: without this, memory would
    # grow by some megabytes from fit to fit until Python happens to look.
    gc.collect()
    with precision_context(control.precision):
        placement = placement or ByMember()
        told = Callbacks(callbacks, shown), Callbacks([progress] if progress else [], shown)
        loop = _Loop(states, control, placement, checkpoint, *told)
        try:
            loop.open()
            loop.train(make_program(step, control.steps_per_dispatch), members, shared)
        finally:
            loop.callbacks.close()
        for each in told:
            each.warn()
        return loop.result()


class _Loop:
    """The state of all members on the host, and the blocks of those that are still running."""

    def __init__(
        self, states: TrainState, control: EngineControl, placement: Any, checkpoint: Checkpoint | None,
        callbacks: Callbacks, progress: Callbacks,
    ) -> None:  # fmt: skip
        self.control, self.placement, self.checkpoint = control, placement, checkpoint
        self.callbacks, self.progress = callbacks, progress
        self.store = _as_numpy(states)
        self.count = len(self.store.status)
        self.size = placement.block_size(control.block_size, self.count)
        self.record = Record(control.record_every, self.count)
        self.blocks: list[Block] = []
        self.interrupted = False
        self.compilations, self.compile_seconds = 0, 0.0
        self.metrics, self.shown = Metrics(control.epochs), -np.inf

    def open(self) -> None:
        """Take over a checkpoint, or write the first: what cannot be written is found before the work."""
        resumed = self.checkpoint is not None and self.checkpoint.exists
        self.callbacks.open(resumed)
        if self.checkpoint is not None and resumed:
            self.store, table = self.checkpoint.load(self.store)
            if table:
                self.record.fill(table)
        else:
            # Rows are written in place from here on: the arrays of the caller stay as they are.
            self.store = jax.tree.map(np.array, self.store)
            self.save()

    def train(self, program: Callable, members: Any, shared: Any) -> None:
        """Go on until every member has ended or someone stops it."""
        living = np.flatnonzero(self.store.status == Status.RUNNING)
        self.report(now=True)  # says that work has begun: compilation takes seconds
        if living.size and not self.stopped:
            members = _as_numpy(members)
            self.blocks = self.pack(living, members)
            shared = self.placement.put_shared(shared)
            begun = time.perf_counter()
            compiled = self.placement.compile(program, self.blocks[0].states, self.blocks[0].members, shared)
            self.compilations, self.compile_seconds = len(compiled), time.perf_counter() - begun
            try:
                self.rounds(compiled, members, shared)
            except KeyboardInterrupt:
                self.interrupted = True
            self.keep(self.blocks)
        if self.checkpoint is not None:
            self.save()
        if not self.stopped:
            self.report(now=True)
            self.notify()

    @property
    def stopped(self) -> bool:
        """Whether the user, or an exception in what the user gave, ended it."""
        return self.interrupted or self.callbacks.stopped or self.progress.stopped

    def rounds(self, compiled: list[Callable], members: Any, shared: list[Any]) -> None:
        """Advance all blocks, round by round."""
        pace = Pace(self.control.steps_per_dispatch)
        workers = self.placement.workers

        def advance(block: Block, count: int) -> tuple[dict[str, np.ndarray], float]:
            with precision_context(self.control.precision), block.lock:
                begun, at = time.perf_counter(), block.slot
                steps = self.placement.put(np.int32(count), at)
                block.states, rows = compiled[at](block.states, block.members, shared[at], steps)
                return _as_numpy(jax.block_until_ready(rows)), (time.perf_counter() - begun) / count

        pool = threads(workers)
        while self.blocks:
            count = -(-pace.steps(len(self.blocks), workers) // self.passes)
            if self.placement.in_step:
                count = self.control.steps_per_dispatch
            pace.learn(self.one_round(pool, advance, count))
            if self.stopped:
                return
            self.collect(members)
            if self.blocks:  # the end is reported by itself
                self.report()
                self.notify()
            if self.checkpoint is not None and self.checkpoint.due():
                self.keep(self.blocks)
                self.save()

    def one_round(self, pool: ThreadPoolExecutor, advance: Callable, count: int) -> float:
        """Advance every block; progress is reported on this thread as they finish.

        Returns the seconds per step of the slowest block.
        """
        slowest = 0.0
        tasks = [block for _ in range(self.passes) for block in self.blocks]
        futures = [pool.submit(advance, block, count) for block in tasks]
        done = 0
        try:
            for block, future in zip(tasks, futures, strict=True):
                rows, seconds = future.result()
                self.record.add(block.index, rows)
                done += 1
                slowest = max(slowest, seconds)
                self.report()
                if self.stopped:
                    break
        finally:
            # After an interrupt: those under way finish, and what they reached is kept too.
            for future in futures[done:]:
                future.cancel()
            for block, future in zip(tasks[done:], futures[done:], strict=True):
                if not future.cancelled() and future.exception() is None:
                    self.record.add(block.index, future.result()[0])
        return slowest

    @property
    def passes(self) -> int:
        """How often a round goes over the blocks: more than once where they do not divide among the threads.

        A thread that is through with its share goes on with the next pass, which leaves it idle only at
        the end of the last. The same block never runs twice at a time: its passes are as far apart in
        the queue as there are blocks, and fewer threads than that are at work.
        """
        workers = self.placement.workers
        uneven = len(self.blocks) > workers and len(self.blocks) % workers
        return _PASSES if uneven else 1

    def collect(self, members: Any) -> None:
        """Take ended members out; pack the living ones anew when that frees at least one block."""
        for block in self.blocks:
            ended = (block.index >= 0) & (np.asarray(block.states.status) != Status.RUNNING)
            self.keep([block], ended)
            block.index = np.where(ended, -1, block.index)
        living = [block.index[block.index >= 0] for block in self.blocks]
        total = sum(map(len, living))
        if total == 0:
            self.blocks = []
        elif -(-total // self.size) < len(self.blocks):
            self.keep(self.blocks)
            self.blocks = self.pack(np.concatenate(living), members)

    def pack(self, index: np.ndarray, members: Any) -> list[Block]:
        """Return full blocks of these members; the last one is filled with ended copies of its last."""
        blocks = []
        for start in range(0, len(index), self.size):
            rows = index[start : start + self.size]
            padding = self.size - len(rows)
            take = np.concatenate([rows, np.full(padding, rows[-1])])
            chosen = jax.tree.map(lambda a, t=take: a[t], self.store)
            chosen.status[len(rows) :] = Status.FINISHED
            slot = len(blocks) % len(self.placement.devices)
            mine = self.placement.put(jax.tree.map(lambda a, t=take: a[t], members), slot)
            numbers = np.concatenate([rows, np.full(padding, -1)])
            blocks.append(Block(numbers, self.placement.put(chosen, slot), mine, slot))
        return blocks

    def keep(self, blocks: list[Block], which: np.ndarray | None = None) -> None:
        """Copy the states of the blocks' members to the host."""
        for block in blocks:
            columns = np.flatnonzero(block.index >= 0 if which is None else which)
            if columns.size:
                rows = block.index[columns]
                write_rows(self.store, block.states, rows, columns)

    def save(self) -> None:
        """Write a checkpoint, if one is wanted."""
        if self.checkpoint is not None:
            self.checkpoint.save(self.store, self.record.table())

    def report(self, *, now: bool = False) -> None:
        """Call the progress function, but not more often than anyone can read."""
        clock = time.monotonic()
        if self.progress.callbacks and not self.stopped and (now or clock - self.shown >= _REPORT_SECONDS):
            self.shown = clock
            self.progress(*self.metrics(self.store, self.blocks))

    def notify(self) -> None:
        """Call the callbacks."""
        if self.callbacks.callbacks and not self.stopped:
            self.callbacks(*self.metrics(self.store, self.blocks))

    def result(self) -> TrainResult:
        """Return what training leaves."""
        states = self.store
        if self.stopped:
            status = np.where(states.status == Status.RUNNING, Status.INTERRUPTED, states.status)
            states = replace(states, status=status)
        statuses = []
        for code, best in zip(states.status, states.best_epoch, strict=True):
            ended = Status(int(code))
            if best < 0 and ended.usable:
                ended = Status.INTERRUPTED if ended is Status.INTERRUPTED else Status.NEVER_PASSED
            statuses.append(ended)
        return TrainResult(
            trainable=states.best_trainable,
            non_trainable=states.best_non_trainable,
            loss=states.best_loss,
            validation=np.where(states.best_epoch >= 0, states.best_validation, np.nan),
            epoch=states.epoch,
            best_epoch=states.best_epoch,
            status=tuple(statuses),
            history=self.record.table(),
            compilations=self.compilations,
            compile_seconds=self.compile_seconds,
            error=self.callbacks.error or self.progress.error,
        )


def _as_numpy(tree: Any) -> Any:
    return jax.tree.map(np.asarray, tree)
