"""Time per epoch and replica of a PDF fit on the reference DIS tables, all replicas running to the end.

    python bench/dis_speed.py --replicas 100 --epochs 3000 --json speed.json

Early stopping is off, so every replica makes every epoch. The rate is taken between the first and
the last report of progress: compilation and loading are shown apart.
"""

from __future__ import annotations

import argparse
import time

import partonfit as pf
from _common import dis_entries, machine, peak_memory_gb, shared, show


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--replicas", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=3000)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--block-size", type=int, default=None)
    parser.add_argument("--hera", action="store_true", help="only the embedded HERA data, with these tables")
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    about = machine()
    start = time.perf_counter()
    data = pf.load_data("hera" if options.hera else dis_entries())
    theory = pf.load_theory(shared() / "theory" / "dis_nnlo")
    seen: list[tuple[float, float, int]] = []

    def note(step: int, total: int, metrics: dict[str, float]) -> None:
        if step:  # the report before compilation has step 0
            seen.append((time.perf_counter(), time.process_time(), step))

    control = pf.fit_control(
        epochs=options.epochs, patience=1.0, precision=options.precision, block_size=options.block_size
    )
    fit = pf.fit_pdf(data, theory, replicas=options.replicas, seed=1, control=control, progress=note)
    end = time.perf_counter()
    if len(seen) < 2:
        parser.error("too few epochs: take at least 1500")
    (first, cpu, at), (last, cpu_end, until) = seen[0], seen[-1]
    work = options.replicas * (until - at)
    show(
        {
            "replicas": options.replicas, "epochs": options.epochs, "points": data.n_data,
            "precision": options.precision,
            "ms_per_epoch_replica": 1e3 * (last - first) / work,
            "cpu_ms_per_epoch_replica": 1e3 * (cpu_end - cpu) / work,
            "seconds_to_first_report": first - start,
            "seconds_total": end - start,
            "peak_memory_gb": peak_memory_gb(),
            "chi2_per_point": fit.chi2().per_point,
        }
        | about,
        options.json,
    )  # fmt: skip


if __name__ == "__main__":
    main()
