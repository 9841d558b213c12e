"""Several processes by ``jax.distributed``: members divided over them, results gathered.

Members share nothing, so the processes do not talk while they train; at the end each gives its
members to all. A process that dies takes only its own members with it, and those lie in its
checkpoint.
"""

from __future__ import annotations

import io
import os
import re
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from partonfit._checks import whole
from partonfit._errors import FitError, SettingError
from partonfit.training._loop import TrainResult
from partonfit.training._status import Status

_SLURM = ("SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_STEP_NODELIST")
_HELLO = b"partonfit"
_POLL_SECONDS = 5


@dataclass(frozen=True)
class Place:
    """Which of how many processes this is, and where they meet."""

    coordinator: str
    processes: int
    process_id: int


def find_place(
    processes: int | None = None, coordinator: str | None = None, process_id: int | None = None
) -> Place | None:
    """Return the place of this process, from the arguments or from Slurm's variables.

    Parameters
    ----------
    processes
        How many there are; ``None`` reads ``SLURM_NTASKS`` inside a job step of Slurm.
    coordinator
        ``HOST:PORT`` of process 0; ``None`` takes the first host of the job step.
    process_id
        Number of this process, from 0; ``None`` reads ``SLURM_PROCID``.

    Returns
    -------
    Place or None
        ``None`` when there is one process only.

    Raises
    ------
    SettingError
        When something is missing or out of range.

    Examples
    --------
    >>> find_place(2, "localhost:8476", 1)
    Place(coordinator='localhost:8476', processes=2, process_id=1)
    """
    # Outside of srun there is no job step: a batch script that runs one process is one process.
    slurm = {name: os.environ[name] for name in _SLURM} if all(name in os.environ for name in _SLURM) else None
    if processes is None and slurm is None:
        if coordinator is not None or process_id is not None:
            msg = "processes is missing: say how many processes there are (the variables of Slurm are not set)."
            raise SettingError(msg)
        return None
    if slurm is not None:
        processes = int(slurm["SLURM_NTASKS"]) if processes is None else processes
        process_id = int(slurm["SLURM_PROCID"]) if process_id is None else process_id
        coordinator = _slurm_coordinator(slurm) if coordinator is None else coordinator
    processes = whole("processes", processes, least=1)
    if processes == 1:
        return None
    if process_id is None or coordinator is None:
        missing = "process_id" if process_id is None else "coordinator (HOST:PORT of process 0)"
        msg = f"With {processes} processes, {missing} is needed (the variables of Slurm are not set)."
        raise SettingError(msg)
    if whole("process_id", process_id, least=0) >= processes:
        msg = f"process_id must be below processes ({processes}), not {process_id}. The first process is 0."
        raise SettingError(msg)
    if not re.fullmatch(r"\S+:\d{1,5}", coordinator):
        msg = f"coordinator must be HOST:PORT, such as node001:8476, not {coordinator!r}."
        raise SettingError(msg)
    return Place(coordinator, processes, process_id)


def _slurm_coordinator(slurm: dict[str, str]) -> str:
    # node001 / node001,node002 / node[001-004,007],other: the first one.
    first = re.match(r"([^,\[]+)(?:\[([^,\-\]]+))?", slurm["SLURM_STEP_NODELIST"])
    host = "".join(part or "" for part in first.groups()) if first else "localhost"
    # Two jobs that share a node must not share a port.
    return f"{host}:{61440 + int(slurm['SLURM_JOB_ID']) % 4096}"


def connect(place: Place, timeout: float = 60.0) -> None:
    """Meet the other processes and start ``jax.distributed``; before anything else uses JAX.

    Raises
    ------
    FitError
        When they do not all come within ``timeout`` seconds; it names those that are missing.
    """
    meet = _wait_for_others if place.process_id == 0 else _say_hello
    meet(place, time.monotonic() + timeout, timeout)
    # The death of one process is ours to report: without this JAX aborts all the others.
    jax.config.update("jax_enable_recoverability", True)
    jax.distributed.initialize(
        place.coordinator, place.processes, place.process_id, initialization_timeout=max(1, int(timeout)),
        heartbeat_timeout_seconds=max(10, int(timeout)), shutdown_timeout_seconds=max(10, int(timeout)),
    )  # fmt: skip


