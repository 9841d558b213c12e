"""The engine beside the obvious alternatives, on the same model, data and loss (2181 DIS points).

    python bench/against_alternatives.py --json alternatives.json

* ``keras.Model.fit``, one replica at a time, with the validation chi2 as a metric: what a Keras user
  would write.
* A hand-written ensemble in JAX and optax: the network as plain matrix products, ``vmap`` over the
  replicas, ``scan`` over the epochs, optax' Nadam with the gradient of each tensor clipped, best weights
  by the validation chi2. It runs over all replicas at once (what one would write first), and over
  blocks of ten on two threads like the engine.

Each gets the same compressed quadratic forms, without which the differences would be larger. All run
in this process, by turns.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from _common import machine, show
from _dis_fit import Parts, parts
from partonfit._precision import precision_context
from partonfit.inference._products import quadratic, through
from partonfit.models._sum_rules import quadrature
from partonfit.training import EngineControl, make_step, run, update_with

import keras  # isort: skip

LEARNING_RATE, CLIP = 2.621e-3, 6.073e-6


def by_engine(fit: Parts, replicas: int, epochs: int) -> float:
    """Return the seconds of the engine's own loop, its compilation apart."""
    seen: list[tuple[float, int]] = []
    control = EngineControl(epochs=epochs)
    step = make_step(fit.objective, update_with(fit.optimizer), control, fit.judge)
    run(
        step, fit.states, fit.members, fit.shared, control,
        progress=lambda at, total, metrics: seen.append((time.perf_counter(), at)) if at else None,
    )  # fmt: skip
    (first, at), (last, until) = seen[0], seen[-1]
    return (last - first) / (until - at) / replicas


def handwritten(fit: Parts) -> tuple[Any, Any]:
    """Return (initial state of all replicas, scan over epochs) written by hand."""
    x = quadrature(fit.model.sum_rules.nodes)[0]
    count = len(fit.compression.forward.x)
    factors, fixed, normed = (jnp.asarray(t, jnp.float32) for t in fit.model.sum_rules._tables())
    points = fit.compression.forward.nonlinear_points
    transform = optax.nadam(LEARNING_RATE)

    def xf(tensors: Any, exponents: Any, grid: Any) -> Any:
        everywhere = jnp.concatenate([grid, jnp.asarray(x, jnp.float32)[:, None]])
        hidden = jnp.concatenate([everywhere, jnp.log(everywhere)], axis=1)
        for i in range(0, len(tensors), 2):
            hidden = hidden @ tensors[i] + tensors[i + 1]
            hidden = jnp.tanh(hidden) if i < len(tensors) - 2 else hidden
        raw = hidden * everywhere ** (1 - exponents[0]) * (1 - everywhere) ** exponents[1]
        integrals = (factors * raw[count:]).sum(axis=0)
        wanted = fixed - jnp.eye(8)[1] * integrals[0]
        return raw[:count] * jnp.where(normed > 0, wanted / jnp.where(normed > 0, integrals, 1), 1)

    def losses(tensors: Any, member: Any, shared: Any) -> tuple[Any, Any]:
        exponents, forms = member
        shift = (xf(tensors, exponents, forms.x) - shared.reference_xf).reshape(-1)
        z = through(shift, shared.project, shared.project_transposed)
        rows = shared.reference_rows + through(z, shared.spread, shared.spread_transposed)
        more = points(rows) - shared.reference_points
        inside, held = jnp.append(z, more[forms.training_picks]), jnp.append(z, more[forms.validation_picks])
        held = jax.lax.stop_gradient(held)
        training = quadratic(inside, forms.training_matrix, forms.training_vector)
        return training, held @ (forms.validation_matrix @ held - 2 * forms.validation_vector)

    def step(state: Any, member: Any, shared: Any) -> Any:
        tensors, moments, best, lowest = state
        (_, validation), gradients = jax.value_and_grad(losses, has_aux=True)(tensors, member, shared)
        better = validation < lowest
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), tensors, best)
        gradients = jax.tree.map(lambda g: g * (CLIP / jnp.maximum(jnp.linalg.norm(g), CLIP)), gradients)
        updates, moments = transform.update(gradients, moments)
        return optax.apply_updates(tensors, updates), moments, best, jnp.where(better, validation, lowest)

    tensors = [jnp.asarray(leaf) for leaf in fit.states.trainable]
    start = (tensors, jax.vmap(transform.init)(tensors), tensors, jnp.full(len(tensors[0]), jnp.inf))

    def program(state: Any, member: Any, shared: Any, epochs: int) -> Any:
        batched = jax.vmap(step, in_axes=(0, 0, None))
        return jax.lax.scan(lambda carry, _: (batched(carry, member, shared), None), state, None, length=epochs)[0]

    return start, program


