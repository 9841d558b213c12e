"""The PDF model: sum rules against adaptive quadrature, preprocessing, networks of a user's own."""

import keras
import numpy as np
import pytest
from partonfit._errors import SettingError
from partonfit._precision import precision_context
from partonfit._vocabulary import FITTED
from partonfit.models import pdf_model, quadrature, resolve_pdf
from partonfit.models._preprocessing import ALPHA, BETA
from partonfit.training import initial_values
from scipy.integrate import quad


def integral(model, name, power):
    """Composite quadrature of x^power x f over [1e-9, 1] in ln x: 100 nodes in each of 40 panels."""
    nodes, weights = np.polynomial.legendre.leggauss(100)
    edges = np.linspace(np.log(1e-9), 0, 41)
    half = (edges[1] - edges[0]) / 2
    log_x = (edges[:-1, None] + half * (nodes + 1)).ravel()
    with precision_context("float64"):
        xf = np.asarray(model(np.exp(log_x)[:, None]))[:, FITTED.index(name)]
    return float((np.tile(half * weights, 40) * xf * np.exp(log_x * (power + 1))).sum())


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(1)
    return pdf_model(precision="float64")


@pytest.mark.parametrize(("name", "value"), [("V", 3), ("V3", 1), ("V8", 3)])
def test_valence_sum_rules(model, name, value):
    assert integral(model, name, -1) == pytest.approx(value, rel=1e-6)


def test_momentum_sum_rule(model):
    assert integral(model, "Sigma", 0) + integral(model, "g", 0) == pytest.approx(1, rel=1e-6)


def test_quadrature_beats_the_trapezoid_it_replaces():
    """Our nodes against n3fit's 2000-point trapezoid, on the ends of the exponent ranges."""
    grid = np.concatenate([np.geomspace(1e-9, 0.1, 1000), np.linspace(0.1, 1, 1001)[1:]])
    x, w = quadrature()
    for alpha, beta in [(0.7384, 1.549), (0.479, 3.532), (0.1073, 1.733)]:

        def f(x, a=alpha, b=beta):
            return x**-a * (1 - x) ** b * np.tanh(1 + x - 0.3 * np.log(x))

        exact = sum(
            quad(lambda t, f=f: f(np.exp(t)) * np.exp(t), lo, hi, epsabs=0, epsrel=1e-12, limit=200)[0]
            for lo, hi in [(np.log(1e-9), -8), (-8, -2), (-2, -0.3), (-0.3, 0)]
        )
        ours, trapezoid = abs((w * f(x)).sum() / exact - 1), abs(np.trapezoid(f(grid), grid) / exact - 1)
        assert ours < 1e-7
        assert ours < trapezoid / 10


@pytest.mark.parametrize("rules", ["momentum", "valence", "off"])
def test_partial_sum_rules_leave_the_other_norms_alone(rules):
    model = pdf_model(sum_rules=rules, precision="float64")
    x = np.geomspace(1e-3, 0.9, 5)[:, None]
    with precision_context("float64"):
        ratio = np.asarray(model(x)) / np.asarray(model.raw(x))
    free = {"momentum": ["V", "V3", "V8"], "valence": ["g"], "off": ["g", "V", "V3", "V8"]}[rules]
    for name in [*free, "Sigma", "T3", "T8", "T15"]:
        np.testing.assert_allclose(ratio[:, FITTED.index(name)], 1, rtol=1e-5)


def test_exponents_lie_in_their_ranges_and_differ_between_replicas():
    model = pdf_model()
    drawn = np.stack([initial_values(model, 3, replica)[1] for replica in range(50)])
    for kind, ranges in enumerate([ALPHA, BETA]):
        for column, name in enumerate(FITTED):
            low, high = ranges[name]
            values = drawn[:, kind, column]
            assert (values >= np.float32(low)).all()
            assert (values <= np.float32(high)).all()
            assert values.std() > 0.2 * (high - low) / np.sqrt(12)


def test_trainable_exponents_are_trainable():
    assert len(pdf_model(trainable_exponents=True).trainable_variables) == 8
    assert len(pdf_model().trainable_variables) == 6


def test_saved_and_loaded_model_is_the_same(tmp_path):
    model = pdf_model(nodes=(7,), sum_rules="momentum", alpha={"g": (0.8, 0.9)})
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    x = np.geomspace(1e-4, 0.9, 6, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(model(x), again(x))
    assert again.preprocessing.alpha_ranges["g"] == (0.8, 0.9)


def test_own_network():
    own = keras.Sequential([keras.Input((2,)), keras.layers.Dense(4, "swish"), keras.layers.Dense(8)])
    assert pdf_model(own, preprocessing=False)(np.array([[0.1]], dtype=np.float32)).shape == (1, 8)


def test_network_of_another_size_is_refused():
    wrong = keras.Sequential([keras.Input((1,)), keras.layers.Dense(8)])
    with pytest.raises(SettingError, match=r"must take \(None, 2\)"):
        pdf_model(wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sum_rules": "most"}, "sum_rules must be one of all, momentum, valence, off"),
        ({"alpha": {"gluon": (0, 1)}}, "unknown combination 'gluon'"),
        ({"beta": {"g": (5, 1)}}, "low <= high"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(SettingError, match=message):
        pdf_model(**options)


@pytest.mark.parametrize(
    ("pdf", "message"),
    [
        ("toi", "Did you mean 'toy'"),
        (3, "a name or a function"),
        (lambda x: np.zeros((13, len(x))), r"\(14, len\(x\)\)"),
        (lambda x: np.full((14, len(x)), np.nan), "not finite"),
    ],
)
def test_bad_pdfs_are_named(pdf, message):
    with pytest.raises(SettingError, match=message):
        resolve_pdf(pdf)
