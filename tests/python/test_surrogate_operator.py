"""Surrogates as operators: other models, live training, the protocol, native JAX and files."""

import jax
import jax.numpy as jnp
import keras
import numpy as np
import partonfit as pf
import pytest
from operator_examples import N_OBS, N_STATE, tanh_operator
from partonfit.surrogates._surrogate import Surrogate


def draw(rng, n):
    return 0.4 * rng.normal(size=(n, N_STATE))  # where tanh bends, but does not saturate


@pytest.fixture(scope="module")
def design():
    return pf.surrogate_design(tanh_operator(), draw, samples=60, tangent_linear=3, adjoint=3, seed=1)


@pytest.fixture(scope="module")
def surrogate(design):
    return pf.fit_surrogate(design, loss=pf.surrogate_loss(adjoint=0.5), members=2, epochs=200, seed=1)


X = 0.4 * np.random.default_rng(9).normal(size=(7, N_STATE))


def test_live_mode_asks_during_training_and_learns():
    op = tanh_operator(batched=True)
    h = pf.wrap_operator(op)
    before = h.calls["adjoint"]
    loss = pf.surrogate_loss(adjoint=0.5, probes=1)
    live = pf.fit_surrogate(op, draw, samples=40, loss=loss, live=True, epochs=200, batch_size=None, seed=1)
    assert h.calls["adjoint"] - before >= 200
    assert live.errors["adjoint"] < 0.5


def test_any_keras_model_and_what_does_not_fit():
    model = keras.Sequential([keras.Input((N_STATE,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(N_OBS)])
    small = pf.fit_surrogate(tanh_operator(), X, model=model, epochs=2, seed=1)
    assert small.weights[0][0].shape == (1, N_STATE, 8)
    wrong = keras.Sequential([keras.Input((N_STATE,)), keras.layers.Dense(2)])
    with pytest.raises(pf.SettingError, match=r"must map \(sample, 5\) to \(sample, 3\).*5 and 2"):
        pf.fit_surrogate(tanh_operator(), X, model=wrong, epochs=2)
    lambdas = keras.Sequential([keras.Input((N_STATE,)), keras.layers.Lambda(lambda x: x), keras.layers.Dense(N_OBS)])
    with pytest.raises(pf.SettingError, match="no lambda layers"):
        pf.fit_surrogate(tanh_operator(), X, model=lambdas, epochs=2)


def test_a_linear_operator_gets_a_linear_surrogate():
    op = pf.matrix_operator(np.random.default_rng(2).normal(size=(3, 5)))
    linear = pf.fit_surrogate(op, draw, samples=40, epochs=400, seed=1)
    assert linear.linear
    assert linear.errors["values"] < 1e-3


def test_settings_are_checked(design):
    with pytest.raises(pf.SettingError, match=r"loss must come from surrogate_loss\(\)"):
        pf.fit_surrogate(design, loss="mse")
    with pytest.raises(pf.SettingError, match="needs states"):
        pf.fit_surrogate(tanh_operator())
    plain = pf.surrogate_design(tanh_operator(), X)
    with pytest.raises(pf.SettingError, match="has no adjoint probes"):
        pf.fit_surrogate(plain, loss=pf.surrogate_loss(adjoint=1.0))


# ---- the surrogate as an operator ---------------------------------------------------------------------


def test_surrogate_is_an_operator_that_passes_the_check(surrogate):
    assert isinstance(surrogate, pf.ObservationOperator)
    check = pf.check_operator(surrogate)
    assert check.passed, str(check)
    assert check.measured["dot test"] < 1e-12  # float64, whatever it was trained in
    assert keras.config.floatx() == "float32"


def test_prediction_members_and_operators_of_members(surrogate):
    p = surrogate.predict(X)
    assert p.members.shape == (2, 7, N_OBS)
    np.testing.assert_allclose(p.mean, surrogate.forward(X), rtol=1e-12)
    np.testing.assert_allclose(p.sd, p.members.std(axis=0, ddof=1))
    one = surrogate.as_operator(1)
    np.testing.assert_allclose(one.forward(X[0]), p.members[1, 0], rtol=1e-12)
    assert np.isnan(one.predict(X).sd).all()
    assert surrogate.as_operator() is surrogate
    with pytest.raises(pf.SettingError, match="no member 2"):
        surrogate.as_operator(2)


def test_wrapping_gives_native_jax_with_all_derivatives(surrogate):
    h = pf.wrap_operator(surrogate)
    x = jnp.asarray(X[0], dtype=jnp.float32)
    np.testing.assert_allclose(jax.jit(h)(x), surrogate.forward(X[0]), atol=1e-5)
    gradient = jax.jit(jax.grad(lambda v: h(v).sum()))(x)
    np.testing.assert_allclose(gradient, surrogate.adjoint(X[0], np.ones(N_OBS)), atol=1e-5)
    assert jax.hessian(lambda v: h(v).sum())(x).shape == (N_STATE, N_STATE)
    assert jax.vmap(h)(jnp.asarray(X)).shape == (7, N_OBS)
    product = h.gauss_newton_product(x, x)
    jac = np.asarray(jax.jacobian(h)(x))
    np.testing.assert_allclose(product, jac.T @ jac @ x, atol=1e-5)
    assert not any(h.calls.values())


def test_it_inverts_like_any_operator(surrogate):
    truth = X[0]
    fit = pf.fit_state(
        surrogate, surrogate.forward(truth), 1e-4, prior_mean=np.zeros(N_STATE), prior_covariance=1.0, minimiser="scipy"
    )
    assert fit.chi2 < 1


def test_wrong_shapes_are_named(surrogate):
    with pytest.raises(pf.SettingError, match=r"direction dx .* must have shape \(..., 5\), not \(4,\)"):
        surrogate.tangent_linear(X[0], X[0, :4])


# ---- files --------------------------------------------------------------------------------------------


def test_saved_and_loaded(surrogate, tmp_path):
    file = surrogate.save(tmp_path / "s.npz")
    again = pf.load_surrogate(file)
    np.testing.assert_array_equal(again.predict(X).members, surrogate.predict(X).members)
    assert repr(again) == repr(surrogate)
    assert isinstance(again, Surrogate)
    assert again.settings == surrogate.settings
    with pytest.raises(pf.StorageError, match="exists already"):
        surrogate.save(file)
    file.write_bytes(file.read_bytes()[:-200])
    with pytest.raises(pf.StorageError, match="not a complete partonfit surrogate"):
        pf.load_surrogate(file)
    with pytest.raises(pf.StorageError, match="Cannot read"):
        pf.load_surrogate(tmp_path / "none.npz")
