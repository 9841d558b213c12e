"""Pseudodata and splits: distribution, and independence from whatever else is in the fit."""

import numpy as np
import pytest
from fakes import fake_data, fake_dataset
from hypothesis import given
from hypothesis import strategies as st
from partonfit._errors import DataError, SettingError
from partonfit._seeds import stream
from partonfit.data import load_data, pseudodata, split_masks, split_modes
from partonfit.data._covariance import eigenmodes
from partonfit.data._record import INDEPENDENT
from partonfit.data._split import n_training
from scipy.linalg import solve_triangular

SOURCES = [("ADD", "UNCORR"), ("ADD", "CORR"), ("MULT", "LUMI"), ("MULT", "UNCORR")]


@pytest.fixture(scope="module")
def data():
    return fake_data(
        fake_dataset("ONE_NC_1GEV_F2", 5, sources=SOURCES),
        fake_dataset("TWO_NC_1GEV_F2", 3, seed=1, sources=[("ADD", "LUMI"), ("MULT", "CORR")]),
        fake_dataset("SOLO_NC_1GEV_F2", 1, seed=2),
    )


def replicas(data, n, **options):
    return np.stack(
        [pseudodata(data, rng=lambda *names, k=k: stream(1, "replica", k, *names), **options) for k in range(n)]
    )


@pytest.mark.parametrize("way", ["sources", "covariance"])
def test_mean_and_covariance_are_those_asked_for(data, way):
    n = 4000
    matrix = data.covariance()
    drawn = replicas(data, n, covariance=matrix if way == "covariance" else None) - data.values
    sigma = np.sqrt(np.diag(matrix))
    assert np.abs(drawn.mean(axis=0) / sigma).max() < 4.5 / np.sqrt(n)
    difference = (np.cov(drawn.T) - matrix) / np.outer(sigma, sigma)
    assert np.abs(difference).max() < 5 * np.sqrt(2 / n)


def test_independent_datasets_are_uncorrelated(data):
    drawn = replicas(data.select(["ONE_NC_1GEV_F2", "SOLO_NC_1GEV_F2"]), 4000)
    cross = np.corrcoef(drawn.T)[:5, 5]
    assert np.abs(cross).max() < 4.5 / np.sqrt(4000)


@pytest.mark.parametrize("separate", [False, True])
def test_a_dataset_gets_the_same_numbers_whoever_else_is_there(data, separate):
    alone = pseudodata(data.select("TWO_NC_1GEV_F2"), rng=3, separate_multiplicative=separate)
    together = pseudodata(data, rng=3, separate_multiplicative=separate)
    backwards = data.select(reversed(data.names))
    np.testing.assert_allclose(together[data.slices["TWO_NC_1GEV_F2"]], alone, rtol=1e-14)
    np.testing.assert_allclose(
        pseudodata(backwards, rng=3, separate_multiplicative=separate)[backwards.slices["TWO_NC_1GEV_F2"]],
        alone,
        rtol=1e-14,
    )


def test_order_does_not_matter_with_a_given_covariance(data):
    backwards = data.select(reversed(data.names))
    one = data.by_dataset(pseudodata(data, data.covariance(), 3))
    other = backwards.by_dataset(pseudodata(backwards, backwards.covariance(), 3))
    for name in data.names:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-13)


def test_shared_source_moves_both_datasets():
    sets = [fake_dataset(f"{n}_NC_1GEV_F2", 2, sources=[("ADD", "LUMI")]) for n in ("A", "B")]
    drawn = replicas(fake_data(*sets), 2000)
    expected = fake_data(*sets).covariance()[0, 2] / fake_data(*sets).covariance()[0, 0]
    assert np.corrcoef(drawn[:, 0], drawn[:, 2])[0, 1] == pytest.approx(expected, abs=0.1)


