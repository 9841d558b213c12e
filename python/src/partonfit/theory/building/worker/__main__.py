"""Computes the groups of a job with yadism: ``python worker job.json`` in yadism's environment.

The job is one JSON object: ``theory`` (yadism's theory card), ``card`` (its observable card without
kinematics), ``groups`` (each with file, observable, card changes and points of one Q2). Every group
becomes one ``.npz`` file, written complete or not at all; groups whose file exists are skipped, so a
run that was stopped goes on where it was. Progress goes to standard output, one JSON object a line.

This file runs in the environment of yadism, so it imports nothing of partonfit.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import channels
import numpy as np
import yadism
import yadism.log
import yadism.runner


def main(job_file: str) -> None:
    """Compute every missing group of the job."""
    warnings.filterwarnings("ignore")  # yadism's own; results are compared with stock runs in tests
    yadism.log.silent_mode = True
    channels.install()
    job = json.loads(Path(job_file).read_text())
    missing = [group for group in job["groups"] if not Path(group["file"]).exists()]
    _say(event="start", total=len(job["groups"]), missing=len(missing), yadism=yadism.__version__)
    for done, group in enumerate(missing, start=1):
        start = time.perf_counter()
        compute(job, group)
        _say(event="group", done=done, missing=len(missing), points=len(group["points"]),
             q2=group["points"][0]["Q2"], seconds=time.perf_counter() - start)  # fmt: skip


def compute(job: dict[str, Any], group: dict[str, Any]) -> None:
    """Compute one group and write its file."""
    name = group["observable"]
    card = {**job["card"], **group["card"], "observables": {name: group["points"]}}
    runner = yadism.runner.Runner(job["theory"], card)
    channels.TABLES.start(runner.configs.interpolator)
    output = runner.get_result()
    orders = sorted(output[name][0].orders)
    values = np.array([[result.orders[order][0] for order in orders] for result in output[name]])
    if not np.isfinite(values).all():
        bad = group["points"][int(np.argwhere(~np.isfinite(values))[0][0])]
        message = f"coefficient functions of {name} at {bad} are not finite"
        raise ArithmeticError(message)
    target = Path(group["file"])
    temporary = target.with_name(f".{target.name}.part")
    with temporary.open("wb") as stream:
        np.savez_compressed(
            stream,
            values=values,
            orders=np.array([order[0] for order in orders]),
            pids=np.array(output["pids"]),
            x_grid=np.array(job["card"]["interpolation_xgrid"]),
            points=np.array([[p["x"], p["Q2"], p["y"]] for p in group["points"]]),
        )
    temporary.replace(target)


def _say(**message: Any) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
