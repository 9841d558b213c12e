"""train() with loss functions of the user's own: derivatives inside, no labels, the model's own losses."""

import warnings

import jax
import jax.numpy as jnp
import keras
import numpy as np
import partonfit as pf
import pytest
from partonfit._precision import precision_context

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 3))
Y = np.sin(X.sum(axis=1, keepdims=True)) + 0.3
DENSE = keras.layers.Dense


def network(*hidden, dtype="float64"):
    keras.utils.set_random_seed(3)
    with precision_context(dtype):
        return keras.Sequential(
            [keras.Input((3,), dtype=dtype), *(make(dtype) for make in hidden), DENSE(1, dtype=dtype)]
        )


def tanh(dtype):
    return DENSE(8, "tanh", dtype=dtype, kernel_regularizer="l2")


def active(dtype):
    return DENSE(8, "tanh", dtype=dtype, activity_regularizer="l2")


def normalised(dtype):
    return keras.layers.BatchNormalization(dtype=dtype)


def dropped(dtype):
    return keras.layers.Dropout(0.3, dtype=dtype)


def squares(predict, batch):
    x, y = batch
    return ((predict(x) - y) ** 2).mean()


def train(model, loss, data=(X, Y), **settings):
    defaults = {"epochs": 10, "batch_size": 16, "seed": 1, "optimizer": keras.optimizers.Adam(1e-2)}
    return pf.train(model, loss, data, **(defaults | settings))


@pytest.mark.parametrize("hidden", [(tanh, normalised, dropped), (active,)])
def test_a_function_of_squares_is_the_keras_loss(hidden):
    """keras 18570, 20378, 18426, 19430: state, seeds, regularisers and activity losses take part in both ways."""
    by_name = train(network(*hidden), "mse", validation=(X, Y), members=2)
    by_function = train(network(*hidden), squares, validation=(X, Y), members=2)
    for name in ("loss", "validation"):
        np.testing.assert_allclose(by_function.history[name], by_name.history[name], atol=1e-12)
    for member in range(2):
        for ours, theirs in zip(by_function.values(member), by_name.values(member), strict=True):
            for a, b in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(a, b, atol=1e-12)


def slopes(predict, x):
    return jax.vmap(jax.grad(lambda one: predict(one[None])[0, 0]))(x)


def test_gradients_of_the_model_inside_the_loss():
    """Learn a function from its derivatives alone: value up to a constant, slopes everywhere."""

    def loss(predict, x):
        return ((slopes(predict, x) - jnp.cos(x)) ** 2).mean()

    x = np.linspace(-1.5, 1.5, 40)[:, None]
    model = keras.Sequential([keras.Input((1,)), DENSE(16, "tanh"), DENSE(1)])
    fit = train(model, loss, x, batch_size=None, epochs=600, members=2)
    found = fit.predict(x)
    assert np.ptp(found - np.sin(x), axis=1).max() < 0.1
    assert fit.compilations == 1


@pytest.mark.parametrize("transform", ["jvp", "vjp", "jacfwd", "jacrev", "hessian", "jit", "checkpoint"])
def test_transformations_agree_with_the_plain_call(transform):
    """Every transformation of predict() gives what mathematics says of a linear model."""

    def loss(predict, x):
        point = x[0]

        def scalar(z):
            return predict(z[None])[0, 0]

        weights = jax.grad(scalar)(point)
        given = {
            "jvp": lambda: jax.jvp(scalar, (point,), (weights,))[1] - weights @ weights,
            "vjp": lambda: jax.vjp(scalar, point)[1](jnp.ones(()))[0] - weights,
            "jacfwd": lambda: jax.jacfwd(scalar)(point) - weights,
            "jacrev": lambda: jax.jacrev(scalar)(point) - weights,
            "hessian": lambda: jax.hessian(scalar)(point),
            "jit": lambda: jax.jit(scalar)(point) - scalar(point),
            "checkpoint": lambda: jax.checkpoint(scalar)(point) - scalar(point),
        }
        return (given[transform]() ** 2).sum()

    fit = train(network(dtype="float32"), loss, X, epochs=1)
    assert fit.loss[0] == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize(("hidden", "what"), [(normalised, "moving averages"), (active, "adds losses of its own")])
