"""The engine: against Keras' own fit, alone against in company, and when things go wrong."""

import keras
import numpy as np
import pytest
from partonfit._errors import SettingError
from partonfit._precision import precision_context
from partonfit.training import (
    EngineControl,
    Evaluation,
    Status,
    check_precision,
    initial_states,
    initial_values,
    make_step,
    optimizer_values,
    run,
    update_with,
    write_back,
)

# Not symmetric about 0: gradients that vanish by symmetry would be rounding noise that Nadam scales up.
X = np.linspace(-0.6, 1, 40, dtype=np.float32)[:, None]
Y = np.sin(3 * X) + 0.3


def network(dtype="float32"):
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [keras.Input((1,), dtype=dtype), keras.layers.Dense(8, "tanh", dtype=dtype), keras.layers.Dense(1, dtype=dtype)]
    )


def mean_squares(model):
    def objective(trainable, non_trainable, target, shared, epoch):
        out, updated = model.stateless_call(list(trainable), list(non_trainable), shared, training=True)
        loss = keras.ops.mean((out - target) ** 2)
        return Evaluation(loss, loss, True, tuple(updated))

    return objective


def train(model, targets, *, epochs=100, optimizer=None, first=None, progress=None, members=None, **control):
    optimizer = optimizer or keras.optimizers.Nadam(2e-2, clipnorm=0.1)
    kind = control.get("precision", "float32")
    numbers = range(len(targets)) if members is None else members
    with precision_context(kind):
        values = optimizer_values(optimizer, model)
    drawn = [initial_values(model, 1, m) for m in numbers] if first is None else first
    trainable, non_trainable = (
        tuple(np.stack(leaves) for leaves in zip(*group, strict=True)) for group in zip(*drawn, strict=True)
    )
    control = EngineControl(**({"epochs": epochs, "steps_per_dispatch": 50, "record_every": 10} | control))
    step = make_step(mean_squares(model), update_with(optimizer), control)
    states = initial_states(trainable, non_trainable, values)
    return run(step, states, np.asarray(targets, dtype=kind), X.astype(kind), control, progress)


def same(a, b, member_a=0, member_b=0):
    return all(np.array_equal(x[member_a], y[member_b]) for x, y in zip(a.trainable, b.trainable, strict=True))


@pytest.mark.parametrize("name", ["Nadam", "Adam", "SGD"])
def test_equals_keras_fit(name):
    """500 full-batch steps with clipping: the same weights as keras.Model.fit.

    In float64, where 500 steps of rounding stay far below 1e-6 whatever the initial weights.
    """
    make = getattr(keras.optimizers, name)
    with precision_context("float64"):
        model, twin = network("float64"), network("float64")
        twin.set_weights(model.get_weights())
        twin.compile(make(1e-3, clipnorm=1e-2), loss="mse", jit_compile=True)
        x, y = X.astype("float64"), Y.astype("float64")
        twin.fit(x, y, batch_size=len(x), epochs=500, verbose=0, shuffle=False)
        first = [(tuple(model.get_weights()), ())]
        optimizer = make(1e-3, clipnorm=1e-2)
    result = train(model, [Y], epochs=500, optimizer=optimizer, first=first, precision="float64")
    # The loss still falls, so the best weights are those after the last update.
    assert result.best_epoch[0] == 500
    for ours, theirs in zip(result.trainable, twin.get_weights(), strict=True):
        np.testing.assert_allclose(ours[0], theirs, atol=1e-6)


def test_clipnorm_is_per_tensor_and_per_member():
    """Two members with gradients of very different size move as each does alone."""
    both = train(network(), [Y, 1000 * Y])
    alone = train(network(), [1000 * Y], members=[1])
    assert same(both, alone, 1, 0)


def test_member_alone_or_in_company():
    """Member 2 has the same bits alone, in a batch of three and in one of nine, over 2000 epochs."""
    rng = np.random.default_rng(0)
    targets = [Y + 0.1 * rng.normal(size=Y.shape) for _ in range(9)]
    nine = train(network(), targets, epochs=2000)
    three = train(network(), targets[:3], epochs=2000)
    alone = train(network(), targets[2:3], epochs=2000, members=[2])
    assert same(nine, three, 2, 2)
    assert same(nine, alone, 2, 0)


