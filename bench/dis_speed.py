"""Time per epoch and replica of a PDF fit on the reference DIS tables.

    python bench/dis_speed.py --replicas 100 --epochs 3000 --json speed.json
    python bench/dis_speed.py --early-stopping [--constraints]

By default early stopping is off, so every replica makes every epoch; the rate is taken between the
first and the last report of progress: compilation and loading are shown apart. With
``--early-stopping`` it is the real fit (17000 epochs at most, stopped by the validation chi2), from
loading to best weights, which ``seconds_total`` says.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import partonfit as pf
from _common import dis_entries, machine, peak_memory_gb, shared, show


def parsed() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--replicas", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=None)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--block-size", type=int, default=None)
    parser.add_argument("--hera", action="store_true", help="only the embedded HERA data, with these tables")
    parser.add_argument("--constraints", action="store_true", help="positivity and integrability on")
    parser.add_argument("--early-stopping", action="store_true", help="the real fit instead of a rate")
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    options.epochs = options.epochs or (17000 if options.early_stopping else 3000)
    return options


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run one fit and return what it took."""
    start = time.perf_counter()
    data = pf.load_data("hera" if options.hera else dis_entries())
    theory = pf.load_theory(shared() / "theory" / ("" if options.constraints else "dis_nnlo"))
    seen: list[tuple[float, float, int]] = []

    def note(step: int, total: int, metrics: dict[str, float]) -> None:
        if step:  # the report before compilation has step 0
            seen.append((time.perf_counter(), time.process_time(), step))

    control = pf.fit_control(
        epochs=options.epochs,
        patience=0.1 if options.early_stopping else 1.0,
        precision=options.precision,
        block_size=options.block_size,
    )
    fit = pf.fit_pdf(
        data, theory, replicas=options.replicas, seed=1, control=control, progress=note,
        constraints="nnpdf40" if options.constraints else None,
    )  # fmt: skip
    end = time.perf_counter()
    if len(seen) < 2:
        msg = "too few epochs: take at least 1500"
        raise SystemExit(msg)
    if options.early_stopping:
        work, (first, cpu, _), (last, cpu_end, _) = sum(s.epoch for s in fit.statuses), seen[0], seen[-1]
    else:
        (first, cpu, at), (last, cpu_end, until) = seen[0], seen[-1]
        work = options.replicas * (until - at)
    return {
        "replicas": options.replicas, "epochs": options.epochs, "points": data.n_data,
        "precision": options.precision, "constraints": options.constraints,
        "ms_per_epoch_replica": 1e3 * (last - first) / work,
        "cpu_ms_per_epoch_replica": 1e3 * (cpu_end - cpu) / work,
        "epochs_per_replica": work / options.replicas,
        "seconds_to_first_report": first - start,
        "seconds_total": end - start,
        "seconds_compiling": fit.provenance["seconds"]["compiling"],
        "compilations": fit.provenance["compilations"],
        "peak_memory_gb": peak_memory_gb(),
        "replicas_kept": sum(s.kept for s in fit.statuses),
        "chi2_per_point": fit.chi2().per_point if any(s.kept for s in fit.statuses) else None,
        "compression_error": fit.provenance["compression"]["error_per_point"],
    }  # fmt: skip


def main() -> None:
    """Run the benchmark."""
    options, about = parsed(), machine()
    show(measure(options) | about, options.json)


if __name__ == "__main__":
    main()
