"""fit_pdf on the embedded data: small fits, what they hold, and what goes wrong."""

import numpy as np
import partonfit as pf
import pytest
from partonfit._vocabulary import EVOLUTION, FITTED

QUICK = {"epochs": 300, "threshold_chi2": None}


@pytest.fixture(scope="module")
def fit():
    return pf.fit_pdf("hera", replicas=6, seed=1, control=pf.fit_control(**QUICK))


def test_a_short_fit_describes_the_data(fit):
    table = fit.chi2()
    assert table.covariance == "experimental"
    assert table.n_total == fit.data.n_data == 1145
    assert 0.9 < table.per_point < 1.6
    assert fit.kept.all()


def test_predictions_have_named_axes(fit):
    x = np.geomspace(1e-4, 0.8, 5)
    result = fit.predict(x, flavour=["g", "u_v"])
    assert result.flavour == ("g", "u_v")
    assert result.replicas.shape == (6, 2, 5)
    for part in (result.mean, result.sd, result.lower, result.upper):
        assert part.shape == (2, 5)
    assert (result.lower <= result.upper).all()
    np.testing.assert_allclose(result.mean, result.replicas.mean(axis=0))
    frame = result.to_dataframe()
    assert list(frame) == ["flavour", "x", "Q", "mean", "sd", "lower", "upper"]
    assert len(frame) == 10
    assert result.to_xarray().dims == ("replica", "flavour", "x")
    assert fit.to_xarray().sizes == {"replica": 6, "flavour": 14, "x": 100, "data": 1145}


def test_a_fit_is_a_pdf(fit):
    x = np.geomspace(1e-4, 1, 9)
    assert fit(x).shape == (14, 9)
    np.testing.assert_allclose(fit(x), fit.predict(x, basis="evolution").mean, rtol=1e-12)
    assert (fit(x)[:, -1] == 0).all()
    again = pf.chi2(fit.data, fit.forward, fit)
    assert again.total == pytest.approx(fit.chi2().total, rel=1e-12)


def test_sum_rules_hold_for_every_replica(fit):
    x, w = pf.models.quadrature(200)
    xf = fit.xf(x)
    index = {name: EVOLUTION.index(name) for name in FITTED}
    momentum = ((xf[:, index["Sigma"]] + xf[:, index["g"]]) * w).sum(axis=1)
    np.testing.assert_allclose(momentum, 1, atol=2e-5)
    for name, value in {"V": 3, "V3": 1, "V8": 3}.items():
        np.testing.assert_allclose((xf[:, index[name]] * w / x).sum(axis=1), value, atol=1e-4)


def test_replicas_do_not_depend_on_how_many_there_are(fit):
    fewer = pf.fit_pdf("hera", replicas=2, seed=1, control=pf.fit_control(**QUICK))
    x = np.geomspace(1e-5, 0.9, 20)
    np.testing.assert_array_equal(fewer.xf(x, kept_only=False), fit.xf(x, kept_only=False)[:2])
    np.testing.assert_array_equal(fewer.replica_data, fit.replica_data[:2])
    np.testing.assert_array_equal(fewer.training_mask, fit.training_mask[:2])


def test_another_seed_is_another_fit(fit):
    other = pf.fit_pdf("hera", replicas=1, seed=2, control=pf.fit_control(epochs=20, threshold_chi2=None))
    assert not np.array_equal(other.replica_data[0], fit.replica_data[0])
    drawn = pf.fit_pdf("hera", replicas=1, control=pf.fit_control(epochs=1, threshold_chi2=None))
    assert 0 <= drawn.settings["seed"] < 2**31


def test_splits_differ_between_replicas_and_take_three_quarters(fit):
    assert not np.array_equal(fit.training_mask[0], fit.training_mask[1])
    for name, part in fit.data.slices.items():
        size = part.stop - part.start
        assert (fit.training_mask[:, part].sum(axis=1) == int(0.75 * size)).all(), name


def test_saved_and_loaded_fit_is_the_same(fit, tmp_path):
    fit.save(tmp_path / "fit")
    again = pf.load_fit(tmp_path / "fit")
    x = np.geomspace(1e-4, 0.9, 7)
    np.testing.assert_array_equal(again.xf(x), fit.xf(x))
    assert again.statuses == fit.statuses
    assert again.settings == fit.settings
    assert again.chi2().total == fit.chi2().total
    np.testing.assert_array_equal(again.history["validation"], fit.history["validation"])
    with pytest.raises(pf.StorageError, match="exists already"):
        fit.save(tmp_path / "fit")
    fit.save(tmp_path / "fit", overwrite=True)


def test_a_closure_fit_finds_its_fake_data_again(tmp_path):
    fake = pf.closure_data("hera", "hera", "toy")
    control = pf.fit_control(**{**QUICK, "epochs": 30}, pseudodata=False)
    fit = pf.fit_pdf(fake, "hera", replicas=1, seed=1, control=control)
    fit.save(tmp_path / "closure")
    np.testing.assert_array_equal(pf.load_fit(tmp_path / "closure").data.values, fake.values)


@pytest.mark.parametrize("damage", ["missing", "truncated", "not json", "future"])
def test_damaged_fits_are_clear_errors(fit, tmp_path, damage):
    folder = fit.save(tmp_path / "fit")
    description, arrays = folder / "fit.json", folder / "arrays.npz"
    if damage == "missing":
        arrays.unlink()
    elif damage == "truncated":
        arrays.write_bytes(arrays.read_bytes()[:1000])
    elif damage == "not json":
        description.write_text("{")
    else:
        description.write_text(description.read_text().replace('"format": 1', '"format": 99'))
    with pytest.raises(pf.StorageError, match=r"arrays.npz is missing|not a complete|format 99"):
        pf.load_fit(folder)