def by_hand(fit: Parts, replicas: int, epochs: int, block: int) -> float:
    """Return the seconds of the hand-written ensemble per epoch and replica."""
    start, program = handwritten(fit)
    members = (fit.states.non_trainable, fit.members)
    shared = jax.device_put(fit.shared)

    def cut(tree: Any, first: int) -> Any:
        return jax.tree.map(lambda a: jnp.asarray(a[first : first + block]), tree)

    blocks = [(cut(start, first), cut(members, first), shared) for first in range(0, replicas, block)]
    compiled = jax.jit(program, static_argnums=3).lower(*blocks[0], epochs).compile()
    jax.block_until_ready(compiled(*blocks[0]))
    workers = len(os.sched_getaffinity(0)) if len(blocks) > 1 else 1
    begun = time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda arguments: jax.block_until_ready(compiled(*arguments)), blocks))
    return (time.perf_counter() - begun) / epochs / replicas


def by_keras(fit: Parts, epochs: int) -> float:
    """Return the seconds per epoch of keras.Model.fit on one replica, its first epochs apart."""
    model, shared, forms = fit.model, fit.shared, jax.tree.map(lambda a: a[0], fit.members)
    points = fit.compression.forward.nonlinear_points

    def features(xf: Any, picks: Any) -> Any:
        z = (xf - shared.reference_xf).reshape(-1) @ shared.project
        more = points(shared.reference_rows + z @ shared.spread) - shared.reference_points
        return jnp.append(z, more[picks])

    def training(_: Any, xf: Any) -> Any:
        return quadratic(features(xf, forms.training_picks), forms.training_matrix, forms.training_vector)

    def validation(_: Any, xf: Any) -> Any:
        return quadratic(features(xf, forms.validation_picks), forms.validation_matrix, forms.validation_vector)

    class Rate(keras.callbacks.Callback):
        times: list[float]

        def on_train_begin(self, logs: Any = None) -> None:
            self.times = []

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.times.append(time.perf_counter())

    optimizer = keras.optimizers.Nadam(LEARNING_RATE, clipnorm=CLIP)
    model.compile(optimizer=optimizer, loss=training, metrics=[validation])
    grid, rate = np.asarray(forms.x), Rate()
    stop = keras.callbacks.EarlyStopping("validation", mode="min", patience=10**6, restore_best_weights=True)
    model.fit(grid, grid, batch_size=len(grid), epochs=epochs, verbose=0, shuffle=False, callbacks=[rate, stop])
    return (rate.times[-1] - rate.times[10]) / (len(rate.times) - 11)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--replicas", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=1500)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    about = machine()
    taken: dict[str, list[float]] = {"engine": [], "by_hand_blocks": [], "by_hand_all": []}
    with precision_context("float32"):
        fit = parts(options.replicas)
        for _ in range(options.turns):
            taken["engine"].append(by_engine(fit, options.replicas, options.epochs))
            taken["by_hand_blocks"].append(by_hand(fit, options.replicas, options.epochs, 10))
            taken["by_hand_all"].append(by_hand(fit, options.replicas, options.epochs // 3, options.replicas))
        keras_seconds = by_keras(fit, 200)
    rows: dict[str, Any] = {f"{name}_ms": 1e3 * min(times) for name, times in taken.items()}
    rows["keras_fit_ms"] = 1e3 * keras_seconds
    for name in ("by_hand_blocks", "by_hand_all", "keras_fit"):
        rows[f"engine_over_{name}"] = rows["engine_ms"] / rows[f"{name}_ms"]
    show(rows | about, options.json)


if __name__ == "__main__":
    main()
