"""Operators that are wrong, each with the sentence that says why."""

import re

import numpy as np
import partonfit as pf
import pytest
from operator_examples import N_OBS, N_STATE, W, adjoint, forward, tangent_linear, tanh_operator
from partonfit._errors import OperatorError, SettingError
from partonfit.operators import Operator


def square_forward(x):
    """Square in shape, so that a matrix can be used untransposed."""
    return np.tanh(SQUARE @ x)


SQUARE = np.random.default_rng(6).normal(size=(4, 4))


def square_slope(x):
    return (1 - np.tanh(SQUARE @ x) ** 2)[:, None] * SQUARE


def square(adjoint):
    return pf.operator(
        forward=square_forward,
        tangent_linear=lambda x, dx: square_slope(x) @ dx,
        adjoint=adjoint,
        n_state=4,
        n_obs=4,
    )


class Stale:
    """Linearises at the x of the last forward call."""

    n_state, n_obs = N_STATE, N_OBS

    def __init__(self, *, once=False):
        self.x, self.once = None, once

    def forward(self, x):
        if self.x is None or not self.once:
            self.x = x.copy()
        return forward(x)

    def tangent_linear(self, x, dx):
        return tangent_linear(self.x, dx)

    def adjoint(self, x, dy):
        return adjoint(self.x, dy)


class StaleAdjoint(Stale):
    """Only the adjoint is stale: the dot test sees it."""

    def tangent_linear(self, x, dx):
        return tangent_linear(x, dx)


def in_place(function):
    """Compute in the memory of the arguments."""

    def call(x, *v):
        result = function(x, *v)
        for a in (x, *v):
            a[:] = 0
        return result

    return call


def raising(x, dy):
    msg = "no way back"
    raise ZeroDivisionError(msg)


def shared_buffer():
    buffer = np.empty(N_OBS)

    def call(x):
        buffer[:] = forward(x)
        return buffer

    return call


def jax_array(x):
    import jax.numpy as jnp

    return jnp.tanh(jnp.asarray(W) @ x)


def noisy():
    rng = np.random.default_rng(0)
    return lambda x: forward(x) + 1e-3 * rng.normal(size=N_OBS)


def grid_forward(x):
    return (x.reshape(2, 3) ** 2).ravel()


GRID = {"forward": grid_forward, "tangent_linear": lambda x, dx: 2 * x * dx, "n_state": 6, "n_obs": 6}

