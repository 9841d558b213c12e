"""Blocks of members, what is told of them, and how long the next chunk of steps is."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from partonfit.training._state import TrainState
from partonfit.training._status import Status

_FIRST_STEPS = 16


@dataclass
class Block:
    """Members that go through the program together on device number ``slot``.

    ``index`` is -1 for padding and for members that have ended.
    """

    index: np.ndarray
    states: TrainState
    members: Any
    slot: int = 0
    # One block may be asked for twice in a round: never at the same time.
    lock: threading.Lock = field(default_factory=threading.Lock)


def write_rows(target: Any, source: Any, rows: np.ndarray, columns: np.ndarray) -> None:
    """Copy ``columns`` of the source's leaves into ``rows`` of the target's."""

    def put(to: np.ndarray, values: Any) -> None:
        to[rows] = np.asarray(values)[columns]

    jax.tree.map(put, target, source)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Few:
    """The few numbers of each member that progress is made of."""

    epoch: Any
    status: Any
    best_loss: Any
    best_validation: Any

    @classmethod
    def of(cls, states: TrainState) -> _Few:
        picked = (states.epoch, states.status, states.best_loss, states.best_validation)
        return cls(*(np.array(values) for values in picked))


class Metrics:
    """What progress and callbacks are told."""

    def __init__(self, epochs: int) -> None:
        self.epochs, self.began = epochs, time.monotonic()

    def __call__(self, store: TrainState, blocks: list[Block]) -> tuple[int, int, dict[str, float]]:
        """Return (mean epoch of the running members, ``epochs``, metrics)."""
        few = _Few.of(store)
        for block in blocks:
            columns = np.flatnonzero(block.index >= 0)
            write_rows(few, _Few.of(block.states), block.index[columns], columns)
        running = few.status == Status.RUNNING
        known = np.isfinite(few.best_loss) & np.isfinite(few.best_validation)
        metrics = {
            "running": float(running.sum()),
            "members": float(len(running)),
            "seconds": time.monotonic() - self.began,
        }
        if known.any():
            metrics["loss"] = float(np.median(few.best_loss[known]))
            metrics["validation"] = float(np.median(few.best_validation[known]))
        return int(few.epoch[running].mean()) if running.any() else self.epochs, self.epochs, metrics


class Pace:
    """How many steps to make before looking up again: about a second for all blocks together.

    One dispatch takes between 50 ms, so that starting it costs little, and half a second, after which
    an interrupt is heard.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.next = min(_FIRST_STEPS, capacity)
        self.seconds: float | None = None

    def learn(self, seconds: float) -> None:
        """Take note of the seconds per step of the round that has ended."""
        self.seconds = seconds

    def steps(self, blocks: int, workers: int) -> int:
        """Return the steps of the next round."""
        if self.seconds is not None:
            wanted = min(max(min(workers, blocks) / blocks, 0.05), 0.5)
            fitting = int(wanted / max(self.seconds, 1e-9))
            # A first round that was slow by accident or by a cold cache says little: grow in steps.
            self.next = max(1, min(fitting, 8 * self.next, self.capacity))
        return self.next
