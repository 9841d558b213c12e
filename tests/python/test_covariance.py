"""Covariance algebra: what it is made of, that it is positive, and that order does not matter."""

import numpy as np
import pytest
from fakes import fake_data, fake_dataset, fake_record
from hypothesis import given, settings
from hypothesis import strategies as st
from partonfit._errors import DataError, SettingError
from partonfit.data import load_data
from partonfit.data._dataset import build_dataset
from partonfit.data._entries import Entry

TREATMENTS = st.sampled_from(["ADD", "MULT"])
SHARED = st.sampled_from(["LUMI", "SCALE", "TRIGGER"])
SPECIAL = st.sampled_from(["UNCORR", "CORR", "THEORYUNCORR", "THEORYCORR", "SKIP"])


@st.composite
def datasets(draw):
    """One to four datasets with any mixture of sources."""
    result = []
    for i in range(draw(st.integers(1, 4))):
        special = draw(st.lists(st.tuples(TREATMENTS, SPECIAL), max_size=4))
        shared = draw(st.lists(st.tuples(TREATMENTS, SHARED), max_size=3, unique_by=lambda s: s[1]))
        n = draw(st.integers(1, 5))
        result.append(fake_dataset(f"SET{i}_NC_1GEV_F2", n, seed=draw(st.integers(0, 9)), sources=special + shared))
    return result


@settings(max_examples=60, deadline=None)
@given(datasets(), st.booleans())
def test_symmetric_and_positive(sets, use_t0):
    data = fake_data(*sets)
    t0 = data.values * 1.1 if use_t0 else None
    matrix = data.covariance(t0)
    np.testing.assert_array_equal(matrix, matrix.T)
    sigma = np.sqrt(np.diag(matrix))
    assert np.linalg.eigvalsh(matrix / np.outer(sigma, sigma))[0] > 0
    factor = data.cholesky(matrix)
    np.testing.assert_allclose(factor @ factor.T, matrix, rtol=1e-12, atol=1e-15)


@settings(max_examples=60, deadline=None)
@given(datasets(), st.randoms(use_true_random=False))
def test_permuting_datasets_changes_nothing(sets, random):
    data = fake_data(*sets)
    shuffled = list(sets)
    random.shuffle(shuffled)
    other = fake_data(*shuffled)
    assert other.hash == data.hash
    order = np.concatenate([np.arange(data.n_data)[data.slices[name]] for name in other.names])
    np.testing.assert_allclose(other.covariance(), data.covariance()[np.ix_(order, order)], rtol=1e-14, atol=0)
    np.testing.assert_array_equal(other.values, data.values[order])
    assert [data.labels[i] for i in order] == list(other.labels)


@settings(max_examples=30, deadline=None)
@given(datasets())
def test_a_subset_is_a_block(sets):
    data = fake_data(*sets)
    for name, rows in data.slices.items():
        np.testing.assert_allclose(data.select(name).covariance(), data.covariance()[rows, rows], rtol=1e-14)


