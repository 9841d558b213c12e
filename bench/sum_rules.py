"""Relative error of the sum-rule integrals: the quadrature in use and the 2000-point trapezoid.

    python bench/sum_rules.py --replicas 16 --epochs 4000 --json sum_rules.json

The networks are those of a short fit to the embedded HERA data, and as many freshly drawn ones; the
oracle is the same rule with 400 nodes.
"""

from __future__ import annotations

import argparse

import numpy as np
import partonfit as pf  # before keras: it chooses the backend
from _common import machine, show
from partonfit._precision import precision_context
from partonfit._vocabulary import FITTED
from partonfit.models._sum_rules import NODES, quadrature
from partonfit.training import initial_values

import keras  # isort: skip


def trapezoid() -> tuple[np.ndarray, np.ndarray]:
    """Return n3fit's grid and its weights: 1000 log-spaced points to 0.1, 1000 linear ones to 1."""
    x = np.concatenate([np.geomspace(1e-9, 0.1, 1000), np.linspace(0.1, 1, 1001)[1:]])
    width = np.diff(x)
    return np.minimum(x, 1 - 1e-15), 0.5 * (np.append(width, 0) + np.insert(width, 0, 0))


def integrals(model: keras.Model, values: tuple, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return int Sigma, g of x f and int V, V3, V8 of f for one network."""
    pairs = [*zip(model.trainable_variables, values[0], strict=True)]
    pairs += zip(model.non_trainable_variables, values[1], strict=True)
    with precision_context("float64"), keras.StatelessScope(state_mapping=pairs):
        raw = np.asarray(model.raw(x[:, None]), dtype=np.float64)
    powers = {"Sigma": 0, "g": 0, "V": 1, "V3": 1, "V8": 1}
    return np.array([(raw[:, FITTED.index(name)] / x**power) @ weights for name, power in powers.items()])


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--replicas", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=4000)
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    about = machine()
    fit = pf.fit_pdf("hera", replicas=options.replicas, seed=3, control=pf.fit_control(epochs=options.epochs))
    model = pf.pdf_model(precision="float64")

    def member(values: tuple, replica: int) -> tuple[np.ndarray, ...]:
        return tuple(np.asarray(value[replica], dtype=np.float64) for value in values)

    weights = fit.weights
    networks = {
        "trained": [(member(weights.trainable, i), member(weights.non_trainable, i)) for i in range(options.replicas)],
        "drawn": [initial_values(model, 5, i) for i in range(options.replicas)],
    }
    rows = {"replicas": options.replicas, "nodes": NODES}
    for label, group in networks.items():
        exact = np.array([integrals(model, values, *quadrature(400)) for values in group])
        for name, rule in {"quadrature": quadrature(), "trapezoid": trapezoid()}.items():
            error = np.abs(np.array([integrals(model, values, *rule) for values in group]) / exact - 1)
            rows[f"{label}_{name}_median"] = float(np.median(error))
            rows[f"{label}_{name}_largest"] = float(error.max())
    show(rows | about, options.json)


if __name__ == "__main__":
    main()