def test_separate_multiplicative_sources_act_as_factors():
    one = fake_data(fake_dataset("A_NC_1GEV_F2", 4, sources=[("MULT", "LUMI"), ("MULT", "UNCORR")]))
    drawn = replicas(one, 4000, separate_multiplicative=True)
    sigma = np.sqrt(np.diag(one.covariance()))
    assert np.abs((drawn.mean(axis=0) - one.values) / sigma).max() < 4.5 / np.sqrt(4000)
    np.testing.assert_allclose(drawn.std(axis=0), sigma, rtol=0.05)
    only_additive = fake_data(fake_dataset("A_NC_1GEV_F2", 4, sources=[("ADD", "LUMI")]))
    np.testing.assert_allclose(
        pseudodata(only_additive, rng=1, separate_multiplicative=True), pseudodata(only_additive, rng=1), rtol=1e-14
    )


def test_t0_scales_multiplicative_noise():
    one = fake_data(fake_dataset("A_NC_1GEV_F2", 4, sources=[("MULT", "LUMI")]))
    plain = pseudodata(one, rng=1) - one.values
    still = pseudodata(one, rng=1, t0=np.zeros(4)) - one.values
    np.testing.assert_allclose(pseudodata(one, rng=1, t0=3 * one.values) - one.values, still + 3 * (plain - still))


def test_redrawing_negative_points_ends_and_names_the_dataset():
    one = fake_data(fake_dataset("LOW_NC_1GEV_F2", 4, seed=3))
    low = one.with_values(np.full(4, -0.9))
    with pytest.raises(DataError, match="LOW_NC_1GEV_F2 stay negative after 3"):
        pseudodata(low, rng=1, positive_tries=3)
    assert (pseudodata(low, rng=1) < 0).all()
    assert (pseudodata(one.with_values(np.full(4, 0.05)), rng=1, positive_tries=1000) >= 0).all()


def test_another_seed_gives_other_numbers():
    data = load_data("hera")
    assert (pseudodata(data, rng=1) == pseudodata(data, rng=1)).all()
    assert (pseudodata(data, rng=1) != pseudodata(data, rng=2)).all()
    with pytest.raises(SettingError, match="whole number"):
        pseudodata(data, rng=1.5)
    with pytest.raises(DataError, match="shape"):
        pseudodata(data, np.eye(3), rng=1)


# ---- splits -----------------------------------------------------------------------------------------


@given(st.integers(1, 2000), st.floats(0.01, 1))
def test_number_of_training_points(n, fraction):
    chosen = n_training(n, fraction)
    assert 0 <= chosen <= n
    assert n == 1 or abs(chosen - fraction * n) <= 1
    assert n_training(n, 1.0) == n


def test_split_is_per_dataset_and_independent_of_the_others():
    data = load_data("hera")
    mask = split_masks(data, 5)
    for dataset in data.datasets:
        rows = data.slices[dataset.name]
        assert mask[rows].sum() == int(0.75 * dataset.n_data)
        np.testing.assert_array_equal(split_masks(data.select(dataset.name), 5), mask[rows])
    other = data.select(reversed(data.names))
    np.testing.assert_array_equal(split_masks(other, 5)[other.slices[data.names[0]]], mask[data.slices[data.names[0]]])
    assert (split_masks(data, 6) != mask).any()


def test_one_point_always_trains_and_frac_of_a_dataset_comes_first():
    data = fake_data(fake_dataset("A_NC_1GEV_F2", 1), fake_dataset("B_NC_1GEV_F2", 8, frac=0.5))
    for seed in range(20):
        mask = split_masks(data, seed)
        assert mask[0]
        assert mask[1:].sum() == 4


@pytest.mark.parametrize("fraction", [0, -0.5, 1.5, float("nan"), "0.75", True])
def test_bad_fraction(fraction):
    with pytest.raises(SettingError, match="training fraction"):
        split_masks(fake_data(fake_dataset()), 1, fraction=fraction)


@given(st.permutations([0, 1, 2]), st.floats(0.1, 0.9))
def test_split_of_eigenmodes_does_not_know_the_order_of_the_datasets(order, fraction):
    sets = [fake_dataset(f"{n}_NC_1GEV_F2", k, seed=k, sources=SOURCES) for n, k in (("A", 5), ("B", 4), ("C", 3))]
    data, other = fake_data(*sets), fake_data(*(sets[i] for i in order))
    mask = split_modes(data, 3, fraction=fraction)
    np.testing.assert_array_equal(mask, split_modes(other, 3, fraction=fraction))
    assert mask.sum() == int(fraction * 12 + 1e-9)
    place = [data.labels.index(label) for label in other.labels]
    residuals = np.random.default_rng(1).normal(size=12)
    halves = [
        np.sum((eigenmodes(d.covariance(), d.order)[mask] @ r) ** 2)
        for d, r in ((data, residuals), (other, residuals[place]))
    ]
    assert halves[0] == pytest.approx(halves[1], rel=1e-9)


