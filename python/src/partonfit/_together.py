"""What ``partonfit fit`` does around a fit: other processes, logs, the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from partonfit._errors import StorageError
from partonfit.training import (
    CSVLogger,
    TensorBoard,
    connect,
    disconnect,
    find_place,
    own_folder,
    remove_checkpoint,
)

__all__ = ["joined", "logs", "make_room", "remove_checkpoint"]


@contextmanager
def joined(processes: int | None, coordinator: str | None, process_id: int | None) -> Iterator[bool]:
    """Join the other processes, if there are any; gives whether this one writes the result."""
    place = find_place(processes, coordinator, process_id)
    if place is None:
        yield True
        return
    connect(place)
    yield jax.process_index() == 0
    disconnect()


def logs(csv: Path | None, tensorboard: Path | None) -> list[Any]:
    """Return the callbacks for the logs that are wanted."""
    found: list[Any] = [] if csv is None else [CSVLogger(csv)]
    return found if tensorboard is None else [*found, TensorBoard(tensorboard)]


def make_room(store: Path, *, resume: bool, overwrite: bool) -> None:
    """Remove the checkpoint that ``--overwrite`` gives up, or say what to do with it."""
    mine = own_folder(store)
    if resume or not mine.is_dir():
        return
    if not overwrite:
        msg = f"{store} holds a fit that was not finished. Add --resume to go on with it, or --overwrite to begin anew."
        raise StorageError(msg)
    remove_checkpoint(mine)
