"""Statistics of closure tests on fake fits whose bias and variance are known without any fit."""

import dataclasses

import numpy as np
import pytest
from partonfit._errors import StorageError
from partonfit.results import ClosureTest, load_closure
from partonfit.results._closure_statistics import (
    Measured,
    averages,
    directions,
    expected_inside,
    faithful,
    fit_statistics,
)

SIZES = (60, 40)


def gaussian_fits(fits, replicas, *, scale=1.0, rank=12, seed=0):
    """Return a closure test whose replicas are draws from a Gaussian around a shifted mean.

    Shifts have the covariance ``A A^T`` in whitened space, replicas around them the same divided by
    ``scale`` squared, so that sqrt(bias/variance) is ``scale`` by construction.
    """
    rng, sizes = np.random.default_rng(99), SIZES  # the experiment is the same for every seed
    n = sum(sizes)
    independent, correlated = rng.uniform(0.5, 2, n), rng.normal(size=(n, 3))
    factor = np.linalg.cholesky(correlated @ correlated.T + np.diag(independent**2))
    spread = factor @ (rng.normal(size=(n, rank)) / np.sqrt(rank))
    draw = np.random.default_rng(seed)
    law, law_xf = rng.normal(size=n), rng.normal(size=(2, 5))
    turn = rng.normal(size=(10, rank))
    shift = draw.normal(size=(fits, 1, rank))
    coordinates = shift + draw.normal(size=(fits, replicas, rank)) / scale
    return ClosureTest(
        settings={"law": "toy", "seed": seed, "fits": fits, "replicas": replicas}, provenance={"seconds": 1.0},
        datasets=("A", "B"), sizes=sizes, statuses=(("finished",) * replicas,) * fits,
        kept=np.ones((fits, replicas), dtype=bool), law_predictions=law,
        level1=law + draw.normal(size=(fits, n)) @ factor.T, predictions=law + coordinates @ spread.T,
        independent=independent, correlated=correlated,
        data_x=np.where(np.arange(n) < 70, 10 ** rng.uniform(-3, -1, n), np.nan), x=np.linspace(0.1, 0.5, 5),
        flavours=("g", "Sigma"), law_xf=law_xf, xf=law_xf + (coordinates @ turn.T).reshape(fits, replicas, 2, 5),
    )  # fmt: skip


def close(measured, value, sigmas=3.5):
    assert measured.error > 0
    assert abs(measured.value - value) < sigmas * measured.error, (measured, value)


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_ratio_and_xi_of_gaussian_fits_are_the_known_ones(scale):
    replicas = 200  # so many that their own finite number is no matter
    result = gaussian_fits(80, replicas, scale=scale)
    for kind, name in (("data", "all"), ("dataset", "A"), ("x", "1e-2 to 1e-1"), ("pdf", "g")):
        row = result.row(kind, name)
        close(row.averages.ratio, scale)
        close(row.averages.inside, expected_inside(scale))
        close(row.averages.expected, expected_inside(scale))
    close(result.rows[0].along, expected_inside(scale))
    assert result.rows[0].n_directions == 12
    assert result.ratio.error < 0.08


def test_bias_and_variance_are_those_of_the_definitions():
    result = gaussian_fits(4, 6, seed=3)
    covariance = result.correlated @ result.correlated.T + np.diag(result.independent**2)
    inverse = np.linalg.inv(covariance)
    for fit, values in enumerate(result.predictions):
        shift = values.mean(axis=0) - result.law_predictions
        assert result.bias[fit] == pytest.approx(shift @ inverse @ shift / 100)
        spread = [(g - values.mean(axis=0)) @ inverse @ (g - values.mean(axis=0)) / 100 for g in values]
        assert result.variance[fit] == pytest.approx(np.mean(spread))
        pull = values.mean(axis=0) - result.level1[fit]
        assert result.chi2[fit] == pytest.approx(pull @ inverse @ pull / 100)
    assert result.ratio.value == pytest.approx(np.sqrt(result.bias.mean() / result.variance.mean()))
    inside = [np.abs(v.mean(0) - result.law_predictions) < v.std(0) for v in result.predictions]
    assert result.xi.value == pytest.approx(np.mean(inside))
    # A dataset alone has its own block of the covariance.
    block = np.linalg.inv(covariance[60:, 60:])
    shifts = result.predictions.mean(axis=1)[:, 60:] - result.law_predictions[60:]
    expected = np.einsum("fd,de,fe->f", shifts, block, shifts).mean() / 40
    assert result.row("dataset", "B").averages.bias.value == pytest.approx(expected)


def test_few_replicas_shift_both_numbers_as_computed():
    for replicas in (3, 10):
        result = gaussian_fits(200, replicas, seed=5)
        ratio, inside = faithful(replicas)
        close(result.ratio, ratio)
        close(result.xi, inside)
        assert result.faithful == (ratio, inside)
    assert faithful(1e9) == pytest.approx((1, 0.682689), abs=1e-5)


