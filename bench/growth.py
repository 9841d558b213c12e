"""How time and memory of a fit grow with the number of replicas and of data points.

    python bench/growth.py --json growth.json

Each case runs in a process of its own (dis_speed.py), so that peak memories are its own. The sets of
data are 274, 528 and 1145 HERA points and all 2181 DIS points of the reference card: about 1, 2, 4 and
8 times the first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import partonfit as pf
from _common import dis_entries, machine, peak_memory_gb, shared, show

SETS = {
    274: ("HERA_NC_225GEV_EP", "HERA_NC_300GEV_EP"),
    528: ("HERA_NC_225GEV_EP", "HERA_NC_300GEV_EP", "HERA_NC_251GEV_EP"),
    1145: ("HERA_NC_225", "HERA_NC_300", "HERA_NC_251", "HERA_NC_318GEV_E", "HERA_CC_318"),
    2181: ("",),
}


def one(points: int, replicas: int, epochs: int) -> dict[str, Any]:
    """Fit once in this process."""
    entries = [e for e in dis_entries() if e["dataset"].startswith(SETS[points])]
    if points == 1145:
        entries = [e for e in entries if "EAVG" not in e["dataset"]]
    data, theory = pf.load_data(entries), pf.load_theory(shared() / "theory" / "dis_nnlo")
    seen: list[tuple[float, int]] = []
    start = time.perf_counter()
    pf.fit_pdf(
        data, theory, replicas=replicas, seed=1, control=pf.fit_control(epochs=epochs, patience=1.0),
        progress=lambda step, total, metrics: seen.append((time.perf_counter(), step)) if step else None,
    )  # fmt: skip
    (first, at), (last, until) = seen[0], seen[-1]
    return {
        "points": data.n_data,
        "replicas": replicas,
        "ms_per_epoch": 1e3 * (last - first) / (until - at),
        "ms_per_epoch_replica": 1e3 * (last - first) / (until - at) / replicas,
        "setup_seconds": first - start,
        "peak_memory_gb": peak_memory_gb(),
    }


def apart(points: int, replicas: int, epochs: int) -> dict[str, Any]:
    """Fit once in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "one.json"
        arguments = ["--one", str(points), str(replicas), str(epochs), "--json", str(file)]
        subprocess.run([sys.executable, __file__, *arguments], check=True, env=dict(os.environ), stdout=subprocess.PIPE)
        return json.loads(file.read_text())


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--one", nargs=3, type=int, default=None, metavar=("POINTS", "REPLICAS", "EPOCHS"))
    parser.add_argument("--replicas", nargs="+", type=int, default=[1, 10, 100, 1000])
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    if options.one:
        show(one(*options.one), options.json)
        return
    about = machine()
    columns = ("points", "replicas", "ms_per_epoch", "ms_per_epoch_replica", "setup_seconds", "peak_memory_gb")
    print("".join(f"{name:>22}" for name in columns))
    cases = [(1145, count) for count in options.replicas] + [(points, 100) for points in SETS]
    rows = []
    for points, replicas in cases:
        rows.append(apart(points, replicas, max(600, min(6000, 200_000 // replicas))))
        print("".join(f"{rows[-1][name]:>22.4g}" for name in columns), flush=True)
    show(about, None)
    if options.json:
        Path(options.json).write_text(json.dumps({"rows": rows, "machine": about}, indent=1) + "\n")


if __name__ == "__main__":
    main()
