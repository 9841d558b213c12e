"""train(): members that do not notice each other, and what belongs to each of them alone."""

import jax
import keras
import numpy as np
import partonfit as pf
import pytest
from partonfit._precision import precision_context
from partonfit.training import Status

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (40, 2))
Y = np.sin(2 * X.sum(axis=1, keepdims=True)) + 0.3


def network(dtype="float32", *more):
    with precision_context(dtype):
        return keras.Sequential(
            [
                keras.Input((2,), dtype=dtype),
                keras.layers.Dense(6, "tanh", dtype=dtype),
                *(layer(dtype=dtype) for layer in more),
                keras.layers.Dense(1, dtype=dtype),
            ]
        )


def train(model=None, *, targets=None, **settings):
    """Train as many members as there are targets (or ``members``), each on targets of its own."""
    own = {} if targets is None else {"members": len(targets), "member_data": (None, np.asarray(targets))}
    defaults = {"epochs": 30, "optimizer": keras.optimizers.Nadam(1e-2, clipnorm=0.1), "seed": 1, "batch_size": 16}
    return pf.train(model or network(), "mse", (X, Y), **(defaults | own | settings))


def weights(fit, member):
    return [leaf for group in fit.values(member) for leaf in group]


def same(a, b, member_a=0, member_b=0):
    return all(np.array_equal(x, y) for x, y in zip(weights(a, member_a), weights(b, member_b), strict=True))


@pytest.mark.parametrize("block_size", [None, 3])
def test_a_nan_member_is_frozen_and_the_others_are_bit_identical(block_size):
    """NNPDF/nnpdf 2322, 2416, 1838; with mini-batches, dropout and batch normalisation."""
    more = (lambda dtype: keras.layers.Dropout(0.2, dtype=dtype), keras.layers.BatchNormalization)
    targets = [Y, np.full_like(Y, np.nan), 2 * Y, Y**2]
    poisoned = train(network("float32", *more), targets=targets, block_size=block_size)
    targets[1] = Y
    healthy = train(network("float32", *more), targets=targets, block_size=block_size)
    assert poisoned.status == (Status.FINISHED, Status.DIVERGED, Status.FINISHED, Status.FINISHED)
    assert poisoned.epoch.tolist() == [30, 0, 30, 30]
    assert all(same(poisoned, healthy, m, m) for m in (0, 2, 3))
    assert poisoned.usable.tolist() == [True, False, True, True]
    assert np.isnan(poisoned.history["loss"][1]).all()
    assert np.isfinite(poisoned.history["loss"][[0, 2, 3]]).all()


def test_all_members_diverged_is_a_result_with_an_empty_history():
    """NNPDF/nnpdf 1838: NaN in the first epoch. The model stays as it was, and nothing passes for trained."""
    model = network()
    before = model.get_weights()
    fit = train(model, targets=[np.full_like(Y, np.nan)])
    assert fit.status == (Status.DIVERGED,)
    assert fit.history["epoch"].size == 0
    assert np.isnan(fit.predict(X)).all()
    for ours, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(ours, old)
    with pytest.raises(pf.SettingError, match="Member 0 has no trained weights: it diverged at epoch 0"):
        fit.write_back(0)
    with pytest.raises(pf.SettingError, match="no member 3: members are numbered 0 to 0"):
        fit.write_back(3)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "atol"), [("float64", 1e-10), ("float32", 1e-4)])
def test_member_alone_and_in_a_hundred_over_2000_epochs(dtype, atol):
    """NNPDF/nnpdf 2118, 2127: member k is the same in any company, and in blocks of any size."""
    targets = np.stack([Y + 0.1 * RNG.normal(size=Y.shape) for _ in range(100)])
    optimizer = keras.optimizers.Nadam(1e-3, clipnorm=0.1)
    settings = {"epochs": 2000, "batch_size": None, "record_every": 500, "keep": "last", "optimizer": optimizer}
    hundred = train(network(dtype), targets=targets, **settings)
    for k, block_size in ((0, None), (6, 1), (9, 5)):
        alone = train(network(dtype), targets=targets[: k + 1], **settings, block_size=block_size)
        for ours, other in zip(weights(alone, k), weights(hundred, k), strict=True):
            np.testing.assert_allclose(ours, other, atol=atol)
        assert same(alone, hundred, k, k) or block_size == 5  # the same program: the same bits
    assert {w.dtype for w in weights(hundred, 0)} == {np.dtype(dtype)}


def test_clipnorm_is_per_tensor_and_per_member():
    """NNPDF/nnpdf 1210: a member with gradients a thousand times larger changes nothing for the others."""
    both, twice = train(targets=[Y, 1000 * Y]), train(targets=[Y, Y])
    assert same(both, twice, 0, 0)
    assert not same(both, twice, 1, 1)


