"""Other models than the default: bases, scaled input, layers, forms with parameters, iterated exponents."""

import warnings

import jax.numpy as jnp
import keras
import numpy as np
import partonfit as pf
import pytest
from partonfit import runcard
from partonfit._errors import SettingError, StorageError
from partonfit._precision import precision_context
from partonfit._vocabulary import EVOLUTION, FITTED, FITTED_V15, rotation, to_evolution
from partonfit.models import pdf_model, quadrature
from partonfit.models._scaling import InputScaling, scaling_knots
from partonfit.results._exponents import _clamped
from scipy.interpolate import PchipInterpolator

X = np.geomspace(1e-5, 0.9, 40)
KINDS = {
    "v15 per flavour": {"charm_asymmetry": True, "layer_type": "dense_per_flavour", "nodes": (6,)},
    "flavour, trained exponents": {"basis": "flavour", "trainable_exponents": True},
    "flavour with cbar": {"basis": "flavour", "charm_asymmetry": True},
    "scaled with dropout": {"scaling": 20, "dropout": 0.1, "activation": ["tanh", "sigmoid"]},
    "herapdf": {"form": "herapdf"},
    "les houches": {"form": "les_houches"},
}
TRAINED = ("v15 per flavour", "flavour, trained exponents", "scaled with dropout", "herapdf")


def straight(x, p):
    """A function of one's own."""
    shape = x ** p["b"] * (1 - x) ** 3
    return {"g": shape, "Sigma": shape, "V": x * shape, "V3": x * shape, "V8": x * shape}


def integrals(model):
    """Return the integrals of the sum rules, by name, from x f of the model on its own nodes."""
    x, weights = quadrature(96)
    with precision_context("float64"):
        xf = np.asarray(model(x[:, None])).T
    found = dict(zip(model.fitted, (xf * weights / x).sum(axis=1), strict=True))
    momentum = xf[model.fitted.index("Sigma")] + xf[model.fitted.index("g")]
    return found | {"momentum": float((momentum * weights).sum())}


@pytest.mark.parametrize("kind", KINDS)
def test_sum_rules_hold_for_every_kind(kind):
    model = pdf_model(**KINDS[kind], precision="float64")
    found = integrals(model)
    wanted = {"V": 3, "V3": 1, "V8": 3, "momentum": 1}
    if model.charm_asymmetry:
        assert model.fitted == FITTED_V15
        wanted["V15"] = 3
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, rel=2e-3), name


def test_v15_is_that_of_the_model_only_where_it_is_fitted():
    assert (to_evolution()[EVOLUTION.index("V15")] == to_evolution()[EVOLUTION.index("V")]).all()
    own = to_evolution(FITTED_V15)
    assert own[EVOLUTION.index("V15"), FITTED_V15.index("V15")] == 1
    assert own.sum(axis=1).tolist() == [0.0] + [1.0] * 13


def test_flavours_are_rotated_to_the_combinations_of_the_evolution_basis():
    model = pdf_model(basis="flavour", sum_rules="off", preprocessing=False, precision="float64")
    with precision_context("float64"):
        flavours = dict(zip(model.network_outputs, np.asarray(model.network(model._inputs(X[:, None]))).T, strict=True))
        found = np.asarray(model(X[:, None])).T
    back = rotation(("u", "ubar", "s", "c", "cbar")) @ to_evolution() @ found
    for name, row in zip(("u", "ubar", "s", "c", "cbar"), back, strict=True):
        np.testing.assert_allclose(row, flavours["c" if name == "cbar" else name], rtol=1e-10, atol=1e-12)


def test_scaled_input_is_the_monotone_cubic_of_scipy():
    knots = scaling_knots(12)
    layer = InputScaling(knots, dtype="float64")
    x = np.concatenate([[1e-10], np.geomspace(1e-9, 1, 300)])
    with precision_context("float64"):
        found = np.asarray(layer(x[:, None]))[:, 0]
    known = PchipInterpolator(np.log(knots), np.linspace(-1, 1, 12))(np.log(np.clip(x, 1e-9, 1)))
    np.testing.assert_allclose(found, known, atol=1e-12)
    assert (np.diff(found) >= 0).all()
    assert (found[0], found[-1]) == (pytest.approx(-1), pytest.approx(1))