def _address(place: Place) -> tuple[str, int]:
    host, port = place.coordinator.rsplit(":", 1)
    return host, int(port)


def _wait_for_others(place: Place, until: float, timeout: float) -> None:
    """Hear from every other process once: JAX itself would abort without a word of explanation."""
    port = _address(place)[1]
    guests: dict[int, socket.socket] = {}
    try:
        with socket.create_server(("", port), backlog=place.processes) as server:
            while len(guests) < place.processes - 1:
                server.settimeout(max(0.01, until - time.monotonic()))
                guest, _ = server.accept()
                guest.settimeout(5)
                try:
                    word, number, processes = guest.recv(64).split()
                    if word != _HELLO or int(processes) != place.processes or int(number) in guests:
                        guest.sendall(b"no")
                        continue
                    guests[int(number)] = guest
                except (OSError, ValueError):
                    guest.close()  # someone else who tried this port
    except TimeoutError:
        missing = sorted(set(range(1, place.processes)) - set(guests))
        msg = (
            f"Of {place.processes} processes, {', '.join(map(str, missing))} did not come to {place.coordinator} "
            f"within {timeout:g} s. See what they wrote, and whether they were given the same coordinator and number."
        )
        raise FitError(msg) from None
    except OSError as error:
        msg = f"Process 0 cannot listen on port {port}: {error.strerror}. Choose another port in coordinator."
        raise FitError(msg) from None
    for guest in guests.values():
        guest.sendall(b"go")
        guest.close()


def _say_hello(place: Place, until: float, timeout: float) -> None:
    reason = "nobody answered"
    while time.monotonic() < until:
        try:
            with socket.create_connection(_address(place), timeout=5) as connection:
                connection.sendall(b"%s %d %d" % (_HELLO, place.process_id, place.processes))
                connection.settimeout(max(0.1, until - time.monotonic() + 1))
                answer = connection.recv(8)
            if answer == b"go":
                return
            if answer == b"no":
                msg = (
                    f"Process 0 at {place.coordinator} refused process {place.process_id} of {place.processes}: it "
                    "waits for another number of processes, or another one came with this process_id."
                )
                raise FitError(msg)
            reason = "process 0 gave up"
        except OSError as error:
            reason = str(error.strerror or error)
        time.sleep(0.2)
    msg = (
        f"Process {place.process_id} could not reach process 0 at {place.coordinator} within {timeout:g} s ({reason}). "
        "Check the host and port, that process 0 runs, and that no firewall is between."
    )
    raise FitError(msg)


def my_members(count: int) -> np.ndarray:
    """Return the numbers of the members that this process trains, of ``count``.

    Examples
    --------
    >>> my_members(3)
    array([0, 1, 2])
    """
    return np.arange(jax.process_index(), count, jax.process_count())