def test_a_second_training_of_the_same_model_gives_the_same_numbers():
    """NNPDF/nnpdf 2342: also after the first one has changed weights, biases and moving averages."""
    model = network("float32", keras.layers.BatchNormalization, lambda dtype: keras.layers.Dropout(0.3, dtype=dtype))
    optimizer = keras.optimizers.Adam(1e-2)
    first = train(model, members=2, optimizer=optimizer)
    second = train(model, members=2, optimizer=optimizer)
    assert same(first, second)
    assert same(first, second, 1, 1)
    assert not optimizer.built  # what the user gave is never touched
    assert not same(first, train(model, members=2, optimizer=optimizer, seed=2))


def test_dropout_differs_by_member_step_and_epoch_and_is_off_in_validation():
    """keras 18426. The mask shows in the output: the model is dropout alone, times one weight."""
    with precision_context("float32"):
        model = keras.Sequential([keras.Input((50,)), keras.layers.Dropout(0.5), Scale()])
    x = np.ones((6, 50), "float32")

    def count(predict, batch):
        return keras.ops.sum(keras.ops.where(predict(batch) == 0, 1.0, 0.0) * 2.0 ** keras.ops.arange(-50.0, 0.0))

    def loss(predict, batch):
        return keras.ops.mean(predict(batch) ** 2)

    # One batch an epoch: the metric is a number that identifies the mask.
    fit = pf.train(model, loss, x, members=3, metrics={"mask": count}, validation=x, epochs=20, seed=1)
    masks = fit.history["mask"]
    assert len(np.unique(masks)) == masks.size
    assert (fit.history["validation_mask"] == 0).all()
    split = pf.train(model, loss, x, metrics={"mask": count}, batch_size=2, epochs=1, seed=1)
    whole = pf.train(model, loss, x[:2], metrics={"mask": count}, epochs=3, seed=1)
    # The mean over three steps of one epoch is that of three epochs of one step: masks go on from step to step.
    assert split.history["mask"][0, 0] == pytest.approx(whole.history["mask"][0].mean(), rel=1e-5)


class Scale(keras.layers.Layer):
    """One weight."""

    def build(self, _):
        self.factor = self.add_weight(name="factor", shape=(), initializer="ones")

    def call(self, x):
        return x * self.factor


def test_each_member_has_its_own_order_of_the_samples():
    fit = train(members=3, initial="model", epochs=2)
    assert not same(fit, fit, 0, 1)
    fixed = train(members=3, initial="model", epochs=2, shuffle=False)
    assert same(fixed, fixed, 0, 1)
    whole = train(members=3, initial="model", epochs=2, batch_size=None)
    assert same(whole, whole, 0, 2)


def test_bootstrap_weights_per_member():
    """A member that sees a sample k times is a member with that sample repeated."""
    drawn = RNG.integers(0, len(X), (2, len(X)))
    counts = np.stack([np.bincount(row, minlength=len(X)) for row in drawn]).astype(float)
    settings = {"epochs": 20, "seed": 1, "members": 2, "initial": "model", "optimizer": keras.optimizers.SGD(0.1)}
    model = network("float64")
    start = model.get_weights()
    fit = pf.train(model, "mse", (X, Y), member_data=(None, None, counts), **settings)
    with precision_context("float64"):
        model.set_weights(start)
    copies = pf.train(model, "mse", (X, Y), member_data=(X[drawn], Y[drawn]), **settings)
    np.testing.assert_allclose(fit.predict(X), copies.predict(X), atol=1e-9)


def test_validation_fraction_splits_member_data_too():
    targets = np.stack([Y, -Y])
    fit = train(targets=targets, validation=0.25, epochs=1, batch_size=None)
    cut = 30
    expected = ((fit.predict(X[cut:]) - targets[:, cut:]) ** 2).mean(axis=(1, 2))
    np.testing.assert_allclose(fit.validation, expected, rtol=1e-5)


def test_the_model_is_the_first_member_and_any_other_on_request(tmp_path):
    model = network("float32", keras.layers.BatchNormalization)
    fit = train(model, members=2)
    np.testing.assert_allclose(model.predict(X, verbose=0), fit.predict(X)[0], atol=1e-6)
    fit.write_back(1).save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.predict(X, verbose=0), fit.predict(X)[1], atol=1e-6)


def test_one_program_is_compiled_and_nothing_is_left_behind():
    """jax 31319: closures per fit would recompile and leak; here it is one program a training, then none."""
    compiled = []

    def listen(name, *_, **__):
        if name == "/jax/core/compile/backend_compile_duration":
            compiled.append(name)

    train(members=5, patience=3, validation=0.2, metrics=["mae"])  # Keras' and JAX' own small programs
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        fit = train(members=5, patience=3, validation=0.2, metrics=["mae"], epochs=200)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert fit.compilations == 1
    assert len(compiled) <= 2
