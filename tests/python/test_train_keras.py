"""train() against Keras' own fit() on the same model and data: the same weights and the same history."""

from contextlib import contextmanager

import keras
import numpy as np
import partonfit as pf
import pytest
from partonfit._precision import precision_context

OPT = keras.optimizers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 3))
Y = np.sin(X.sum(axis=1, keepdims=True)) + 0.3
SETTINGS = {"batch_size": 16, "epochs": 25, "shuffle": False}  # the last batch has 2 samples


def layers(dtype):
    return [
        keras.layers.Dense(8, "tanh", dtype=dtype, kernel_regularizer=keras.regularizers.L2(1e-3)),
        keras.layers.Dense(1, dtype=dtype),
    ]


@contextmanager
def keras_in(dtype):
    """Let Keras' own fit compute in ``dtype``: it takes predictions down to floatx, whatever the model is."""
    with precision_context(dtype):
        keras.config.set_floatx(dtype)
        try:
            yield
        finally:
            keras.config.set_floatx("float32")


def network(dtype="float64", hidden=layers):
    keras.utils.set_random_seed(3)
    with precision_context(dtype):
        return keras.Sequential([keras.Input((3,), dtype=dtype), *hidden(dtype)])


def keras_fit(model, optimizer, *, x=X, y=Y, loss="mse", metrics=(), callbacks=(), **settings):
    """Return the history of Keras' own fit."""
    dtype = model.weights[0].dtype
    with keras_in(dtype):
        model.compile(optimizer(), loss, metrics=list(metrics), jit_compile=True)
        x = keras.tree.map_structure(lambda a: a.astype(dtype), x)
        return model.fit(x, y, verbose=0, callbacks=list(callbacks), **(SETTINGS | settings)).history


def train(model, optimizer, *, x=X, y=Y, loss="mse", **settings):
    """Train ``model`` from its present weights, as Keras does."""
    defaults = SETTINGS | {"keep": "last", "initial": "model", "seed": 1}
    with keras_in(model.weights[0].dtype):
        optimizer = optimizer()
    return pf.train(model, loss, (x, y), optimizer=optimizer, **(defaults | settings))


def assert_same_weights(model, twin, atol):
    for ours, theirs in zip(model.get_weights(), twin.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=atol)