WRONG = {
    "adjoint wrong sign": (tanh_operator(adjoint=lambda x, dy: -adjoint(x, dy)), "adjoint has the wrong sign"),
    "tangent wrong sign": (
        tanh_operator(tangent_linear=lambda x, dx: -tangent_linear(x, dx)),
        "tangent_linear has the wrong sign",
    ),
    "factor missing": (
        pf.operator(
            forward=lambda x: x**2, tangent_linear=lambda x, dx: 2 * x * dx, adjoint=lambda x, dy: x * dy,
            n_state=4, n_obs=4,
        ),
        "adjoint is 2 times too small: a factor 2 is missing",
    ),
    "factor missing in both": (
        pf.operator(
            forward=lambda x: x**2, tangent_linear=lambda x, dx: x * dx, adjoint=lambda x, dy: x * dy,
            n_state=4, n_obs=4,
        ),
        "tangent_linear is 2 times too small.*adjoint agrees with tangent_linear, so it is wrong in the same way",
    ),
    "chain rule cut off": (
        tanh_operator(adjoint=lambda x, dy: dy @ W),
        r"does not depend on the state, but the derivative of forward does",
    ),
    "not transposed": (square(lambda x, dy: square_slope(x) @ dy), "the matrix is not transposed"),
    "transposed index": (
        pf.operator(adjoint=lambda x, dy: (2 * x * dy).reshape(2, 3).T.ravel(), **GRID),
        "right numbers at the wrong places .* flattened in another order",
    ),
    "reversed": (tanh_operator(adjoint=lambda x, dy: adjoint(x, dy)[::-1]), "right numbers in reversed order"),
    "index off by one": (
        tanh_operator(adjoint=lambda x, dy: np.roll(adjoint(x, dy), 1)),
        "right numbers shifted by 1: an index is off",
    ),
    "stale, last forward": (Stale(), "tangent_linear uses a stale linearisation: at state 0"),
    "stale, first forward": (Stale(once=True), "(uses a stale linearisation|does not depend on the state)"),
    "stale adjoint": (StaleAdjoint(), "adjoint uses a stale linearisation"),
    "part of the state forgotten": (
        tanh_operator(adjoint=lambda x, dy: adjoint(x, dy) * np.array([1, 1, 0, 1, 1])),
        r"wrong at index 2 \(all zero there\), right at index 0, 1, 3, 4",
    ),
    "weights of the state": (
        tanh_operator(adjoint=lambda x, dy: adjoint(x, dy) * np.arange(2, 7)),
        r"another factor for each element of the state \(index 0: 2\)",
    ),
    "weights of the observations": (
        tanh_operator(adjoint=lambda x, dy: adjoint(x, dy * np.array([1, 2, 4]))),
        "weights the observations wrongly .factor by index 0: 1, 1: 2, 2: 4",
    ),
    "tangent, last step missing": (
        tanh_operator(tangent_linear=lambda x, dx: tangent_linear(x, dx) * (1 + x[0] ** 2 * np.arange(1, 4))),
        "another factor for each observation .* last step",
    ),
    "tangent, one observation": (
        tanh_operator(tangent_linear=lambda x, dx: tangent_linear(x, dx) + np.array([0, dx[0], 0])),
        "wrong for index 1 of 3 observations",
    ),
    "returns values, not change": (
        tanh_operator(tangent_linear=lambda x, dx: forward(x) + tangent_linear(x, dx)),
        "tangent_linear is not linear in dx. For dx = 0 it does not give zero",
    ),
    "raising": (tanh_operator(adjoint=raising), "adjoint raised ZeroDivisionError at state 0: no way back"),
    "NaN": (
        tanh_operator(forward=lambda x: np.where(np.arange(3) == 1, np.nan, forward(x))),
        r"forward gives nan at index 1 \(1 of 3 are not finite\)",
    ),
    "wrong shape": (
        tanh_operator(forward=lambda x: forward(x)[:, None]),
        r"forward returned shape \(3, 1\); expected \(3,\). The number of elements is right: flatten",
    ),
    "too few": (tanh_operator(adjoint=lambda x, dy: adjoint(x, dy)[1:]), r"shape \(4,\); expected \(5,\)"),
    "complex": (tanh_operator(forward=lambda x: forward(x) + 0j), "forward returned an array of complex128"),
    "text": (tanh_operator(forward=lambda x: ["a", "b", "c"]), "forward returned a list that is no array of numbers"),
    "nothing": (tanh_operator(forward=lambda x: None), "forward returned a NoneType that is no array"),
    "jax array": (tanh_operator(forward=jax_array), "returned a JAX array. An operator must compute in NumPy"),
    "random": (tanh_operator(forward=noisy()), "forward gives another result when called again"),
    "not linear": (tanh_operator(linear=True), "says that it is linear, but its derivative depends on the state"),
    "batch wrong": (
        Operator(N_STATE, N_OBS, forward, tangent_linear, adjoint, forward_batch=lambda x: forward(x)[::-1].copy()),
        "batched forward differs from single calls, first in sample 0",
    ),
    "batch of columns": (
        Operator(N_STATE, N_OBS, forward, tangent_linear, adjoint, forward_batch=lambda x: forward(x)[:2]),
        r"batched forward returned shape \(2, 3\); expected \(3, 3\).* first axis is the sample",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_operator_is_told_why(case):
    op, message = WRONG[case]
    report = pf.check_operator(op)
    assert not report.passed
    text = " ".join(p.text for p in report.problems if p.serious)
    assert re.search(message, text), str(report)
    with pytest.raises(OperatorError, match="problem"):
        report.raise_if_failed()


REMARKS = {
    "writes into x": (tanh_operator(forward=in_place(forward)), "forward writes into its argument x"),
    "writes into dx": (tanh_operator(tangent_linear=in_place(tangent_linear)), "writes into its argument dx"),
    "writes into dy": (tanh_operator(adjoint=in_place(adjoint)), "adjoint writes into its argument dy"),
    "float32": (tanh_operator(forward=lambda x: forward(x).astype(np.float32)), "forward returns float32, not float64"),
    "list": (tanh_operator(forward=lambda x: forward(x).tolist()), "forward returns a list; it is converted"),
    "one buffer": (tanh_operator(forward=shared_buffer()), "forward returns the same array at every call"),
    "no adjoint": (tanh_operator(adjoint=None), "there is none, so gradients .* do not work"),
    "no tangent": (tanh_operator(tangent_linear=None), "there is none, so forward-mode derivatives .* gradients do"),
}  # fmt: skip


@pytest.mark.parametrize("case", REMARKS)
def test_bad_manners_are_remarks(case):
    op, message = REMARKS[case]
    report = pf.check_operator(op)
    assert report.passed, str(report)
    assert any(re.search(message, p.text) for p in report.problems), str(report)


def test_right_operators_pass_without_a_word():
    fortran = tanh_operator(
        forward=lambda x: np.asfortranarray(forward(x)), batched=True, thread_safe=True, name="fortran order"
    )
    good = [
        tanh_operator(),
        fortran,
        square(lambda x, dy: square_slope(x).T @ dy),
        pf.matrix_operator(W),
        pf.transport_model(nx=9, ny=7, stations=4, times=2),
    ]
    for op in good:
        report = pf.check_operator(op)
        assert not report.problems, str(report)
        assert "passed" in str(report)
        assert report.measured["dot test"] < 1e-12
        assert report.measured["Taylor test"] < 1e-7
    rough = pf.finite_difference_operator(tanh_operator())
    assert pf.check_operator(rough, tolerance=1e-7).passed
    assert "one of them is approximate" in str(pf.check_operator(rough, tolerance=1e-14))


def test_an_operator_in_single_precision_passes_and_still_fails_when_wrong():
    def single(function):
        return lambda *args: function(*(a.astype(np.float32) for a in args)).astype(np.float32)

    parts = {"forward": single(forward), "tangent_linear": single(tangent_linear), "adjoint": single(adjoint)}
    report = pf.check_operator(tanh_operator(**parts))
    assert report.passed, str(report)
    wrong = tanh_operator(**parts | {"adjoint": single(lambda x, dy: 1.01 * adjoint(x, dy))})
    assert "1.01 times too large" in str(pf.check_operator(wrong))


def test_states_in_a_domain_can_be_given():
    def forward(x):
        if x.min() <= 0:
            msg = "emissions must be positive"
            raise ValueError(msg)
        return np.sqrt(x)

    op = pf.operator(
        forward=forward,
        tangent_linear=lambda x, dx: dx / (2 * np.sqrt(x)),
        adjoint=lambda x, dy: dy / (2 * np.sqrt(x)),
        n_state=4,
        n_obs=4,
    )
    report = pf.check_operator(op)
    assert "forward raised ValueError at state 0: emissions must be positive" in str(report)
    assert "check_operator(op, x)" in str(report)
    assert pf.check_operator(op, np.array([0.5, 1.0, 2.0, 3.0])).passed
    assert pf.check_operator(op, np.full((2, 4), 2.0) + np.eye(2, 4)).passed


def test_a_kink_is_not_called_a_wrong_adjoint():
    steps = tanh_operator(forward=lambda x: np.round(forward(x), 3))
    report = pf.check_operator(steps)
    assert "not smooth enough" in str(report)
    assert report.passed


def test_settings_of_the_check():
    op = tanh_operator()
    with pytest.raises(SettingError, match="has no n_state and no n_obs and no forward"):
        pf.check_operator(object())
    with pytest.raises(SettingError, match=r"finite states of shape \(5,\)"):
        pf.check_operator(op, np.ones(4))
    with pytest.raises(SettingError, match="samples must be at least 2"):
        pf.check_operator(op, samples=1)
