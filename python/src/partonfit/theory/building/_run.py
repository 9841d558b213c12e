"""Running the worker: one process in yadism's environment, its progress read line by line."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from partonfit._errors import TheoryError
from partonfit.theory.building import _environment, _groups, _schemes
from partonfit.theory.building._groups import Group
from partonfit.theory.building._schemes import Scheme

Progress = Callable[[int, int, dict[str, float]], None]

WORKER = Path(__file__).with_name("worker")
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def finished(groups: Sequence[Group]) -> list[tuple[Group, dict[str, np.ndarray]]]:
    """Return the groups whose result is there and intact; damaged files are removed."""
    result = []
    for group in groups:
        arrays = _groups.read(group)
        if arrays is None:
            group.file.unlink(missing_ok=True)
        else:
            result.append((group, arrays))
    return result


def compute(
    groups: Sequence[Group], scheme: Scheme, *, resume: bool, progress: Progress | None
) -> list[tuple[Group, dict[str, np.ndarray]]]:
    """Return the coefficient functions of every group, computing what is missing.

    Raises
    ------
    MissingDependencyError
        When the environment of yadism cannot be made.
    TheoryError
        When yadism fails; finished groups stay, so ``resume=True`` goes on from there.
    """
    if not resume:
        for group in groups:
            group.file.unlink(missing_ok=True)
    done = finished(groups)
    if len(done) < len(groups):
        if progress is not None:
            progress(len(done), len(groups), {})  # making the environment may take minutes
        python = _environment.environment(scheme)
        groups[0].file.parent.mkdir(parents=True, exist_ok=True)
        _run(python, groups, scheme, len(done), progress)
        done = finished(groups)
    if len(done) < len(groups):
        msg = f"{len(groups) - len(done)} of {len(groups)} groups are missing. Build again with resume=True."
        raise TheoryError(msg)
    return done


def _run(python: Path, groups: Sequence[Group], scheme: Scheme, before: int, progress: Progress | None) -> None:
    job = {
        "theory": scheme.theory,
        "card": _schemes.observable_card(),
        "groups": [group.job() for group in groups],
    }
    environment = os.environ | dict.fromkeys(_ONE_THREAD, "1")
    environment.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
        file = Path(folder, "job.json")
        file.write_text(json.dumps(job))
        with subprocess.Popen(
            [str(python), str(WORKER), str(file)],
            stdout=subprocess.PIPE, stderr=errors, text=True, env=environment,
        ) as process:  # fmt: skip
            try:
                _follow(process, before, len(groups), progress)
            except BaseException:
                process.kill()
                raise
        if process.returncode != 0:
            errors.seek(0)
            last = (errors.read().strip().splitlines() or [f"exit status {process.returncode}"])[-1]
            msg = f"yadism stopped: {last}. Finished groups are kept; build again with resume=True."
            raise TheoryError(msg)


def _follow(process: subprocess.Popen[str], before: int, total: int, progress: Progress | None) -> None:
    """Pass the worker's messages on as progress, with an estimate of the time left."""
    spent = 0.0
    assert process.stdout is not None
    for line in process.stdout:
        try:
            message = json.loads(line)
        except ValueError:
            continue  # something a library printed
        if message.get("event") != "group":
            continue
        spent += message["seconds"]
        left = (message["missing"] - message["done"]) * spent / message["done"]
        if progress is not None:
            progress(before + message["done"], total, {"q2": message["q2"], "seconds_left": left})