def test_state_that_only_changes_inside_a_transformation_is_an_error(hidden, what):
    """It could not get out; to go on without it would be wrong silently."""

    def inside(predict, x):
        return (slopes(predict, x) ** 2).mean()

    def outside(predict, x):
        return inside(predict, x) + predict(x).mean() * 0

    with pytest.raises(pf.SettingError, match=what):
        train(network(hidden), inside, X)
    model = network(hidden)
    assert np.isfinite(train(model, outside, X).loss).all()
    if hidden is normalised:
        assert not np.allclose(model.layers[0].moving_mean, 0)


def test_dropout_inside_of_gradients_changes_from_step_to_step_and_is_one_function():
    seen = []

    def loss(predict, x):
        step = 1e-3
        forward = predict(x[:1] + step * jnp.ones(3)) - predict(x[:1] - step * jnp.ones(3))
        slope = jax.jvp(predict, (x[:1],), (jnp.ones((1, 3)),))[1]
        return ((forward / (2 * step) - slope) ** 2).sum()  # vanishes only if all calls share their masks

    fit = train(network(dropped), loss, X[:1], epochs=5)
    np.testing.assert_allclose(fit.history["loss"], 0, atol=1e-12)

    def only_inside(predict, x):
        return (slopes(predict, x) ** 2).sum()

    # With a learning rate of 0 nothing but the masks changes the loss.
    still = train(network(dropped), only_inside, X[:1], epochs=20, optimizer=keras.optimizers.SGD(0.0), members=2)
    seen = still.history["loss"]
    assert (np.ptp(seen, axis=1) > 0).all()
    assert not np.array_equal(seen[0], seen[1])


def test_a_key_for_random_numbers_of_the_loss():
    """One key per member, epoch and batch."""

    def loss(predict, batch, key):
        return jax.random.uniform(key, dtype=jnp.float64) + predict(batch).sum() * 0

    settings = {"epochs": 4, "members": 3, "batch_size": None, "validation": X, "shuffle": False}
    fit = train(network(tanh), loss, X, **settings)
    drawn = fit.history["loss"]
    assert len(np.unique(np.round(drawn, 9))) == drawn.size
    np.testing.assert_array_equal(drawn, train(network(tanh), loss, X, **settings).history["loss"])


def test_data_and_metrics_of_any_structure():
    """A batch has the structure of the data; metrics are means over the samples, the last short batch included."""

    def loss(predict, batch):
        return ((predict(batch["inputs"]["x"]) - batch["targets"][0]) ** 2).mean()

    def mean_of_x(predict, batch):
        return batch["inputs"]["x"][:, 0].mean()

    data = {"inputs": {"x": X}, "targets": [Y]}
    fit = train(network(tanh), loss, data, metrics=[mean_of_x], validation=data)
    np.testing.assert_allclose(fit.history["mean_of_x"], X[:, 0].mean(), atol=1e-12)
    np.testing.assert_allclose(fit.history["validation_mean_of_x"], X[:, 0].mean(), atol=1e-12)
    assert type(data["inputs"]) is dict


class Bottleneck(keras.layers.Layer):
    """Adds the whole loss itself, as variational autoencoders do."""

    def build(self, _):
        self.scale = self.add_weight(name="scale", shape=(), initializer="ones")

    def call(self, x):
        self.add_loss(keras.ops.mean((self.scale * x - 2 * x) ** 2))
        return self.scale * x


def test_a_model_that_brings_its_own_loss():
    """keras 19430."""
    model = keras.Sequential([keras.Input((3,)), Bottleneck()])
    fit = train(model, None, X, epochs=300, optimizer=keras.optimizers.SGD(0.3))
    assert fit.loss[0] == pytest.approx(0, abs=1e-6)
    assert float(model.layers[0].scale) == pytest.approx(2, abs=1e-3)


def test_a_model_that_is_built_by_its_first_data():
    model = keras.Sequential([DENSE(4, "tanh"), DENSE(1)])
    assert train(model, "mse").predict(X).shape == (1, 50, 1)
    with pytest.raises(pf.SettingError, match="no weights yet"):
        train(keras.Sequential([DENSE(1)]), squares)