@settings(max_examples=30, deadline=None)
@given(datasets(), st.floats(0.1, 10))
def test_additive_part_ignores_t0_and_multiplicative_part_scales(sets, factor):
    data = fake_data(*sets)
    zero = data.covariance(np.zeros(data.n_data))
    one, scaled = data.covariance(data.values) - zero, data.covariance(factor * data.values) - zero
    if not any(set(s.systematics.percent_types) & {"LUMI", "SCALE", "TRIGGER"} for s in sets):
        np.testing.assert_allclose(scaled, factor**2 * one, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(data.covariance(data.values), data.covariance(), rtol=1e-13)


def test_each_type_acts_as_it_should():
    sources = [("ADD", "UNCORR"), ("ADD", "CORR"), ("MULT", "CORR"), ("MULT", "LUMI"), ("ADD", "SKIP")]
    records = [
        fake_record("ONE_NC_1GEV_F2", 3, sources=sources),
        fake_record("TWO_NC_1GEV_F2", 2, seed=1, sources=[("ADD", "LUMI"), ("ADD", "CORR")]),
    ]
    one, other = (build_dataset(record, Entry(record.name), []) for record in records)
    raw, raw2 = records[0].errors, records[1].errors
    matrix = fake_data(one, other).covariance()
    expected = np.diag(raw[:, 0] ** 2 + raw[:, 1] ** 2) + sum(np.outer(raw[:, j], raw[:, j]) for j in (2, 3, 4))
    np.testing.assert_allclose(matrix[:3, :3], expected, rtol=1e-14)
    np.testing.assert_allclose(matrix[:3, 3:], np.outer(raw[:, 4], raw2[:, 1]), rtol=1e-14)  # only LUMI is shared
    np.testing.assert_allclose(np.sqrt(np.diag(matrix))[:3], one.total_error, rtol=1e-14)
    np.testing.assert_allclose(one.uncorrelated_error, np.hypot(raw[:, 0], raw[:, 1]), rtol=1e-14)


def test_t0_replaces_the_data_in_multiplicative_sources():
    one = fake_dataset("ONE_NC_1GEV_F2", 3, sources=[("MULT", "LUMI")])
    data, t0 = fake_data(one), np.array([1.0, 2.0, 3.0])
    column = one.systematics.percent[:, 0] / 100 * t0
    np.testing.assert_allclose(data.covariance(t0), np.diag(one.stat**2) + np.outer(column, column), rtol=1e-14)


def test_weight_divides_the_covariance():
    plain, light = fake_dataset("A_NC_1GEV_F2", 3), fake_dataset("A_NC_1GEV_F2", 3, weight=4.0)
    np.testing.assert_allclose(fake_data(light).covariance(), fake_data(plain).covariance() / 4, rtol=1e-14)


def test_singular_covariance_names_the_dataset_and_the_eigenvalue():
    record = fake_record("BAD_NC_1GEV_F2", 3, sources=[("ADD", "CORR")])
    record.errors[:, 0] = 0
    data = fake_data(fake_dataset("GOOD_NC_1GEV_F2"), build_dataset(record, Entry(record.name), []))
    with pytest.raises(DataError, match=r"BAD_NC_1GEV_F2 is singular: the smallest eigenvalue .* is -?\d"):
        data.cholesky(data.covariance())
    floored = data.covariance(floor=1e-3)
    data.cholesky(floored)
    sigma = np.sqrt(np.diag(data.covariance()))
    np.testing.assert_allclose(np.sqrt(np.diag(floored)) / sigma, 1, rtol=2e-3)


def test_point_without_uncertainty_is_named():
    record = fake_record("BAD_NC_1GEV_F2", 3)
    record.errors[1, 0] = 0
    data = fake_data(build_dataset(record, Entry(record.name), []))
    with pytest.raises(DataError, match="BAD_NC_1GEV_F2 is singular: point 1 has no uncertainty"):
        data.cholesky(data.covariance())


def test_singular_only_together():
    sets = []
    for name in ("ONE_NC_1GEV_F2", "TWO_NC_1GEV_F2"):
        record = fake_record(name, 1, sources=[("ADD", "LUMI")])
        record.errors[:, 0] = 0
        sets.append(build_dataset(record, Entry(name), []))
    data = fake_data(*sets)
    with pytest.raises(DataError, match="ONE_NC_1GEV_F2, TWO_NC_1GEV_F2 together is singular"):
        data.cholesky(data.covariance())


def test_floor_of_zero_changes_nothing():
    data = fake_data(fake_dataset(sources=[("MULT", "CORR")]))
    np.testing.assert_allclose(data.covariance(floor=1e-14), data.covariance(), rtol=1e-12, atol=1e-15)
    with pytest.raises(SettingError, match="floor"):
        data.covariance(floor=2)


@pytest.mark.parametrize("bad", [np.ones(3), np.ones((6, 1)), np.array([1, 2, np.nan, 4, 5, 6.0])])
def test_bad_t0(bad):
    data = fake_data(fake_dataset())
    with pytest.raises(DataError, match=r"t0 predictions|index 2"):
        data.covariance(bad)


def test_shared_source_listed_twice_is_refused():
    with pytest.raises(DataError, match="'LUMI' twice"):
        fake_dataset(sources=[("ADD", "LUMI"), ("MULT", "LUMI")])


def test_percentage_of_zero_is_refused():
    record = fake_record(sources=[("MULT", "CORR")])
    record.values[2] = 0.0
    with pytest.raises(DataError, match="value of zero at index 2"):
        build_dataset(record, Entry(record.name), [])


def test_arrays_cannot_be_changed_by_accident():
    data = load_data("hera")
    with pytest.raises(ValueError, match="read-only"):
        data.datasets[0].values[0] = 3
    assert data.with_values(data.values * 2).hash != data.hash
    with pytest.raises(DataError, match="Did you mean"):
        data["HERA_CC_318GEV_EM-SIGMARD"]