OPTIMIZERS = {
    "Nadam with clipnorm": lambda: OPT.Nadam(1e-2, clipnorm=1e-1),
    "Adam with clipvalue": lambda: OPT.Adam(1e-2, clipvalue=1e-2),
    "Adam with global_clipnorm": lambda: OPT.Adam(1e-2, global_clipnorm=1e-2),
    "Adam with gradient accumulation": lambda: OPT.Adam(1e-2, gradient_accumulation_steps=3),
    "Adam with EMA": lambda: OPT.Adam(1e-2, use_ema=True, ema_momentum=0.9),
    "SGD with EMA that overwrites": lambda: OPT.SGD(1e-2, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=7),
    "SGD with momentum and weight decay": lambda: OPT.SGD(1e-2, momentum=0.9, nesterov=True, weight_decay=1e-2),
    "Nadam with a schedule": lambda: OPT.Nadam(OPT.schedules.ExponentialDecay(1e-2, 10, 0.9)),
    "Adam with loss scale": lambda: OPT.Adam(1e-2, loss_scale_factor=8.0),
    **{
        name: lambda name=name: getattr(OPT, name)(learning_rate=1e-2)
        for name in sorted(
            n for n in dir(OPT) if n[0].isupper() and n not in ("Optimizer", "OptimizerMap", "LossScaleOptimizer")
        )
        if name not in ("MultiOptimizer", "Adam", "Nadam")
    },
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_equals_keras_fit(name):
    make, model, twin = OPTIMIZERS[name], network(), network()
    theirs = keras_fit(twin, make, epochs=5)
    ours = train(model, make, epochs=5)
    assert_same_weights(model, twin, 1e-9)
    np.testing.assert_allclose(ours.history["loss"][0], theirs["loss"], atol=1e-9)


def test_no_optimizer_of_keras_is_left_out():
    offered = {n for n in dir(OPT) if isinstance(getattr(OPT, n), type) and issubclass(getattr(OPT, n), OPT.Optimizer)}
    left_out = {"Optimizer", "LossScaleOptimizer", "MultiOptimizer"}
    assert offered - left_out <= {name.split()[0] for name in OPTIMIZERS}


@pytest.mark.parametrize(("dtype", "atol"), [("float64", 1e-6), ("float32", 1e-3)])
def test_nadam_with_clipnorm_equals_keras_after_500_steps(dtype, atol):
    """The acceptance test of the engine: 500 updates, full batch."""
    model, twin = network(dtype), network(dtype)
    make, size = (lambda: OPT.Nadam(2.6e-3, clipnorm=1e-2)), len(X)
    keras_fit(twin, make, epochs=500, batch_size=size)
    fit = train(model, make, epochs=500, batch_size=None)
    assert fit.epoch.tolist() == [500]
    assert fit.precision == dtype
    assert_same_weights(model, twin, atol)


def normalised(dtype):
    return [
        keras.layers.Dense(8, dtype=dtype, activity_regularizer=keras.regularizers.L2(1e-2)),
        keras.layers.BatchNormalization(momentum=0.8, dtype=dtype),
        keras.layers.Activation("tanh", dtype=dtype),
        keras.layers.Dense(1, dtype=dtype, kernel_constraint=keras.constraints.MaxNorm(0.5)),
    ]


def test_batch_normalisation_regularisers_constraints_and_validation():
    """Moving averages, activity losses and validation losses too are Keras' own, with a batch of another size."""
    model, twin = network(hidden=normalised), network(hidden=normalised)
    make, held = (lambda: OPT.Adam(1e-2)), (X[:20] + 0.1, Y[:20])
    theirs = keras_fit(twin, make, metrics=["mae"], validation_data=held)
    ours = train(model, make, metrics=["mae"], validation=held)
    assert_same_weights(model, twin, 1e-9)
    pairs = {"loss": "loss", "validation": "val_loss", "mae": "mae", "validation_mae": "val_mae"}
    for mine, other in pairs.items():
        np.testing.assert_allclose(ours.history[mine][0], theirs[other], atol=1e-9, err_msg=mine)
    with keras_in("float64"):
        model.compile(loss="mse")
        assert model.evaluate(*held, verbose=0) == pytest.approx(ours.history["validation"][0, -1], abs=1e-6)
        np.testing.assert_allclose(model.predict(X, verbose=0), ours.predict(X)[0], atol=1e-12)


def test_early_stopping_equals_that_of_keras():
    make = lambda: OPT.SGD(0.3)  # noqa: E731
    held = (RNG.normal(size=(30, 3)), RNG.normal(size=(30, 1)))  # noise: the validation soon rises
    model, twin = network(), network()
    stopper = keras.callbacks.EarlyStopping(patience=5, min_delta=1e-3, restore_best_weights=True)
    theirs = keras_fit(twin, make, validation_data=held, callbacks=[stopper], epochs=200)
    ours = train(model, make, validation=held, patience=5, min_delta=1e-3, keep="best", epochs=200)
    assert ours.status == (pf.training.Status.STOPPED,)
    assert ours.epoch[0] == len(theirs["loss"])
    assert ours.best_epoch[0] == stopper.best_epoch + 1  # Keras counts epochs from 0
    assert_same_weights(model, twin, 1e-9)


def test_validation_split_takes_the_samples_that_keras_takes():
    model, twin = network(), network()
    make = lambda: OPT.Adam(1e-2)  # noqa: E731
    theirs = keras_fit(twin, make, validation_split=0.3)
    ours = train(model, make, validation=0.3)
    assert_same_weights(model, twin, 1e-9)
    np.testing.assert_allclose(ours.history["validation"][0], theirs["val_loss"], atol=1e-9)


@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "sum", "mean_with_sample_weight"])
def test_sample_weights(reduction):
    model, twin = network(), network()
    weights = RNG.uniform(0.2, 2, len(X))
    loss = keras.losses.MeanAbsoluteError(reduction=reduction, dtype="float64")
    make = lambda: OPT.Adam(1e-3)  # noqa: E731
    keras_fit(twin, make, loss=loss, sample_weight=weights)
    defaults = SETTINGS | {"keep": "last", "initial": "model", "seed": 1}
    pf.train(model, loss, (X, Y, weights), optimizer=make(), **defaults)
    assert_same_weights(model, twin, 1e-9)