def test_float64_steps_hold_no_float32(monkeypatch):
    """Keras takes many results down to float32 on JAX; in the engine float64 is float64 throughout."""
    seen = []

    def trace(step, states, own, shared, *_, **__):
        seen.append(str(jax.make_jaxpr(jax.vmap(step, in_axes=(0, 0, None)))(states, own, shared)))
        raise KeyboardInterrupt

    monkeypatch.setattr("partonfit.training._train.run", trace)
    with pytest.raises(KeyboardInterrupt):
        train(network(tanh, normalised), "mse", metrics=["mae"], optimizer="nadam", validation=0.2)
    assert "f64[" in seen[0]
    assert "f32[" not in seen[0]
    assert keras.backend.result_type("float64", float) == "float32"  # and Keras is as it was
    assert keras.config.floatx() == "float32"


def test_floatx_and_x64_cannot_disagree_silently():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX only warns
        model = keras.Sequential([keras.Input((3,)), DENSE(1, dtype="float64")])
    for precision in (None, "float32", "float64"):
        with pytest.raises(pf.SettingError, match=r"float64 weights are float32 arrays.*JAX_ENABLE_X64=1"):
            train(model, "mse", precision=precision)
    with pytest.raises(pf.SettingError, match="float32 weights but precision is 'float64'"):
        train(network(tanh, dtype="float32"), "mse", precision="float64")
    with pytest.raises(pf.SettingError, match="'mean_squared_error' computes in float32 but the model in float64"):
        train(network(tanh), keras.losses.MeanSquaredError())
    with precision_context("float64"):
        rounding = keras.Sequential([keras.Input((3,), dtype="float32", name="x"), DENSE(1, dtype="float64")])
    with pytest.raises(pf.SettingError, match="layer 'x' computes in float32 but precision is 'float64'"):
        train(rounding, "mse")
    half = keras.Sequential([keras.Input((3,)), DENSE(1, dtype="mixed_bfloat16")])
    with pytest.raises(pf.SettingError, match="computes in bfloat16"):
        train(half, "mse")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": "mqe"}, "Keras knows no loss 'mqe'"),
        ({"optimizer": "adamm"}, "Keras knows no optimizer 'adamm'"),
        ({"metrics": ["maee"]}, "Keras knows no metric 'maee'"),
        ({"loss": squares, "metrics": ["mae"]}, "must be a function of \\(predict, batch\\)"),
        ({"loss": lambda predict, batch: predict(batch[0])}, "must be one real number, not an array of shape"),
        ({"data": X}, "data holds only x"),
        ({"data": (X, Y[:-1])}, "found 49, 50"),
        ({"data": (X, np.array(["a"] * 50))}, "must hold arrays of numbers"),
        ({"data": (X, Y, Y, Y)}, "not a tuple of 4"),
        ({"validation": 0.999}, "leaves 0 of 50"),
        ({"validation": (X, Y[:3])}, "arrays of validation"),
        ({"member_data": (None, np.stack([Y] * 3))}, "with 1 members, not \\(3, 50, 1\\)"),
        ({"member_data": (None, Y[None, :9])}, "member_data has 9 samples"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"members": 0}, "members must be at least 1"),
        ({"keep": "first"}, "keep must be 'best' or 'last'"),
        ({"keep": "last", "patience": 3}, "needs keep='best'"),
        ({"initial": "zero"}, "initial must be 'draw' or 'model'"),
        ({"min_delta": -1}, "min_delta"),
        ({"loss": {"height": "mse"}}, "it has no height"),
        ({"loss": ["mse", "mae"]}, "loss has 2 entries, but the model has 1 output"),
        ({"checkpoint": "folder", "seed": None}, "needs a seed"),
        ({"optimizer": keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam())}, "inner optimizer"),
    ],
)
def test_what_does_not_fit_together_is_said_before_training(change, message):
    model = network(tanh, dtype="float32")
    loss, data = change.pop("loss", "mse"), change.pop("data", (X, Y))
    with pytest.raises(pf.SettingError, match=message):
        train(model, loss, data, **change)


def test_models_that_cannot_be_trained():
    frozen = network(tanh, dtype="float32")
    frozen.trainable = False
    with pytest.raises(pf.SettingError, match="no trainable weights"):
        train(frozen, "mse")
    with pytest.raises(pf.SettingError, match="must be a Keras model, not function"):
        train(squares, "mse")
