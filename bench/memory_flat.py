"""Resident memory over many fits in one process: flat after the first few.

python bench/memory_flat.py --fits 50 --json memory.json
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import partonfit as pf
from _common import machine, show


def resident_mb() -> float:
    """Return the resident size of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--fits", type=int, default=50)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--settle", type=int, default=5, help="fits before the size counts")
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    about, start, sizes = machine(), time.perf_counter(), []
    control = pf.fit_control(epochs=options.epochs, threshold_chi2=None)
    for number in range(options.fits):
        pf.fit_pdf("hera", replicas=options.replicas, seed=number, control=control).predict([0.1])
        sizes.append(resident_mb())
        print(f"fit {number + 1}: {sizes[-1]:.1f} MB", flush=True)
    settled = sizes[options.settle - 1]
    show(
        {
            "fits": options.fits, "replicas": options.replicas, "epochs": options.epochs,
            "mb_after_first": sizes[0], "mb_after_settling": settled, "mb_after_last": sizes[-1],
            "growth_percent": 100 * (sizes[-1] / settled - 1),
            "mb_per_fit": (sizes[-1] - settled) / max(1, options.fits - options.settle),
            "seconds_total": time.perf_counter() - start,
        }
        | about,
        options.json,
    )  # fmt: skip


if __name__ == "__main__":
    main()
