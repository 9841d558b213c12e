"""A fit of the reference runcard beside n3fit's own replicas of the same card.

    partonfit fit ../shared/bench/n3fit_dis.yml --theory ../shared/theory -o FIT
    python bench/against_n3fit.py FIT --json against.json [--more N3FIT]

``--more`` is the folder of another n3fit fit to the same card (it holds ``nnfit``), with other replicas: they are
added to the stored ones in the comparison of PDFs.

Central values are compared in units of the larger of the two standard deviations, widths as a ratio, over
1e-4 < x < 0.7 at Q0, for the flavours that a fit with four flavours has. With few replicas on the other side the
error of a central value and of a width counts: the last columns say how much of the difference that explains.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import partonfit as pf
from _common import machine, shared

FLAVOURS = ("g", "u", "ubar", "d", "dbar", "s", "sbar", "c")
_NAMES = {"GLUON": "g", "U": "u", "UBAR": "ubar", "D": "d", "DBAR": "dbar", "S": "s", "SBAR": "sbar", "C": "c"}


def theirs() -> tuple[np.ndarray, dict[str, np.ndarray], list[dict[str, Any]]]:
    """Return x, x f (replica, x) by flavour, and the record of every n3fit replica."""
    folder = shared() / "reference"
    stored = np.load(folder / "n3fit_dis_replicas.npz")
    xf = {_NAMES[str(n)]: stored["xf"][:, :, i] for i, n in enumerate(stored["labels"]) if str(n) in _NAMES}
    return stored["x"], xf, json.loads((folder / "n3fit_dis_replicas.json").read_text())["replicas"]


def added(folder: Path) -> dict[str, np.ndarray]:
    """Return x f (replica, x) by flavour of an n3fit fit's folder, as it exports them."""
    from ruamel.yaml import YAML

    grids = [YAML(typ="safe").load(path) for path in sorted(folder.glob("nnfit/replica_*/*.exportgrid"))]
    values = np.array([grid["pdfgrid"] for grid in grids], dtype=float)
    return {_NAMES[n]: values[:, :, i] for i, n in enumerate(grids[0]["labels"]) if n in _NAMES}


def compare(ours: np.ndarray, other: np.ndarray) -> dict[str, float]:
    """Return how two ensembles (replica, x) of one flavour differ over x."""
    sd = ours.std(axis=0, ddof=1), other.std(axis=0, ddof=1)
    apart = np.abs(ours.mean(axis=0) - other.mean(axis=0)) / np.maximum(*sd)
    error = np.sqrt(sd[0] ** 2 / len(ours) + sd[1] ** 2 / len(other)) / np.maximum(*sd)
    ratio = sd[0] / sd[1]
    return {
        "largest_shift_sd": float(apart.max()),
        "within_one_sd": float((apart < 1).mean()),
        "width_ratio_median": float(np.median(ratio)),
        "width_ratio_least": float(ratio.min()),
        "width_ratio_most": float(ratio.max()),
        "within_30_percent": float((np.abs(ratio - 1) < 0.3).mean()),
        "shift_error_sd": float(np.median(error)),
        "width_error": float(np.sqrt(0.5 / (len(ours) - 1) + 0.5 / (len(other) - 1))),
    }


def replica_chi2(fit: pf.PDFFit, t0: np.ndarray | None) -> np.ndarray:
    """Return chi2 per point (replica,) of the kept replicas to the measured data."""
    residuals = fit.predictions() - fit.data.values
    pulls = np.linalg.solve(fit.data.covariance(t0), residuals.T).T
    return np.einsum("rd,rd->r", residuals, pulls) / fit.data.n_data


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("fit", help="folder of a fit of the reference runcard")
    parser.add_argument("--more", help="folder of an n3fit fit with other replicas of the same card")
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    fit = pf.load_fit(options.fit)
    x, other, replicas = theirs()
    if options.more:
        extra = added(Path(options.more))
        other = {flavour: np.concatenate([other[flavour], extra[flavour]]) for flavour in FLAVOURS}
    inside = (x > 1e-4) & (x < 0.7)
    ours = fit.predict(x[inside], flavour=list(FLAVOURS)).replicas
    rows = {f: compare(ours[:, i], other[f][:, inside]) for i, f in enumerate(FLAVOURS)}
    names = [c["dataset"] for c in fit.settings["constraints"] or () if c["kind"] == "positivity"]
    losses = fit.constraint_losses[fit.kept][:, : len(names)] if names else np.zeros((1, 1))
    table = fit.chi2()
    result = {
        "replicas": fit.n_replicas, "kept": int(fit.kept.sum()),
        "epochs_best": float(np.mean([s.best_epoch for s in fit.statuses if s.kept])),
        "chi2_central": table.per_point, "chi2_central_t0": fit.chi2("t0").per_point,
        "seconds_training": fit.provenance["seconds"]["training"],
        "n3fit_replicas": len(other["g"]), "n3fit_chi2_mean": float(np.mean([r["chi2"] for r in replicas])),
        "n3fit_epochs_best": float(np.mean([r["best_epoch"] for r in replicas])),
        "n3fit_seconds": replicas[0]["fit_seconds"],
        "chi2_replicas_mean": float(replica_chi2(fit, None).mean()),
        "chi2_replicas_mean_t0": float(replica_chi2(fit, np.asarray(fit.provenance["t0_predictions"])).mean()),
        "training_mean": float(np.mean([s.training for s in fit.statuses if s.kept])),
        "validation_mean": float(np.mean([s.validation for s in fit.statuses if s.kept])),
        "n3fit_training_mean": float(np.mean([r["erf_tr"] for r in replicas])),
        "n3fit_validation_mean": float(np.mean([r["erf_vl"] for r in replicas])),
        "largest_positivity_loss": float(losses.max()),
        "flavours": rows,
    } | machine()  # fmt: skip
    for name, value in result.items():
        if name != "flavours":
            print(f"{name:<26} {value:.4g}" if isinstance(value, float) else f"{name:<26} {value}")
    print(f"\n{'flavour':<8}" + "".join(f"{name:>20}" for name in rows["g"]))
    for flavour, row in rows.items():
        print(f"{flavour:<8}" + "".join(f"{value:>20.3f}" for value in row.values()))
    print("\ndataset" + " " * 33 + "N   chi2/N")
    for name, n, value in zip(table.dataset, table.n_data, table.chi2, strict=True):
        print(f"{name:<38}{n:>5}{value / n:>9.3f}")
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
