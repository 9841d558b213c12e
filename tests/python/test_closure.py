"""closure_test() on the embedded data: what it fits, that it repeats, what goes wrong."""

import numpy as np
import partonfit as pf
import pytest
from partonfit._errors import SettingError

QUICK = {"epochs": 60, "threshold_chi2": None}


@pytest.fixture(scope="module")
def data():
    return pf.load_data(["HERA_CC_318GEV_EM-SIGMARED", "HERA_CC_318GEV_EP-SIGMARED"])


@pytest.fixture(scope="module")
def closure(data):
    return pf.closure_test(data, "hera", fits=2, replicas=3, seed=1, control=pf.fit_control(**QUICK))


def test_all_fits_are_members_of_one_program_with_data_of_their_own(closure, data):
    law = pf.predictions(data, "hera", "toy")
    np.testing.assert_allclose(closure.law_predictions, law)
    assert closure.predictions.shape == (2, 3, 81)
    assert closure.xf.shape == (2, 3, 8, len(closure.x))
    np.testing.assert_allclose(closure.law_xf, pf.toy_pdf(closure.x)[[1, 2, 3, 4, 5, 9, 10, 11]])
    assert not np.array_equal(closure.level1[0], closure.level1[1])
    # One draw of the noise: chi2 of the law to it is about one per point.
    factor = np.linalg.cholesky(data.with_values(law).covariance())
    chi2 = np.mean(np.linalg.solve(factor, (closure.level1 - law).T) ** 2, axis=0)
    assert (abs(chi2 - 1) < 4 * np.sqrt(2 / 81)).all()
    covariance = closure.correlated @ closure.correlated.T + np.diag(closure.independent**2)
    np.testing.assert_allclose(covariance, data.covariance(law), rtol=1e-12)
    assert set(np.concatenate(closure.statuses)) <= {"finished", "stopped", "vetoed"}
    assert closure.settings["law"] == "toy"
    assert (closure.settings["fits"], closure.settings["replicas"], closure.settings["seed"]) == (2, 3, 1)


def test_a_member_is_the_same_whatever_else_is_fitted(closure, data):
    alone = pf.closure_test(data, "hera", fits=1, replicas=3, seed=1, control=pf.fit_control(**QUICK))
    np.testing.assert_array_equal(alone.level1[0], closure.level1[0])
    np.testing.assert_array_equal(alone.xf[0], closure.xf[0])
    # Member 0 of fit_pdf with the same data and t0 is the same network, too.
    fake = data.with_values(closure.level1[0])
    fit = pf.fit_pdf(fake, "hera", replicas=3, seed=1, t0="toy", control=pf.fit_control(**QUICK))
    np.testing.assert_allclose(fit.predictions(kept_only=False), closure.predictions[0], rtol=1e-5)
    assert closure.chi2[0] == pytest.approx(np.mean(fit.chi2("t0").total) / 81, rel=1e-3) or not fit.kept.all()


def test_the_result_is_printed_and_drawn(closure):
    assert str(closure).startswith("Closure test: 2 fits of 3 replicas, 81 points in 2 datasets, law toy")
    assert repr(closure).startswith("<ClosureTest: 2 fits of 3 replicas, ratio ")
    assert closure.plot().axes
    assert closure.fits_table().columns.tolist() == ["fit", "kept", "bias", "variance", "chi2_per_point"]


def test_replicas_that_never_pass_are_left_out_and_counted(data):
    control = pf.fit_control(epochs=20, threshold_chi2=1e-3)
    result = pf.closure_test(data, "hera", fits=1, replicas=2, seed=1, control=control)
    assert not result.kept.any()
    assert result.left_out == {"never_passed": 2}
    assert "left out: 2 never_passed; 1 fits" in str(result)


def test_the_law_can_be_any_pdf(data):
    def law(x):
        return 1.1 * pf.toy_pdf(x)

    result = pf.closure_test(data, "hera", pdf=law, fits=1, replicas=2, seed=1, control=pf.fit_control(**QUICK))
    np.testing.assert_allclose(result.law_predictions, 1.1 * pf.predictions(data, "hera", "toy"))
    assert result.settings["law"] == "function"


def test_exact_data_are_fitted_exactly():
    # Level 0: no noise anywhere, every point in the training set; what remains is what the model cannot follow.
    exact = pf.closure_data("hera", "hera", "toy", level=0)
    control = pf.fit_control(epochs=1500, pseudodata=False, training_fraction=1.0)
    fit = pf.fit_pdf(exact, "hera", replicas=2, seed=1, control=control)
    assert fit.kept.all()
    assert fit.chi2().per_point < 0.05


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fits": 0}, "fits must be at least 1"),
        ({"replicas": 1}, "replicas must be at least 2"),
        ({"pdf": "tyo"}, "Did you mean 'toy'"),
        ({"control": {"epochs": 3}}, "fit_control"),
    ],
)
def test_wrong_settings_are_named_at_once(options, words):
    with pytest.raises(SettingError, match=words):
        pf.closure_test("hera", **options)
