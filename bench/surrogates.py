"""Surrogates at equal operator cost, and inversion with the surrogate against inversion with the operator.

    python bench/surrogates.py --json surrogates.json

First the 20 -> 6 problem of the design notes: values alone, with as many more states as the others spend on
derivatives, against values with tangent-linear or adjoint probes. One call of any of the three functions
counts as one. Then the same on the transport model, and an inversion of emissions there by fit_state with the
operator and with the surrogate that learnt its adjoint: seconds (the first run compiles), and how far the two
states are apart in posterior standard deviations.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np
import partonfit as pf
from _common import machine, show


def toy() -> pf.ObservationOperator:
    """Return a smooth nonlinear operator from 20 states to 6 observations."""
    rng = np.random.default_rng(0)
    w, v = rng.normal(size=(2, 6, 20)) / np.sqrt(20)
    return pf.operator(
        forward=lambda x: np.tanh(1.5 * x @ w.T) + 0.5 * np.sin(x @ v.T),
        tangent_linear=lambda x, dx: 1.5 * (1 - np.tanh(1.5 * x @ w.T) ** 2) * (dx @ w.T)
        + 0.5 * np.cos(x @ v.T) * (dx @ v.T),
        adjoint=lambda x, dy: (1.5 * (1 - np.tanh(1.5 * x @ w.T) ** 2) * dy) @ w + (0.5 * np.cos(x @ v.T) * dy) @ v,
        n_state=20, n_obs=6, batched=True, name="20 -> 6",
    )  # fmt: skip


def errors(surrogate: Any, op: Any, x: np.ndarray) -> tuple[float, float]:
    """Return value NRMSE and relative error of the scaled Jacobian at new states."""
    y, s = op.forward(x), surrogate.scaling
    value = float(np.sqrt(np.mean(((surrogate.forward(x) - y) / s.obs_sd) ** 2)))
    unit = np.eye(op.n_obs) / s.obs_sd
    gap = size = 0.0
    for row in unit:
        dy = np.tile(row, (len(x), 1))
        right = op.adjoint(x, dy) * s.state_sd
        gap += ((surrogate.adjoint(x, dy) * s.state_sd - right) ** 2).sum()
        size += (right**2).sum()
    return value, float(np.sqrt(gap / size))


def quality(op: Any, draw: Any, samples: int, probes: int, test: np.ndarray, **how: Any) -> Any:
    """Return errors per loss at equal numbers of operator calls, and the surrogate that learnt the adjoint."""
    losses = {
        "values only": pf.surrogate_loss(),
        "tangent linear": pf.surrogate_loss(tangent_linear=0.5, probes=probes),
        "adjoint": pf.surrogate_loss(adjoint=0.5, probes=probes),
        "both": pf.surrogate_loss(tangent_linear=0.5, adjoint=0.5, probes=max(1, probes // 2)),
    }
    rows, learnt = {}, {}
    for name, loss in losses.items():
        # Each state with probes costs 1 + probes calls; values alone get as many more states.
        count = samples * (1 + probes) if name == "values only" else samples
        start = time.perf_counter()
        surrogate = pf.fit_surrogate(op, draw, samples=count, loss=loss, seed=1, **how)
        seconds = time.perf_counter() - start
        value, jacobian = errors(surrogate, op, test)
        calls = sum(surrogate.settings["calls"].values())
        rows[name] = {"states": count, "calls": calls, "value": value, "jacobian": jacobian, "seconds": seconds}
        learnt[name] = surrogate
    return rows, learnt["adjoint"]


def smooth_states(nx: int, ny: int, length: float) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and factor L (state, control) of smooth positive emissions."""
    y, x = (a.ravel() for a in np.mgrid[:ny, :nx])
    apart = np.minimum(np.abs(x[:, None] - x), nx - np.abs(x[:, None] - x)) ** 2 + (y[:, None] - y) ** 2
    values, vectors = np.linalg.eigh(0.03**2 * np.exp(-apart / (2 * length**2)))
    kept = values > 1e-4 * values[-1]
    return np.full(nx * ny, 0.1), vectors[:, kept] * np.sqrt(values[kept])


def inversion(op: Any, surrogate: Any, mean: np.ndarray, factor: np.ndarray, members: int) -> dict[str, Any]:
    """Return seconds and distances of fit_state with the operator and with the surrogate."""
    rng = np.random.default_rng(7)
    truth = mean + factor @ rng.normal(size=factor.shape[1])
    clean = op.forward(truth)
    sd = 0.02 * clean.std()
    y = clean + sd * rng.normal(size=op.n_obs)
    rows: dict[str, Any] = {}
    fits = {}
    for name, which in (("operator", op), ("surrogate", surrogate)):
        # What the surrogate does not know is an error of its own: it belongs into R.
        own = 0.0 if which is op else (surrogate.errors["observation"] * surrogate.scaling.obs_sd) ** 2
        for run in ("first", "again"):
            start = time.perf_counter()
            fits[name] = pf.fit_state(
                which, y, sd**2 + own * np.ones(op.n_obs), prior_mean=mean, prior_factor=factor, members=members,
                seed=1, iterations=300, tolerance=1e-3,
            )  # fmt: skip
            rows[f"inversion | {name} | seconds, {run}"] = time.perf_counter() - start
        fit = fits[name]
        rows[f"inversion | {name} | operator calls"] = sum(fit.calls.values())
        rows[f"inversion | {name} | converged"] = f"{int(fit.converged.sum())} of {len(fit.converged)}"
        rows[f"inversion | {name} | distance to truth / prior sd"] = _rms((fit.state - truth) / 0.03)
        rows[f"inversion | {name} | chi2 per observation of the operator there"] = float(
            np.mean(((y - op.forward(fit.state)) / sd) ** 2)
        )
    gap = fits["surrogate"].state - fits["operator"].state
    rows["inversion | distance between the two / posterior sd"] = _rms(gap / fits["operator"].sd)
    rows["inversion | ratio of posterior sds"] = _rms(fits["surrogate"].sd / fits["operator"].sd)
    return rows


def _rms(a: np.ndarray) -> float:
    return float(np.sqrt(np.mean(a**2)))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--epochs", type=int, default=None, help="passes over the states (default: fit_surrogate's)")
    parser.add_argument("--hidden", type=int, nargs="+", default=(32, 32))
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--nx", type=int, default=40)
    parser.add_argument("--ny", type=int, default=25)
    parser.add_argument("--members", type=int, default=20)
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    rows: dict[str, Any] = machine()
    rng = np.random.default_rng(5)
    model = pf.transport_model(options.nx, options.ny, stations=20, times=5)
    mean, factor = smooth_states(options.nx, options.ny, 4.0)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return mean + rng.normal(size=(n, factor.shape[1])) @ factor.T

    problems = {
        "20 -> 6": (toy(), lambda rng, n: rng.normal(size=(n, 20)), rng.normal(size=(300, 20))),
        f"transport {model.n_state} -> {model.n_obs}": (model, draw, draw(rng, 50)),
    }
    surrogate = None
    for name, (op, states, test) in problems.items():
        found, surrogate = quality(
            op, states, options.samples, 4, test, hidden=tuple(options.hidden), epochs=options.epochs
        )
        for loss, row in found.items():
            rows |= {f"{name} | {loss} | {what}": value for what, value in row.items()}
    rows |= inversion(model, surrogate, mean, factor, options.members)
    rows["load_after"] = round(os.getloadavg()[0], 2)
    show(rows, options.json)


if __name__ == "__main__":
    main()