def test_nan_member_is_frozen_and_the_others_do_not_notice():
    poisoned = train(network(), [Y, np.full_like(Y, np.nan), 2 * Y])
    healthy = train(network(), [Y, Y, 2 * Y])
    assert poisoned.status == (Status.FINISHED, Status.DIVERGED, Status.FINISHED)
    assert poisoned.epoch.tolist() == [100, 0, 100]
    assert np.isnan(poisoned.validation[1])
    assert same(poisoned, healthy, 0, 0)
    assert same(poisoned, healthy, 2, 2)
    assert "diverged at epoch 0" in poisoned.status[1].sentence(0)


def test_twice_the_same_numbers_and_model_untouched():
    model = network()
    before = model.get_weights()
    first, second = train(model, [Y, 2 * Y]), train(model, [Y, 2 * Y])
    assert same(first, second)
    assert same(first, second, 1, 1)
    for a, b in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_patience_stops_each_member_on_its_own_and_best_weights_win():
    first = [initial_values(network(), 1, 0)] * 2
    easy = np.zeros_like(Y)
    big = keras.optimizers.SGD(0.9)  # overshoots, so the best weights are early ones
    result = train(network(), [easy, Y], first=first, optimizer=big, epochs=5000, patience=60)
    assert set(result.status) <= {Status.STOPPED, Status.FINISHED, Status.DIVERGED}
    for member, status in enumerate(result.status):
        if status is Status.STOPPED:
            assert result.epoch[member] - result.best_epoch[member] == 60
    recorded = result.history["validation"]
    assert (np.nanmin(recorded, axis=1) >= result.validation).all()


def test_never_passing_a_threshold_has_a_status_of_its_own():
    model = network()

    def objective(*arguments):
        return mean_squares(model)(*arguments)._replace(passed=False)

    optimizer = keras.optimizers.Adam(1e-3)
    values = optimizer_values(optimizer, model)
    trainable = tuple(w[None] for w in model.get_weights())
    control = EngineControl(epochs=20, patience=3)
    step = make_step(objective, update_with(optimizer), control)
    result = run(step, initial_states(trainable, (), values), Y[None], X, control)
    assert result.status == (Status.NEVER_PASSED,)
    assert result.best_epoch.tolist() == [-1]
    assert result.epoch.tolist() == [20]


def test_interrupt_keeps_the_best_so_far():
    def stop(step, total, metrics):
        if step >= 100:
            raise KeyboardInterrupt

    result = train(network(), [Y, 2 * Y, 3 * Y], epochs=10_000_000, progress=stop)
    assert set(result.status) == {Status.INTERRUPTED}
    assert (result.best_epoch > 0).all()
    assert (result.epoch < 10_000_000).all()


def test_progress_reports_steps_and_losses():
    seen = []
    train(network(), [Y] * 6, progress=lambda *report: seen.append(report))
    steps = [step for step, _, _ in seen]
    assert steps == sorted(steps)
    assert steps[-1] == 100
    assert seen[-1][2]["validation"] > 0
    assert seen[-1][2] | {"members": 6, "running": 0} == seen[-1][2]
    assert steps[0] == 0


def test_float64_trains_in_float64():
    with precision_context("float64"):
        model = network("float64")
        first = [(tuple(model.get_weights()), ())]
    result = train(model, [Y], precision="float64", first=first)
    assert {a.dtype for a in result.trainable} == {np.dtype("float64")}
    assert result.validation.dtype == np.float64


def test_precision_that_disagrees_is_an_error():
    with pytest.raises(SettingError, match="float32 weights but precision is 'float64'"):
        check_precision(network(), "float64")


def test_every_member_starts_differently_and_depends_on_its_number_only():
    model = network()
    a, b, again = (initial_values(model, 1, m)[0][0] for m in (0, 1, 0))
    assert not np.array_equal(a, b)
    np.testing.assert_array_equal(a, again)
    dropout = keras.Sequential([keras.Input((1,)), keras.layers.Dense(3), keras.layers.Dropout(0.5)])
    states = [initial_values(dropout, 1, m)[1][0] for m in (0, 1)]
    assert not np.array_equal(*states)


def test_write_back_gives_the_model_the_trained_values():
    model = network()
    result = train(model, [Y, 2 * Y])
    write_back(model, [a[1] for a in result.trainable], [])
    assert float(np.mean((model.predict(X, verbose=0) - 2 * Y) ** 2)) == pytest.approx(result.loss[1], rel=1e-4)


@pytest.mark.parametrize(
    ("setting", "message"),
    [({"epochs": 0}, "at least 1"), ({"epochs": 2.5}, "whole number"), ({"precision": "half"}, "one of float32")],
)
def test_bad_settings_are_named(setting, message):
    with pytest.raises(SettingError, match=message):
        EngineControl(**setting)