def test_bootstrap_errors_are_the_scatter_of_repeated_experiments():
    rng = np.random.default_rng(0)
    experiments = [averages(gaussian_fits(25, 40, seed=seed)._by_fit, rng, 500) for seed in range(60)]
    for name in ("bias", "variance", "ratio", "inside", "expected"):
        found = [getattr(experiment, name) for experiment in experiments]
        scatter = np.std([m.value for m in found], ddof=1)
        typical = np.mean([m.error for m in found])
        # A standard deviation of 60 experiments is known to 9 %.
        assert 0.72 < typical / scatter < 1.3, name


def test_directions_span_what_varies_whichever_product_is_smaller():
    result = gaussian_fits(3, 30, rank=4)
    for sizes in (slice(0, 100), slice(0, 20)):
        residuals, _ = result._residuals(np.arange(100)[sizes])
        found = directions(residuals, result.kept, share=1 - 1e-9)
        assert found.shape == (residuals.shape[-1], 4)
        np.testing.assert_allclose(found.T @ found, np.eye(4), atol=1e-9)
        np.testing.assert_allclose(residuals @ found @ found.T, residuals, atol=1e-8)
    assert directions(np.zeros((2, 3, 5)), np.ones((2, 3), bool)).shape == (5, 0)


def test_replicas_left_out_do_not_count_and_are_counted():
    result = gaussian_fits(5, 8)
    kept, words = result.kept.copy(), [list(row) for row in result.statuses]
    predictions, xf = result.predictions.copy(), result.xf.copy()
    for fit, replica in ((0, 0), (2, 5), *((4, r) for r in range(7))):
        kept[fit, replica], words[fit][replica] = False, "diverged"
        predictions[fit, replica] = xf[fit, replica] = 1e6
    statuses = tuple(tuple(row) for row in words)
    changed = dataclasses.replace(result, kept=kept, statuses=statuses, predictions=predictions, xf=xf)
    assert changed.left_out == {"diverged": 9}
    assert changed.used.tolist() == [True] * 4 + [False]
    assert changed.bias[1] == result.bias[1]
    assert changed.bias[0] == pytest.approx(
        fit_statistics(result._residuals(np.arange(100))[0][:1, 1:], kept[:1, 1:]).bias[0]
    )
    assert np.isnan(changed.bias[4])
    assert 0.5 < changed.ratio.value < 2
    assert "left out: 9 diverged; 1 fits with fewer than 2 replicas do not count" in str(changed)
    assert np.isfinite(changed.to_dataframe()["xi"]).all()


def test_one_fit_of_two_replicas_works_and_says_what_is_undefined():
    result = gaussian_fits(1, 2)
    frame = result.to_dataframe()
    assert np.isfinite(frame[["bias", "variance", "ratio", "xi", "xi_expected", "xi_directions"]].to_numpy()).all()
    assert frame.filter(like="_error").isna().all(axis=None)
    assert "Errors are undefined with 1 usable fit(s)" in str(result)
    assert result.plot().axes
    nothing = dataclasses.replace(result, kept=np.zeros((1, 2), bool), statuses=(("diverged",) * 2,))
    assert "undefined" in str(nothing)
    assert nothing.to_dataframe()["ratio"].isna().all()
    assert nothing.plot().axes


def test_the_table_has_a_row_for_everything():
    frame = gaussian_fits(3, 4).to_dataframe()
    assert frame["kind"].tolist() == ["data", "dataset", "dataset", "x", "x", "pdf", "pdf", "pdf"]
    assert frame.set_index("name").loc[["A", "B", "1e-3 to 1e-2"], "n_data"].tolist()[:2] == [60, 40]
    assert frame.loc[frame["kind"] == "x", "n_data"].sum() == 70  # points without x are in no decade


def test_storage_keeps_everything_and_refuses_the_rest(tmp_path):
    result = gaussian_fits(2, 3)
    again = load_closure(result.save(tmp_path / "closure"))
    assert again.to_dataframe().equals(result.to_dataframe())
    assert str(again) == str(result)
    for field in dataclasses.fields(ClosureTest):
        np.testing.assert_array_equal(getattr(again, field.name), getattr(result, field.name))
    with pytest.raises(StorageError, match="exists already"):
        result.save(tmp_path / "closure")
    (tmp_path / "closure" / "closure.json").write_text('{"format": 9}')
    with pytest.raises(StorageError, match="format 9"):
        load_closure(tmp_path / "closure")
    (tmp_path / "closure" / "closure.npz").write_bytes(b"nothing")
    (tmp_path / "closure" / "closure.json").write_text('{"format": 1}')
    with pytest.raises(StorageError, match="no complete closure test"):
        load_closure(tmp_path / "closure")


def test_numbers_print_with_their_errors():
    assert [str(Measured(1.02345, 0.05)), str(Measured(0.5, np.nan)), str(Measured(np.nan, np.nan))] == [
        "1.023 +- 0.050", "0.500", "undefined",
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    one = averages(fit_statistics(rng.normal(size=(1, 4, 9)), np.ones((1, 4), bool)), rng)
    assert np.isnan(one.ratio.error)