def test_eigenmodes_whiten_and_their_chi2_adds_up():
    data = load_data("hera").select(["HERA_CC_318GEV_EM-SIGMARED", "HERA_NC_300GEV_EP-SIGMARED"])
    covariance = data.covariance()
    modes = eigenmodes(covariance, data.order)
    np.testing.assert_allclose(modes @ covariance @ modes.T, np.eye(data.n_data), atol=1e-9)
    residual = np.random.default_rng(1).normal(size=data.n_data) * np.sqrt(np.diag(covariance))
    mask = split_modes(data, 1)
    chi2 = [np.sum((modes[rows] @ residual) ** 2) for rows in (mask, ~mask)]
    assert sum(chi2) == pytest.approx(residual @ np.linalg.solve(covariance, residual), rel=1e-9)
    sigma = np.sqrt(np.diag(covariance))
    widths = 1 / np.linalg.norm(modes * sigma, axis=1) ** 2  # eigenvalues of the correlation matrix
    assert (np.diff(widths) > -1e-9).all()


def covariance_of_factors(data):
    """Return the exact covariance of (values + additive) * prod(1 + delta), from second moments of its parts."""
    zero, one = data.sources(np.zeros(data.n_data)), data.sources(np.ones(data.n_data))
    relative = one.correlated - zero.correlated
    product = np.ones((data.n_data, data.n_data))
    for column in relative.T[np.abs(relative).max(axis=0) > 0]:
        product *= 1 + np.outer(column, column)
    for dataset in data.datasets:
        own = [k for k, kind in enumerate(dataset.systematics.percent_types) if kind in INDEPENDENT]
        rows = np.arange(data.n_data)[data.slices[dataset.name]]
        product[rows, rows] *= np.prod(1 + (dataset.systematics.percent[:, own] / 100) ** 2, axis=1)
    square = np.outer(data.values, data.values)
    additive = zero.correlated @ zero.correlated.T + np.diag(zero.independent**2)
    return (square + additive) * product - square


@pytest.mark.parametrize("separate", [False, True])
def test_ten_thousand_samples_of_hera_have_its_mean_and_covariance(separate):
    """Whitened, they are independent standard numbers: each sum below has a known distribution."""
    data, n = load_data("hera"), 10_000
    drawn = replicas(data, n, separate_multiplicative=separate) - data.values
    factor = np.linalg.cholesky(covariance_of_factors(data) if separate else data.covariance())
    white = solve_triangular(factor, drawn.T, lower=True, check_finite=False)
    k = data.n_data
    mean2 = n * np.sum(white.mean(axis=1) ** 2)
    assert abs(mean2 - k) < 4.5 * np.sqrt(2 * k)
    sample = np.cov(white)
    off = sample[np.triu_indices(k, 1)] * np.sqrt(n)
    spread = (np.diag(sample) - 1) * np.sqrt(n / 2)
    assert np.abs(off).max() < 5.5
    assert np.abs(spread).max() < 5.5
    assert off.std() == pytest.approx(1, abs=0.01)


def test_datasets_without_a_common_source_are_uncorrelated_in_ten_thousand_samples():
    sets = [
        fake_dataset(f"{n}_NC_1GEV_F2", 6, seed=k, sources=[("ADD", "CORR"), ("MULT", n), ("MULT", "UNCORR")])
        for k, n in enumerate("AB")
    ]
    data, n = fake_data(*sets), 10_000
    for options in ({}, {"separate_multiplicative": True}, {"covariance": data.covariance()}):
        cross = np.corrcoef(replicas(data, n, **options).T)[:6, 6:] * np.sqrt(n)
        assert np.abs(cross).max() < 4.5
        assert np.sum(cross**2) < 36 + 4.5 * np.sqrt(2 * 36)