def test_interrupted_fit_gives_the_best_so_far():
    def stop(step, total, metrics):
        if step >= 500:
            assert metrics["training"] > 0
            raise KeyboardInterrupt

    control = pf.fit_control(epochs=100_000, threshold_chi2=None)
    fit = pf.fit_pdf("hera", replicas=2, seed=1, control=control, progress=stop)
    assert {s.status for s in fit.statuses} <= {"interrupted", "vetoed"}
    assert fit.chi2().per_point < 3


def test_replicas_that_never_pass_are_not_kept():
    fit = pf.fit_pdf("hera", replicas=2, seed=1, control=pf.fit_control(epochs=20, threshold_chi2=1e-3))
    assert [s.status for s in fit.statuses] == ["never_passed"] * 2
    assert not fit.kept.any()
    with pytest.raises(pf.FitError, match="No replica was kept"):
        fit.predict(0.1)


def test_float64_agrees_with_float32_at_first():
    common = {"epochs": 40, "threshold_chi2": None}
    fits = [
        pf.fit_pdf("hera", replicas=1, seed=1, control=pf.fit_control(**common, precision=p))
        for p in ("float32", "float64")
    ]
    x = np.geomspace(1e-4, 0.8, 20)
    np.testing.assert_allclose(fits[0](x), fits[1](x), atol=2e-3)
    assert fits[1].weights.trainable[0].dtype == np.float64
    assert fits[1].provenance["precision"] == "float64"


def test_provenance_says_what_was_used(fit):
    assert fit.provenance["compression"]["error_per_point"] < 1e-6
    assert fit.provenance["versions"]["keras"]
    assert len(fit.provenance["data_hash"]) >= 32
    assert fit.settings["control"]["epochs"] == 300
    assert fit.settings["t0"] == "toy"
    assert fit.settings["model"]["widths"] == [2, 25, 20, 8]


def test_experimental_covariance_on_request():
    control = pf.fit_control(epochs=5, threshold_chi2=None)
    fit = pf.fit_pdf("hera", replicas=1, seed=1, t0=None, control=control)
    assert fit.provenance["t0_predictions"] is None
    with pytest.raises(pf.SettingError, match="no t0 predictions"):
        fit.chi2("t0")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"replicas": 0}, pf.SettingError, "replicas must be at least 1"),
        ({"replicas": 2.0}, pf.SettingError, "replicas must be a whole number"),
        ({"seed": 1.5}, pf.SettingError, "seed must be a whole number"),
        ({"seed": -1}, pf.SettingError, "seed must be at least 0"),
        ({"data": "herra"}, pf.DataError, "hera"),
        ({"theory": "/no/such/folder"}, pf.TheoryError, "does not exist"),
        ({"control": {"epochs": 3}}, pf.SettingError, "fit_control"),
        ({"t0": "tiy"}, pf.SettingError, "Did you mean 'toy'"),
    ],
)
def test_bad_arguments_are_refused_before_slow_work(arguments, error, message):
    with pytest.raises(error, match=message):
        pf.fit_pdf(**({"data": "hera"} | arguments))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"epoch": 3}, "Did you mean 'epochs'"),
        ({"patience": 0}, "patience must be above 0"),
        ({"learning_rate": "fast"}, "learning_rate must be a number"),
        ({"training_fraction": 1.2}, "training_fraction must be above 0 and at most 1"),
        ({"precision": "float16"}, "precision must be one of"),
        ({"optimizer": "Nadamm"}, "Did you mean 'Nadam'"),
        ({"pseudodata": 1}, "pseudodata must be True or False"),
    ],
)
def test_bad_settings_are_named(setting, message):
    with pytest.raises(pf.SettingError, match=message):
        pf.fit_control(**setting)


@pytest.mark.slow
def test_closure_at_level_0():
    """Data made exactly from a fit are fitted to chi2 per point < 0.01, with the input inside the band.

    The input is itself a fit, so that it lies in the space the model spans: the known toy PDF has a
    T8 that grows at small x faster than its preprocessing range allows and that HERA does not see.
    """
    law = pf.fit_pdf("hera", replicas=8, seed=7, control=pf.fit_control(epochs=2000))
    fake = pf.closure_data("hera", "hera", law, level=0)
    control = pf.fit_control(epochs=8000, pseudodata=False, threshold_chi2=None)
    fit = pf.fit_pdf(fake, "hera", replicas=20, seed=1, control=control)
    assert fit.chi2().per_point < 0.01
    x = np.geomspace(1e-4, 0.7, 30)
    result = fit.predict(x, flavour=list(FITTED))
    truth = law(x)[[EVOLUTION.index(name) for name in FITTED]]
    assert (np.abs(truth - result.mean) < 2 * result.sd).mean() > 0.95
    inside = (truth >= result.replicas.min(axis=0)) & (truth <= result.replicas.max(axis=0))
    assert inside.mean() > 0.95


def test_memory_is_estimated_before_the_start(monkeypatch):
    """nnpdf 1541: too much for this machine is said at once, not by the system killing the process."""
    from partonfit import _memory

    there = _memory.available()
    assert there is None or 0 < there < 2**50
    needs = []
    monkeypatch.setattr(_memory, "available", lambda: needs.append(True) or 10_000_000)
    control = pf.fit_control(epochs=2, threshold_chi2=None)
    with pytest.raises(pf.FitError, match=r"100 replicas need about 0\.\d GB of memory and 0\.0 GB are free"):
        pf.fit_pdf("hera", replicas=100, seed=1, control=control, progress=lambda *_: pytest.fail("training began"))
    assert needs
