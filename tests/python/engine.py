"""A small ensemble for the tests of the loop: the engine with nothing of PDFs."""

import partonfit  # noqa: F401  (chooses the Keras backend: subprocesses import this file first)

# isort: split
import keras
import numpy as np
from partonfit._precision import precision_context
from partonfit.training import (
    EngineControl,
    Evaluation,
    fingerprint,
    initial_states,
    initial_values,
    make_step,
    optimizer_values,
    run,
    update_with,
)

X = np.linspace(-0.6, 1, 40)[:, None]


def targets(count):
    noise = np.random.default_rng(0).normal(size=(count, *X.shape))
    return np.sin(3 * X) + 0.3 + 0.1 * noise


def train(
    count=6, *, numbers=None, epochs=400, patience=None, precision="float32", width=8, learning_rate=2e-2, **more
):
    """Train members ``numbers`` of ``count``; each depends on its number only."""
    numbers = range(count) if numbers is None else numbers
    keras.utils.set_random_seed(1)
    with precision_context(precision):
        layers = [keras.layers.Dense(width, "tanh", dtype=precision), keras.layers.Dense(1, dtype=precision)]
        model = keras.Sequential([keras.Input((1,), dtype=precision), *layers])

    def objective(trainable, non_trainable, target, x, epoch):
        out, updated = model.stateless_call(list(trainable), list(non_trainable), x, training=True)
        loss = keras.ops.mean((out - target) ** 2)
        return Evaluation(loss, loss, True, tuple(updated))

    optimizer = keras.optimizers.Nadam(learning_rate, clipnorm=0.1)
    with precision_context(precision):
        values = optimizer_values(optimizer, model)
    drawn = [initial_values(model, 1, int(member)) for member in numbers]
    trainable, non_trainable = (
        tuple(np.stack(leaves) for leaves in zip(*group, strict=True)) for group in zip(*drawn, strict=True)
    )
    settings = {name: more.pop(name) for name in ("steps_per_dispatch", "block_size") if name in more}
    control = EngineControl(epochs=epochs, patience=patience, precision=precision, record_every=10, **settings)
    return run(
        make_step(objective, update_with(optimizer), control),
        initial_states(trainable, non_trainable, values),
        targets(count)[list(numbers)].astype(precision),
        X.astype(precision),
        control,
        **more,
    )


def parts(**changed):
    """Return the fingerprint of such a training."""
    return fingerprint(**({"settings": "as always", "data": X} | changed))


def differences(a, b):
    """Return what differs between two results, to the last bit."""
    found = []
    for name in ("loss", "validation", "epoch", "best_epoch"):
        if not np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True):
            found.append(name)
    for name in ("trainable", "non_trainable"):
        if not all(map(np.array_equal, getattr(a, name), getattr(b, name))):
            found.append(name)
    if a.status != b.status:
        found.append("status")
    for name in {*a.history, *b.history}:
        if not np.array_equal(a.history[name], b.history[name], equal_nan=True):
            found.append(f"history {name}")
    return found
