"""Checkpoints of the loop's state, written with orbax: complete or absent, never half.

A checkpoint is a folder ``<number>`` inside the folder that the user named. It is written aside and
renamed when it is complete; the one before is removed only after that. What is stored is the
state of every member, the record of losses, and a fingerprint of everything that decides the result
(settings, data, tables, t0), so that no fit goes on from another one's state.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np

from partonfit._errors import StorageError
from partonfit._files import check_folder

FORMAT = 1
_STATE, _ABOUT = "state", "about.json"


def fingerprint(**parts: Any) -> dict[str, str]:
    """Return a hash of each part: bytes, text, arrays, or what JSON can hold.

    Examples
    --------
    >>> fingerprint(seed=1)["seed"] == fingerprint(seed=1, data="x")["seed"]
    True
    """

    def content(part: Any) -> bytes:
        if isinstance(part, bytes):
            return part
        if isinstance(part, np.ndarray):
            return str((part.dtype.str, part.shape)).encode() + np.ascontiguousarray(part).tobytes()
        return json.dumps(part, sort_keys=True, default=str).encode()

    return {name: hashlib.sha256(content(part)).hexdigest() for name, part in parts.items()}


class Checkpoint:
    """Where and how often the state of a training is kept, and what it belongs to.

    Parameters
    ----------
    folder
        Made when it is not there. Nothing else may lie in it.
    parts
        Fingerprint by part (see :func:`fingerprint`); a checkpoint whose parts differ is refused.
    resume
        Go on from the checkpoint in ``folder`` if there is one. Without it a checkpoint that is
        there is an error: it would be lost.
    facts
        Plain values stored beside (a drawn seed).
    every
        Seconds between two checkpoints; longer where writing one takes more than a hundredth of it.

    Raises
    ------
    StorageError
        When the folder cannot be written, holds other things, a checkpoint that may not be
        overwritten, or one that is foreign or unreadable. Nothing is changed then.
    """

    def __init__(
        self,
        folder: str | Path,
        parts: Mapping[str, str],
        *,
        resume: bool = False,
        facts: Mapping[str, Any] | None = None,
        every: float = 10.0,
    ) -> None:
        self.folder = Path(folder).expanduser().absolute()
        self.parts, self.facts, self.every = dict(parts), dict(facts or {}), every
        self._next = -np.inf
        self._records: list[str] = []
        _check_place(self.folder)
        self._latest = _latest(self.folder)
        if self._latest is None:
            return
        if not resume:
            msg = (
                f"{self.folder} holds the checkpoint of a fit. Set resume to go on with it, or remove the folder to "
                "begin anew."
            )
            raise StorageError(msg)
        about = _about(self.folder, self._latest)
        self._records = [name for name in about["arrays"] if name.startswith("record.")]
        self._check_same(about)

    @property
    def exists(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        return self._latest is not None

    def due(self) -> bool:
        """Whether it is time for the next one."""
        return time.monotonic() >= self._next

    def load(self, states: Any) -> tuple[Any, dict[str, np.ndarray]]:
        """Return (states, record table); ``states`` tells the structure, shapes and types."""
        number = self._latest
        assert number is not None
        leaves, structure = jax.tree_util.tree_flatten_with_path(states)
        wanted = [*(f"states{jax.tree_util.keystr(path)}" for path, _ in leaves), *self._records]
        try:
            stored = _read(self.folder / str(number) / _STATE, wanted)
        except Exception as error:  # the content of a damaged file can raise anything
            raise _unreadable(self.folder, number, error) from error
        found = []
        for path, leaf in leaves:
            value = stored.get(f"states{jax.tree_util.keystr(path)}")
            if value is None or (value.shape, value.dtype) != (np.shape(leaf), leaf.dtype):
                msg = f"states{jax.tree_util.keystr(path)} is missing or has another shape"
                raise _unreadable(self.folder, number, ValueError(msg))
            found.append(np.array(value))
        table = {name.removeprefix("record."): v for name, v in stored.items() if name.startswith("record.")}
        return jax.tree_util.tree_unflatten(structure, found), table

    def save(self, states: Any, table: Mapping[str, np.ndarray]) -> None:
        """Write a checkpoint; the one before stays until the new one is complete."""
        begun = time.monotonic()
        number = 0 if self._latest is None else self._latest + 1
        flat = {
            f"states{jax.tree_util.keystr(path)}": leaf
            for path, leaf in jax.tree_util.tree_flatten_with_path(states)[0]
        }
        # The storage has no arrays without elements: a record without rows is left out.
        flat |= {f"record.{name}": values for name, values in table.items() if values.size}
        about = {"format": FORMAT, "parts": self.parts, "facts": self.facts, "arrays": sorted(flat)}
        work = self.folder / f"{number}.unfinished"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            _remove_unfinished(self.folder)
            work.mkdir()
            (work / _ABOUT).write_text(json.dumps(about))
            _write(work / _STATE, flat)
            work.rename(self.folder / str(number))
        except Exception as error:  # the storage library reports a full disk by errors of its own
            kept = "There is no earlier one." if self._latest is None else "The one before it is complete and kept."
            msg = (
                f"Writing a checkpoint to {self.folder} failed: {_reason(error)}. {kept} "
                "Make room there (or choose another folder), then run again with resume."
            )
            _remove_unfinished(self.folder)
            raise StorageError(msg) from error
        self._latest = number
        for old in _numbers(self.folder):
            if old < number:
                shutil.rmtree(self.folder / str(old), ignore_errors=True)
        now = time.monotonic()
        self._next = now + max(self.every, 100 * (now - begun))

    def _check_same(self, about: Mapping[str, Any]) -> None:
        theirs = about["parts"]
        differs = sorted(name for name in {*theirs, *self.parts} if theirs.get(name) != self.parts.get(name))
        if differs:
            msg = (
                f"The checkpoint in {self.folder} belongs to another fit: it has another {' and '.join(differs)}. "
                "Give the same arguments as then to go on with it, or choose another folder."
            )
            raise StorageError(msg)


def stored_facts(folder: str | Path) -> dict[str, Any] | None:
    """Return the facts of the checkpoint in ``folder``, or ``None`` when there is none."""
    place = Path(folder).expanduser().absolute()
    number = _latest(place)
    return None if number is None else _about(place, number)["facts"]


def own_folder(folder: str | Path) -> Path:
    """Return where this process keeps its members, of several processes that share ``folder``."""
    place = Path(folder).expanduser()
    many = jax.process_count()
    return place / f"process-{jax.process_index()}-of-{many}" if many > 1 else place


def remove_checkpoint(folder: str | Path) -> None:
    """Remove the folder of a checkpoint, or of those of several processes (and nothing else)."""
    place = Path(folder).expanduser().absolute()
    if not place.is_dir():
        return
    for part in place.glob("process-*-of-*"):
        remove_checkpoint(part)
    _check_place(place)
    shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _alone() -> Iterator[Any]:
    """Give orbax' handler of a pytree, in a world of one process.

    Each process keeps its own members, and nobody waits for the others while writing; orbax knows
    only checkpoints that all processes write together, and of NumPy arrays it writes those of the
    first process. So it is told that there is one process, and folders are made and renamed here.
    """
    import orbax.checkpoint as ocp
    from orbax.checkpoint._src.multihost import multihost

    true = multihost.process_index, multihost.process_count
    if jax.process_count() > 1:
        multihost.process_index, multihost.process_count = lambda: 0, lambda: 1
    try:
        one = ocp.options.MultiprocessingOptions(primary_host=0, active_processes={0}, barrier_sync_key_prefix="one")
        yield ocp.PyTreeCheckpointHandler(multiprocessing_options=one)
    finally:
        multihost.process_index, multihost.process_count = true


def _write(folder: Path, arrays: Mapping[str, np.ndarray]) -> None:
    import orbax.checkpoint as ocp

    folder.mkdir()
    with _alone() as handler:
        handler.save(folder, args=ocp.args.PyTreeSave(dict(arrays)))
        handler.finalize(folder)


def _read(folder: Path, names: list[str]) -> dict[str, np.ndarray]:
    import orbax.checkpoint as ocp

    plain = {name: ocp.RestoreArgs(restore_type=np.ndarray) for name in names}
    with _alone() as handler:
        return handler.restore(folder, args=ocp.args.PyTreeRestore(dict.fromkeys(names, 0), restore_args=plain))


def _about(folder: Path, number: int) -> dict[str, Any]:
    """Return what a checkpoint says about itself; reads one small file."""
    try:
        about = json.loads((folder / str(number) / _ABOUT).read_text())
        version, _ = about["format"], (about["parts"], about["facts"], about["arrays"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _unreadable(folder, number, error) from error
    if version != FORMAT:
        msg = f"The checkpoint in {folder} has format {version!r}; this version of partonfit reads format {FORMAT}."
        raise StorageError(msg)
    return about


def _unreadable(folder: Path, number: int, error: Exception) -> StorageError:
    return StorageError(
        f"The checkpoint {folder / str(number)} cannot be read ({_reason(error)}). It was left as it is: restore "
        "it from a copy, or choose another folder to begin anew."
    )


def _reason(error: Exception) -> str:
    # The storage library says what the system said by its number, behind a page of its own settings.
    code = re.search(r"os_error_code='(\d+)'", str(error))
    if code:
        return os.strerror(int(code[1]))
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:300]}".rstrip(": .")


def _numbers(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())


def _latest(folder: Path) -> int | None:
    return max(_numbers(folder), default=None) if folder.is_dir() else None


def _remove_unfinished(folder: Path) -> None:
    if folder.is_dir():
        for path in folder.iterdir():
            if not path.name.isdigit():
                shutil.rmtree(path, ignore_errors=True)


def _check_place(folder: Path) -> None:
    """Raise :class:`StorageError` unless ``folder`` can be written and holds only checkpoints."""
    if folder.exists() and not folder.is_dir():
        msg = f"{folder} is a file, not a folder of checkpoints. Choose another name."
        raise StorageError(msg)
    if folder.is_dir():
        others = sorted(p.name for p in folder.iterdir() if not p.name.split(".")[0].isdigit())
        if others:
            msg = f"{folder} holds {others[0]!r}, which is no checkpoint. Choose an empty or a new folder."
            raise StorageError(msg)
    inside = next((p for p in (folder, *folder.parents) if p.exists()), folder)
    check_folder(inside, folder)