def gather(arrays: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Return the arrays of every process, in the order of the processes; the same in all of them."""
    if jax.process_count() == 1:
        return [arrays]
    from jax.experimental import multihost_utils

    _wait_until_all_are_here()
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    # As bytes: a float64 array would lose its precision where x64 is off.
    mine = np.frombuffer(stream.getvalue(), dtype=np.uint8)
    sizes = np.asarray(multihost_utils.process_allgather(np.int32(mine.size))).reshape(-1)
    everything = multihost_utils.process_allgather(np.pad(mine, (0, int(sizes.max()) - mine.size)))
    found = []
    for raw, size in zip(np.asarray(everything), sizes, strict=True):
        with np.load(io.BytesIO(raw[:size].tobytes()), allow_pickle=False) as archive:
            found.append({name: archive[name] for name in archive.files})
    return found


_rounds = 0


def _wait_until_all_are_here() -> None:
    """Wait for every process, as long as it lives."""
    global _rounds  # noqa: PLW0603 (counted alike in every process: a key may be set once)
    client = _client()
    _rounds += 1
    client.key_value_set(f"partonfit/{_rounds}/{jax.process_index()}", "here")
    everyone = [*range(jax.process_count())]
    for other in everyone:
        while True:
            try:
                client.blocking_key_value_get(f"partonfit/{_rounds}/{other}", _POLL_SECONDS * 1000)
                break
            except jax.errors.JaxRuntimeError as error:
                if "DEADLINE_EXCEEDED" not in str(error):
                    raise FitError(_lost([0])) from error
            dead = sorted(set(everyone) - set(_living(client, everyone)))
            if dead:
                raise FitError(_lost(dead))


def _living(client: Any, everyone: list[int]) -> list[int]:
    try:
        return list(client.get_live_nodes(everyone))
    except jax.errors.JaxRuntimeError:
        return everyone[1:]  # process 0, which would know, does not answer


def _lost(dead: Sequence[int]) -> str:
    return (
        f"Process {', '.join(map(str, dead))} ended before its members were done; the others are complete. Run all "
        "processes again with resume: members that lie in a checkpoint are not trained again."
    )


def _client() -> Any:
    from jax._src import distributed  # the only way to wait with a limit of time

    return distributed.global_state.client


def disconnect() -> None:
    """Leave the other processes, when all have what they need."""
    if jax.process_count() == 1:
        return
    client = _client()
    try:
        client.wait_at_barrier("partonfit/end", 30_000)
        if jax.process_index() == 0:
            # Process 0 keeps the others' connection alive: it goes last.
            until = time.monotonic() + 10
            while len(_living(client, [*range(jax.process_count())])) > 1 and time.monotonic() < until:
                time.sleep(0.05)
    except jax.errors.JaxRuntimeError:
        pass  # one has gone already
    jax.distributed.shutdown()


_PER_MEMBER = ("loss", "validation", "epoch", "best_epoch")
_VALUES = ("trainable", "non_trainable")


def gather_result(result: TrainResult, count: int) -> TrainResult:
    """Return the result of all ``count`` members from those that each process trained."""
    if jax.process_count() == 1:
        return result
    arrays = {name: getattr(result, name) for name in _PER_MEMBER}
    arrays |= {f"{kind}.{i}": leaf for kind in _VALUES for i, leaf in enumerate(getattr(result, kind))}
    arrays |= {f"history.{name}": values for name, values in result.history.items()}
    arrays["status"] = np.array([int(status) for status in result.status], np.int64)
    every = gather(arrays)
    numbers = np.concatenate([np.arange(k, count, len(every)) for k in range(len(every))])
    order = np.argsort(numbers)

    def joined(name: str) -> np.ndarray:
        return np.concatenate([part[name] for part in every])[order]

    values = {kind: tuple(joined(f"{kind}.{i}") for i in range(len(getattr(result, kind)))) for kind in _VALUES}
    return replace(
        result,
        **values,
        **{name: joined(name) for name in _PER_MEMBER},
        status=tuple(Status(int(code)) for code in joined("status")),
        history=_joined_history(every, order),
    )


def _joined_history(every: list[dict[str, np.ndarray]], order: np.ndarray) -> dict[str, np.ndarray]:
    epochs = np.unique(np.concatenate([part["history.epoch"] for part in every]))
    history = {"epoch": epochs}
    names = [name for name in every[0] if name.startswith("history.") and name != "history.epoch"]
    for name in names:
        rows = []
        for part in every:
            wide = np.full((len(part["epoch"]), len(epochs)), np.nan)
            wide[:, np.searchsorted(epochs, part["history.epoch"])] = part[name]
            rows.append(wide)
        history[name.removeprefix("history.")] = np.concatenate(rows)[order]
    return history