def test_a_scaled_network_vanishes_at_one_and_has_no_preprocessing():
    model = pdf_model(scaling=15, precision="float64")
    assert model.preprocessing is None
    assert model.subtract_one
    with precision_context("float64"):
        np.testing.assert_allclose(np.asarray(model(np.array([[1.0]]))), 0, atol=1e-12)


def test_outputs_of_networks_of_their_own_do_not_share_weights():
    model = pdf_model(layer_type="dense_per_flavour", nodes=(4,), sum_rules="off", preprocessing=False)
    kernel = model.network.layers[0].kernel
    before = np.asarray(model(X[:, None].astype("float32")))
    values = np.asarray(kernel).copy()
    values[2] += 1
    kernel.assign(values)
    changed = np.abs(np.asarray(model(X[:, None].astype("float32"))) - before).max(axis=0) > 0
    assert changed.tolist() == [name == "V" for name in FITTED]


@pytest.mark.parametrize("kind", TRAINED)
def test_a_fit_with_any_kind_trains_and_is_stored(kind, tmp_path):
    control = pf.fit_control(epochs=40, patience=1, threshold_chi2=None)
    model = pdf_model(**KINDS[kind])
    fit = pf.postfit(pf.fit_pdf("hera", model=model, replicas=2, seed=3, control=control), integrability=1e3)
    assert fit.kept.all()
    training = fit.history["training"]
    assert (np.nanmin(training, axis=1) < training[:, 0] / 1.2).all()
    again = pf.load_fit(fit.save(tmp_path / "fit"))
    np.testing.assert_array_equal(fit(X), again(X))
    np.testing.assert_allclose(fit(X)[EVOLUTION.index("T24")], fit(X)[EVOLUTION.index("Sigma")])
    if not model.charm_asymmetry:
        np.testing.assert_allclose(fit(X)[EVOLUTION.index("V15")], fit(X)[EVOLUTION.index("V")])


def test_weights_are_judged_without_dropout():
    """Dropout acts in training only: what is stored is what chi2 says."""
    control = pf.fit_control(epochs=30, threshold_chi2=None, precision="float64", compression=0, pseudodata=False)
    model = pdf_model(dropout=0.3, precision="float64")
    fit = pf.fit_pdf("hera", model=model, replicas=1, seed=3, control=control)
    training = fit.training_mask[0]
    residual = (fit.predictions()[0] - fit.data.values)[~training]
    covariance = fit.data.covariance(fit.forward.predict(np.asarray(pf.toy_pdf(fit.forward.x))))
    known = residual @ np.linalg.solve(covariance[np.ix_(~training, ~training)], residual) / (~training).sum()
    assert fit.statuses[0].validation == pytest.approx(known, rel=1e-6)


def test_a_function_of_ones_own_with_parameters(tmp_path):
    model = pdf_model(form=straight, parameters={"b": (0.1, 0.5)}, precision="float64")
    found = integrals(model)
    assert (found["V"], found["momentum"]) == (pytest.approx(3, rel=2e-3), pytest.approx(1, rel=2e-3))
    fit = pf.fit_pdf(
        "hera", model=pdf_model(form=straight, parameters={"b": (0.1, 0.5)}), replicas=2, seed=1,
        control=pf.fit_control(epochs=20, threshold_chi2=None),
    )  # fmt: skip
    again = pf.load_fit(fit.save(tmp_path / "fit"))
    np.testing.assert_array_equal(fit(X), again(X))