def two_headed():
    keras.utils.set_random_seed(3)
    with precision_context("float64"):
        a, b = (keras.Input((3,), name=n, dtype="float64") for n in "ab")
        hidden = keras.layers.Concatenate(dtype="float64")(
            [keras.layers.Dense(4, "tanh", dtype="float64")(part) for part in (a, b)]
        )
        size = keras.layers.Dense(1, name="size", dtype="float64")(hidden)
        kind = keras.layers.Dense(3, "softmax", name="kind", dtype="float64")(hidden)
        return keras.Model({"a": a, "b": b}, {"size": size, "kind": kind})


def test_several_inputs_and_outputs_as_plain_dicts():
    """NNPDF/nnpdf 2318, 2342: a dict of inputs stays a pytree, however often it is used."""
    x = {"a": X, "b": X[::-1].copy()}
    y = {"size": Y, "kind": RNG.integers(0, 3, len(X))}
    loss = {"size": "mse", "kind": "sparse_categorical_crossentropy"}
    make = lambda: OPT.Adam(1e-2)  # noqa: E731
    model, twin = two_headed(), two_headed()
    theirs = keras_fit(twin, make, x=x, y=y, loss=loss, metrics=[]) and twin.get_weights()
    for _ in range(2):
        start = two_headed().get_weights()
        with precision_context("float64"):
            model.set_weights(start)
        fit = train(model, make, x=x, y=y, loss=loss, metrics={"kind": ["accuracy"], "size": "mae"})
        for ours, other in zip(model.get_weights(), theirs, strict=True):
            np.testing.assert_allclose(ours, other, atol=1e-9)
    assert type(x) is dict
    assert {"kind_accuracy", "size_mae"} <= set(fit.history)
    assert {k: v.shape for k, v in fit.predict(x).items()} == {"size": (1, 50, 1), "kind": (1, 50, 3)}


def test_metrics_start_anew_each_epoch_and_match_keras():
    labels = (Y[:, 0] > 0.3).astype("int32")

    def classifier(dtype):
        return [keras.layers.Dense(8, "tanh", dtype=dtype), keras.layers.Dense(2, "softmax", dtype=dtype)]

    model, twin = network(hidden=classifier), network(hidden=classifier)
    loss = "sparse_categorical_crossentropy"
    make = lambda: OPT.Adam(1e-2)  # noqa: E731
    top = keras.metrics.SparseTopKCategoricalAccuracy(k=1, name="top")
    theirs = keras_fit(twin, make, y=labels, loss=loss, metrics=["accuracy", top])
    ours = train(model, make, y=labels, loss=loss, metrics=["accuracy", top])
    np.testing.assert_allclose(ours.history["accuracy"][0], theirs["accuracy"], atol=1e-6)
    np.testing.assert_allclose(ours.history["top"][0], theirs["top"], atol=1e-6)


def test_frozen_layers_keep_their_weights_also_when_members_are_drawn():
    model, twin = network(), network()
    model.layers[0].trainable = twin.layers[0].trainable = False
    kernel = model.layers[0].get_weights()[0]
    make = lambda: OPT.Adam(1e-2)  # noqa: E731
    keras_fit(twin, make)
    train(model, make)
    assert_same_weights(model, twin, 1e-9)
    drawn = train(model, make, members=2, initial="draw", epochs=2)
    for member in range(2):
        np.testing.assert_array_equal(model.layers[0].get_weights()[0], kernel)
        assert any(np.array_equal(kernel, v) for v in drawn.values(member)[1])


def test_exclusion_from_weight_decay_is_copied():
    def make():
        optimizer = OPT.SGD(0.1, weight_decay=0.5)
        optimizer.exclude_from_weight_decay(var_names=["bias"])
        return optimizer

    model, twin = network(), network()
    keras_fit(twin, make, epochs=2)
    train(model, make, epochs=2)
    assert_same_weights(model, twin, 1e-9)


class Steps(OPT.schedules.LearningRateSchedule):
    """A schedule that Keras could not rebuild from its configuration: its class is not registered."""

    def __call__(self, step):
        return keras.ops.where(step < 12, 1e-2, 1e-4)

    def get_config(self):
        return {}


def test_a_schedule_of_the_users_own():
    model, twin = network(), network()
    make = lambda: OPT.Adam(Steps())  # noqa: E731
    keras_fit(twin, make, epochs=5)  # 20 steps
    train(model, make, epochs=5)
    assert_same_weights(model, twin, 1e-9)
