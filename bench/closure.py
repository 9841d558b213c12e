"""Closure test on the HERA or the reference DIS data: wall time, bias/variance ratio and xi_1sigma.

    python bench/closure.py --data dis --fits 25 --replicas 40 --json closure.json --save closure/

Every replica is a real fit (17000 epochs at most, stopped by its validation chi2). ``--epochs`` makes
it shorter. ``seconds_all`` is the whole call: loading, compiling, training, evaluation; statistics come after.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import partonfit as pf
from _common import dis_entries, machine, peak_memory_gb, shared, show


def parsed() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data", choices=("hera", "dis"), default="hera")
    parser.add_argument("--fits", type=int, default=25)
    parser.add_argument("--replicas", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=17000)
    parser.add_argument("--pdf", default="toy")
    parser.add_argument("--constraints", action="store_true", help="positivity and integrability of NNPDF4.0")
    parser.add_argument("--fraction", type=float, default=0.75, help="of every dataset's points in the training set")
    parser.add_argument("--no-pseudodata", action="store_true", help="all replicas of a fit see its data as they are")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", help="folder for the complete result and the figure")
    parser.add_argument("--json")
    return parser.parse_args()


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run the closure test and return what was measured."""
    started = time.perf_counter()
    dis = options.data == "dis"
    data, theory = (
        (pf.load_data(dis_entries()), pf.load_theory(shared() / "theory")) if dis else (pf.load_data("hera"), "hera")
    )
    found = pf.closure_test(
        data, theory, pdf=options.pdf, fits=options.fits, replicas=options.replicas, seed=options.seed,
        control=pf.fit_control(
            epochs=options.epochs, training_fraction=options.fraction, pseudodata=not options.no_pseudodata
        ),
        constraints="nnpdf40" if options.constraints else None,
    )  # fmt: skip
    fitted = time.perf_counter()
    print(found)
    print(found.to_dataframe().to_string(index=False, float_format="{:.3f}".format))
    evaluated = time.perf_counter()
    if options.save:
        folder = found.save(options.save, overwrite=True)
        found.plot().savefig(folder / "figure.pdf")
    whole, pdf, seconds = found.rows[0], found.row("pdf"), found.provenance["seconds"]
    numbers = {"ratio": whole.averages.ratio, "xi_points": whole.averages.inside, "xi_directions": whole.along,
               "xi_expected": whole.averages.expected, "xi_pdf": pdf.averages.inside}  # fmt: skip
    return {
        "data": options.data, "points": found.n_data, "fits": options.fits, "replicas": options.replicas,
        "epochs_at_most": options.epochs, "training_fraction": options.fraction,
        "pseudodata": not options.no_pseudodata,
        "constraints": options.constraints, "left_out": str(found.left_out),
        "seconds_all": fitted - started, "seconds_training": seconds["training"],
        "seconds_compiling": seconds["compiling"], "seconds_statistics": evaluated - fitted,
        "faithful_ratio": found.faithful[0], "faithful_xi": found.faithful[1],
        "bias": whole.averages.bias.value, "variance": whole.averages.variance.value,
        **{name: value.value for name, value in numbers.items()},
        **{f"{name}_error": value.error for name, value in numbers.items()},
        "peak_memory_gb": peak_memory_gb(),
    }  # fmt: skip


def main() -> None:
    """Run the benchmark."""
    options, about = parsed(), machine()
    show(measure(options) | about, options.json)


if __name__ == "__main__":
    main()