def test_the_function_of_a_loaded_fit_must_be_known():
    model = pdf_model(form=lambda x, p: {"g": p["a"] * jnp.ones_like(x)}, parameters={"a": (1, 2)}, sum_rules="off")
    config = model.get_config()
    config["network"]["config"]["form"] = "elsewhere.f"
    with pytest.raises(StorageError, match="not stored with it"):
        type(model).from_config(config)(np.array([[0.1]], dtype="float32"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"basis": "quark"}, "basis must be 'evolution' or 'flavour'"),
        ({"layer_type": "conv"}, "layer_type must be"),
        ({"dropout": 1.0}, "less than 1"),
        ({"dropout": 0.1, "layer_type": "dense_per_flavour"}, "needs layer_type='dense'"),
        ({"scaling": 2}, "from 3 to 1000"),
        ({"scaling": [0.1, 0.01, 1]}, "increasing"),
        ({"form": "ct18"}, "form must be a function or one of"),
        ({"form": "herapdf", "parameters": {"B_q": 1}}, "unknown parameter 'B_q'"),
        ({"form": "herapdf", "basis": "evolution"}, "gives flavours"),
        ({"form": straight}, "needs parameters="),
        ({"form": "herapdf", "scaling": 10}, "in the place of a network"),
        ({"parameters": {"a": 1}}, "give form= too"),
        ({"scaling": 10, "trainable_exponents": True}, "need preprocessing=True"),
        ({"activation": ["tanh"]}, "one for each of the 2 hidden layers"),
        ({"alpha": {"u": (0, 1)}}, "unknown combination 'u'"),
        ({"charm_asymmetry": True, "alpha": {"V15": (1, 0)}}, "low <= high"),
    ],
)
def test_settings_that_do_not_fit_are_named(settings, words):
    with pytest.raises(SettingError, match=words.replace("(", r"\\(")):
        pdf_model(**settings)


def test_next_exponents_are_those_of_the_replicas():
    """The range is twice the 68 % interval around the mean, cut where an integral would diverge."""
    control = pf.fit_control(epochs=20, threshold_chi2=None)
    fit = pf.fit_pdf("hera", replicas=6, seed=1, control=control)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        alpha, beta = fit.next_exponents()
    for warning in heard:
        assert "is cut to" in str(warning.message)
    assert set(alpha) == set(beta) == set(FITTED)
    xf = np.abs(fit.xf([1e-6])[:, EVOLUTION.index("g"), 0])
    each = -np.log(xf / 1e-6) / np.log(1e-6)
    low, high = np.percentile(each, [15.87, 84.13])
    assert alpha["g"] == pytest.approx((2 * low - each.mean(), min(1.99, 2 * high - each.mean())))
    for name in FITTED:
        assert beta[name][0] >= 0
        assert alpha[name][1] <= (0.99 if name in ("V", "V3", "V8", "T3", "T8") else 1.99)
    pdf_model(alpha=alpha, beta=beta)


def test_exponents_whose_integral_diverges_are_cut_with_a_warning():
    with pytest.warns(UserWarning, match=r"alpha of V: the range 0.5 to 1.2 is cut to 0.5 to 0.95, or its integral"):
        assert _clamped("V", "alpha", 0.5, 1.2, -np.inf, 0.95) == (0.5, 0.95)
    with pytest.warns(UserWarning, match=r"beta of g: .* would not vanish at x = 1"):
        assert _clamped("g", "beta", -1.0, 3.0, 0.0, np.inf) == (0.0, 3.0)


def test_next_exponents_need_preprocessing():
    control = pf.fit_control(epochs=5, threshold_chi2=None)
    fit = pf.fit_pdf("hera", model=pdf_model(scaling=10), replicas=2, seed=1, control=control)
    with pytest.raises(SettingError, match="no preprocessing"):
        fit.next_exponents()


def test_an_n3fit_card_with_another_basis_and_scaled_input_is_that_model():
    text = """
dataset_inputs: [{dataset: HERA_CC_318GEV_EM-SIGMARED}]
parameters:
  nodes_per_layer: [10, 8, 9]
  activation_per_layer: [tanh, sigmoid, linear]
  layer_type: dense
  dropout: 0.1
  feature_scaling_points: 12
fitting:
  fitbasis: CCBAR_ASYMM
  basis:
  - {fl: v15, trainable: false}
"""
    model = runcard.parse_card(text).model
    assert (model.charm_asymmetry, model.scaling, model.dropout) == (True, 12, 0.1)
    assert model.activation == ["tanh", "sigmoid"]
    made = pdf_model(**runcard._model_arguments(model))
    assert made.network.output_shape == (None, 9)
    assert [type(layer).__name__ for layer in made.network.layers] == ["Dense", "Dense", "Dropout", "Dense"]
    assert keras.activations.serialize(made.network.layers[1].activation) == "sigmoid"
