"""Estimates of states: against the Gaussian solution on paper, through every kind of operator."""

import sys

import numpy as np
import partonfit as pf
import pytest
from operator_examples import N_OBS, N_STATE, tanh_operator


def problem(n_state=6, n_obs=4):
    """A linear problem with full covariances, and its posterior by linear algebra."""
    rng = np.random.default_rng(1)
    h, b = rng.normal(size=(n_obs, n_state)), rng.normal(size=n_state)
    covariances = []
    for n in (n_state, n_obs):
        a = rng.normal(size=(n, n))
        covariances.append(a @ a.T / n + 0.3 * np.eye(n))
    B, R = covariances
    y = rng.normal(size=n_obs)
    gain = B @ h.T @ np.linalg.inv(h @ B @ h.T + R)
    return h, y, R, b, B, b + gain @ (y - h @ b), (np.eye(n_state) - gain @ h) @ B


@pytest.mark.parametrize(
    ("minimiser", "kind"), [("optax", "operator"), ("scipy", "matrix"), ("scipy", "operator"), ("scipy", "wrapped")]
)
def test_the_gaussian_solution(minimiser, kind):
    h, y, R, b, B, mean, _ = problem()
    op = {"matrix": h, "operator": pf.matrix_operator(h), "wrapped": pf.wrap_operator(pf.matrix_operator(h))}[kind]
    fit = pf.fit_state(op, y, R, prior_mean=b, prior_covariance=B, minimiser=minimiser, tolerance=1e-9)
    np.testing.assert_allclose(fit.state, mean, atol=1e-7)
    np.testing.assert_allclose(fit.observations, h @ mean, atol=1e-7)
    gap = y - h @ b
    assert fit.cost == pytest.approx(0.5 * gap @ np.linalg.solve(h @ B @ h.T + R, gap))
    assert fit.converged.all()
    assert np.isnan(fit.sd).all()


def test_ensemble_has_the_posterior_covariance():
    h, y, R, b, B, mean, covariance = problem()
    fit = pf.fit_state(h, y, R, prior_mean=b, prior_covariance=B, members=400, seed=2)
    assert fit.members.shape == (400, 6)
    sd = np.sqrt(np.diag(covariance))
    # 400 draws: means to 5 sd / sqrt(400), standard deviations to 5 / sqrt(6000).
    np.testing.assert_array_less(np.abs(fit.members.mean(axis=0) - mean), 5 * sd / np.sqrt(400))
    np.testing.assert_allclose(fit.sd, sd, rtol=5 / np.sqrt(6000))
    np.testing.assert_allclose(np.cov(fit.members.T), covariance, atol=0.3 * sd.max() ** 2)


def test_forms_of_a_covariance_are_one():
    h, y, _, b, _, _, _ = problem()
    rest = {"prior_mean": b, "minimiser": "scipy", "tolerance": 1e-9}
    number = pf.fit_state(h, y, 0.5, prior_covariance=2.0, **rest)
    vector = pf.fit_state(h, y, np.full(4, 0.5), prior_covariance=np.full(6, 2.0), **rest)
    matrix = pf.fit_state(h, y, 0.5 * np.eye(4), prior_covariance=2 * np.eye(6), **rest)
    factor = pf.fit_state(h, y, 0.5, prior_factor=np.sqrt(2) * np.eye(6), **rest)
    for other in (vector, matrix, factor):
        np.testing.assert_allclose(other.state, number.state, atol=1e-8)


def test_a_prior_factor_of_low_rank_stays_in_its_span():
    h, y, R, b, _, _, _ = problem()
    left = np.random.default_rng(3).normal(size=(6, 2))
    fit = pf.fit_state(h, y, R, prior_mean=b, prior_factor=left, minimiser="scipy", tolerance=1e-9)
    gain = left @ left.T @ h.T @ np.linalg.inv(h @ left @ left.T @ h.T + R)
    np.testing.assert_allclose(fit.state, b + gain @ (y - h @ b), atol=1e-7)


def test_nonlinear_operator_both_minimisers_and_its_calls():
    truth = np.random.default_rng(4).normal(size=N_STATE)
    op = tanh_operator()
    rest = {"prior_mean": np.zeros(N_STATE), "prior_covariance": 1.0, "tolerance": 1e-8}
    one = pf.fit_state(op, op.forward(truth), 1e-3, **rest)
    other = pf.fit_state(op, op.forward(truth), 1e-3, minimiser="scipy", **rest)
    np.testing.assert_allclose(one.state, other.state, atol=1e-5)
    assert 0 < one.calls["adjoint"] < 10 * one.iterations[0]
    assert one.chi2 < 1


def test_a_member_is_the_same_in_any_company():
    op = tanh_operator()
    few, many = (
        pf.fit_state(
            op, np.zeros(N_OBS), 0.1, prior_mean=np.zeros(N_STATE), prior_covariance=1.0, members=n, seed=1,
            minimiser="scipy",
        )
        for n in (2, 4)
    )  # fmt: skip
    np.testing.assert_allclose(few.members[0], many.members[0], atol=1e-12)
    assert np.isfinite(few.sd).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"R": -1.0}, "R holds a variance that is not above zero: -1"),
        ({"R": np.ones(3)}, r"R must be one variance, \(4,\) variances or a \(4, 4\) matrix, not \(3,\)"),
        ({"y": np.zeros(5)}, r"y must be finite with shape \(4,\), not \(5,\)"),
        ({"prior_covariance": np.diag([1.0, 1, 1, 1, 1, -1])}, "smallest eigenvalue is -1"),
        ({"prior_covariance": None}, "needs the prior's spread"),
        ({"minimiser": "scipi"}, "Did you mean 'scipy'?"),
    ],
)
def test_what_is_wrong_is_named(change, message):
    h, y, R, b, B, _, _ = problem()
    settings = {"y": y, "R": R, "prior_mean": b, "prior_covariance": B} | change
    with pytest.raises(pf.SettingError, match=message):
        pf.fit_state(h, **settings)


def test_without_optax_there_is_a_way(monkeypatch):
    monkeypatch.setitem(sys.modules, "optax", None)
    h, y, R, b, B, _, _ = problem()
    with pytest.raises(pf.MissingDependencyError, match=r"partonfit\[inversion\].*scipy"):
        pf.fit_state(h, y, R, prior_mean=b, prior_covariance=B)
