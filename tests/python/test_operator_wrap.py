"""What a wrapped operator promises beyond its derivatives: copies, errors, counts, threads, devices."""

import gc
import subprocess
import sys
import threading
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import partonfit as pf
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from operator_examples import N_OBS, N_STATE, W, adjoint, changes, forward, in_jax, tangent_linear, tanh_operator
from partonfit._errors import OperatorError, SettingError
from partonfit._precision import precision_context
from partonfit.operators import Operator, original_errors

X = np.random.default_rng(2).normal(size=N_STATE).astype(np.float32)
XS = np.random.default_rng(3).normal(size=(6, N_STATE)).astype(np.float32)
DY = np.array([1.0, -2.0, 0.5], dtype=np.float32)


def compilations(function):
    """Return how often XLA compiled while ``function`` ran."""
    seen = []

    def listen(event, duration, **_):
        if event.endswith("backend_compile_duration"):
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        function()
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    return len(seen)


# ---- algebra ----------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 6), st.booleans(), st.integers(0, 3))
def test_tangent_and_adjoint_are_transposes_through_the_wrapper(seed, n_state, n_obs, batched, rows):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(n_obs, n_state))
    op = pf.operator(
        forward=lambda x: np.sin(x @ matrix.T),
        tangent_linear=lambda x, dx: np.cos(x @ matrix.T) * (dx @ matrix.T),
        adjoint=lambda x, dy: (np.cos(x @ matrix.T) * dy) @ matrix,
        n_state=n_state,
        n_obs=n_obs,
        batched=batched,
    )
    H = pf.wrap_operator(op)
    lead = (rows,) if rows else ()
    with precision_context("float64"):
        x, dx = rng.normal(size=(2, *lead, n_state))
        dy = rng.normal(size=(*lead, n_obs))
        y, change = jax.jvp(H, (x,), (dx,))
        (back,) = jax.vjp(H, x)[1](dy)
        assert float((change * dy).sum()) == pytest.approx(float((dx * back).sum()), rel=1e-10, abs=1e-11)
        np.testing.assert_allclose(change, H.tangent_linear(x, dx), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(back, H.adjoint(x, dy), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(y, np.sin(x @ matrix.T), rtol=1e-12, atol=1e-13)
        twice = jax.linear_transpose(lambda v: H.adjoint(x, v), dy)(dx)[0]
        np.testing.assert_allclose(twice, change, rtol=1e-12, atol=1e-13)


def test_one_state_for_many_directions_is_not_copied_to_each():
    seen = []
    op = tanh_operator(adjoint=lambda x, dy: seen.append(x) or adjoint(x, dy))
    H = pf.wrap_operator(op)
    with precision_context("float64"):
        found = jax.jit(jax.jacrev(H))(X.astype(float))
        np.testing.assert_allclose(found, jax.jacrev(in_jax)(X.astype(float)), rtol=1e-12)
        # x and dy of different batches stretch over one another; a sum over what was stretched comes back.
        many = jax.jit(jax.grad(lambda v: (H.tangent_linear(XS.astype(float), v) ** 2).sum()))(X.astype(float))
        right = jax.grad(lambda v: (jax.vmap(lambda x: jax.jvp(in_jax, (x,), (v,))[1])(XS.astype(float)) ** 2).sum())(
            X.astype(float)
        )
        np.testing.assert_allclose(many, right, rtol=1e-12)
        grid = H.adjoint(XS.astype(float)[:, None], np.eye(N_OBS))
        assert grid.shape == (6, N_OBS, N_STATE)
        np.testing.assert_allclose(grid, jax.vmap(jax.jacrev(in_jax))(XS.astype(float)), rtol=1e-12, atol=1e-13)
    assert len({x.tobytes() for x in seen[:N_OBS]}) == 1


def test_mode_tangent_linear():
    op = tanh_operator()
    T = pf.wrap_operator(op, mode="tangent_linear")
    x0 = X.copy()
    at = pf.wrap_operator(op, mode="tangent_linear", at=x0)
    x0[:] = 0  # the linearisation point is the operator's own
    dx = XS[0]
    np.testing.assert_allclose(at(dx), tangent_linear(X, dx), rtol=1e-5)
    np.testing.assert_allclose(T(X, dx), at(dx), rtol=1e-6)
    # Linear in dx: its derivative is the adjoint at the same state, whatever dx, and has derivatives of all orders.
    (first,), (second,) = (jax.vjp(at, v)[1](DY) for v in (dx, XS[1]))
    np.testing.assert_allclose(first, adjoint(X, DY), rtol=1e-5)
    np.testing.assert_array_equal(first, second)
    hessian = jax.jit(jax.hessian(lambda v: (at(v) ** 2).sum()))(dx)
    J = tangent_linear(X, np.eye(N_STATE)).T
    np.testing.assert_allclose(hessian, 2 * J.T @ J, rtol=1e-4, atol=1e-5)
    with pytest.raises(OperatorError, match="no second derivatives"):
        jax.grad(lambda x: T(x, dx).sum())(X)
    assert repr(at) == "<wrapped tanh: tangent_linear at a fixed state, 5 -> 3>"
    with pytest.raises(SettingError, match=r"mode 'tangent_linear' is called with \(x, dx\)"):
        T(X)
    with pytest.raises(SettingError, match=r"must have shape \(5,\), not \(4,\)"):
        pf.wrap_operator(op, mode="tangent_linear", at=X[1:])
    with pytest.raises(SettingError, match="at= fixes the state"):
        pf.wrap_operator(op, at=X)
    with pytest.raises(SettingError, match="Did you mean 'tangent_linear'"):
        pf.wrap_operator(op, mode="tangent_linea")


# ---- second derivatives -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "second",
    [
        lambda H: jax.hessian(lambda x: H(x).sum())(X),
        lambda H: jax.jit(jax.grad(lambda x: jax.grad(lambda z: H(z).sum())(x).sum()))(X),
        lambda H: jax.jvp(jax.grad(lambda x: H(x).sum()), (X,), (X,)),
        lambda H: jax.grad(lambda x: jax.jvp(H, (x,), (X,))[1].sum())(X),
        lambda H: jax.vmap(jax.hessian(lambda x: (H(x) ** 2).sum()))(XS),
    ],
)
def test_second_derivatives_are_refused_with_the_way_out(second):
    with pytest.raises(OperatorError, match=r"'tanh' were differentiated again.*gauss_newton_product"):
        second(pf.wrap_operator(tanh_operator()))


def test_linear_operators_have_second_derivatives():
    H = pf.wrap_operator(pf.matrix_operator(W, offset=np.ones(N_OBS)))
    found = jax.jit(jax.hessian(lambda x: 0.5 * (H(x) ** 2).sum()))(X)
    np.testing.assert_allclose(found, W.T @ W, rtol=1e-4, atol=1e-5)


def test_gauss_newton_product():
    H = pf.wrap_operator(tanh_operator())
    with precision_context("float64"):
        x, v = X.astype(float), XS[0].astype(float)
        J = np.asarray(jax.jacfwd(in_jax)(x))
        root = np.random.default_rng(4).normal(size=(N_OBS, N_OBS))
        matrix = root @ root.T
        before = H.calls
        for weight, dense in [(None, np.eye(3)), (np.array([1.0, 2, 3]), np.diag([1.0, 2, 3])), (matrix, matrix)]:
            found = jax.jit(lambda x, v, weight=weight: H.gauss_newton_product(x, v, weight))(x, v)
            np.testing.assert_allclose(found, J.T @ dense @ J @ v, rtol=1e-10)
        assert changes(before, H) == {"tangent_linear": 3, "adjoint": 3}
        np.testing.assert_allclose(H.gauss_newton_product(x, v, lambda y: 2 * y), 2 * J.T @ J @ v, rtol=1e-10)
        # For a linear operator it is the Hessian.
        linear = pf.wrap_operator(pf.matrix_operator(W))
        hessian = jax.hessian(lambda x: 0.5 * (linear(x) ** 2).sum())(x)
        np.testing.assert_allclose(linear.gauss_newton_product(x, v), hessian @ v, rtol=1e-10)
    with pytest.raises(SettingError, match=r"weight must have shape \(3,\) or \(3, 3\), not \(2,\)"):
        H.gauss_newton_product(X, X, np.ones(2))


# ---- what the operator gets and gives -----------------------------------------------------------------


def greedy(x, *v):
    """Check that the arguments are ours, then spoil them."""
    for a in (x, *v):
        assert a.dtype == np.float64
        assert a.flags.writeable
        assert a.flags.c_contiguous
        assert a.base is None or a.base.base is None
    result = forward(x) if not v else (adjoint if len(v[0]) == N_OBS else tangent_linear)(x, *v)
    for a in (x, *v):
        a[:] = np.nan
    return result


@pytest.mark.parametrize("kind", ["forward", "tangent_linear", "adjoint"])
def test_an_operator_that_writes_into_its_arguments_does_no_harm(kind):
    H = pf.wrap_operator(tanh_operator(**{kind: greedy}))
    x, xs = X.copy(), jnp.asarray(XS)
    for transform in (lambda h: h, jax.jit):
        run = transform(lambda v: jax.vjp(H, v)[1](DY)[0])
        np.testing.assert_allclose(run(x), adjoint(X, DY), rtol=1e-5)
        np.testing.assert_allclose(transform(lambda v: jax.jvp(H, (v,), (v,))[1])(x), tangent_linear(X, X), rtol=1e-5)
        np.testing.assert_allclose(transform(jax.vmap(H))(xs), forward(XS), rtol=1e-5)
        # One state for all rows: each call needs the state as it was.
        jacobian = transform(jax.jacrev(H))(x)
        np.testing.assert_allclose(jacobian, np.stack([adjoint(X, e) for e in np.eye(N_OBS)]), rtol=1e-5)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(xs, XS)


def test_an_operator_with_one_buffer_for_all_results():
    buffer = np.empty(N_OBS)

    def one_buffer(x):
        buffer[:] = forward(x)
        return buffer

    H = pf.wrap_operator(tanh_operator(forward=one_buffer))
    kept = H(X)
    np.testing.assert_allclose(jax.jit(jax.vmap(H))(XS), forward(XS), rtol=1e-5)
    np.testing.assert_allclose(kept, forward(X), rtol=1e-5)


CONVERTED = {
    "float32": lambda y: y.astype(np.float32),
    "Fortran order": np.asfortranarray,
    "not contiguous": lambda y: np.repeat(y, 2, axis=-1)[..., ::2],
    "list": lambda y: y.tolist(),
    "big-endian": lambda y: y.astype(">f8"),
    "read-only": lambda y: np.broadcast_to(y, y.shape),
}


@pytest.mark.parametrize("form", CONVERTED)
@pytest.mark.parametrize("batched", [False, True])
def test_results_in_other_forms_are_converted(form, batched):
    change = CONVERTED[form]
    op = tanh_operator(
        forward=lambda x: change(forward(x)), adjoint=lambda x, dy: change(adjoint(x, dy)), batched=batched
    )
    H = pf.wrap_operator(op)
    for transform in (lambda h: h, jax.jit):
        np.testing.assert_allclose(transform(jax.vmap(H))(XS), forward(XS), rtol=1e-5)
        found = transform(jax.grad(lambda x: (H(x) ** 2).sum()))(X)
        np.testing.assert_allclose(found, adjoint(X, 2 * forward(X)), rtol=1e-4)


def jax_array(x):
    return jnp.asarray(forward(x))


REFUSED = {
    "wrong shape": (lambda x: forward(x)[:, None], r"'tanh' returned shape \(3, 1\); expected \(3,\).*flatten"),
    "wrong size": (lambda x: forward(x)[:2], r"returned shape \(2,\); expected \(3,\)"),
    "complex": (lambda x: forward(x) + 0j, "returned an array of complex128. It must return a real float64 array"),
    "text": (lambda x: "abc", "returned a str that is no array of numbers"),
    "ragged": (lambda x: [[1.0], [2.0, 3.0]], "returned a list that is no array"),
    "nothing": (lambda x: None, "returned a NoneType"),
    "NaN": (lambda x: forward(x) * np.array([1, np.nan, 1]), r"not finite: nan at index 1 \(1 of 3\)"),
    "infinite": (lambda x: forward(x) + np.array([0, 0, np.inf]), "not finite: inf at index 2"),
    "too large": (lambda x: forward(x) + 1e300, r"is 1e\+300: too large for float32"),
    "jax array": (jax_array, "returned a JAX array. An operator must compute in NumPy alone"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_results_that_cannot_be_meant_are_errors(what):
    function, message = REFUSED[what]
    H = pf.wrap_operator(tanh_operator(forward=function))
    with pytest.raises(OperatorError, match=message):
        H(X)
    if what == "jax array":
        return  # inside a compiled program making it can hang, which is why it is refused
    with original_errors(), pytest.raises(OperatorError, match=message), original_errors():
        jax.jit(H)(X)
    with original_errors(), pytest.raises(OperatorError, match=message), original_errors():
        jax.jit(jax.vmap(H))(XS)


def test_states_that_do_not_fit():
    H = pf.wrap_operator(tanh_operator())
    with pytest.raises(SettingError, match=r"state given to operator 'tanh' must have shape \(..., 5\), not \(4,\)"):
        H(X[1:])
    with pytest.raises(SettingError, match=r"observation vector dy .* \(..., 3\), not \(5,\)"):
        H.adjoint(X, X)
    with pytest.raises(SettingError, match="do not fit one another"):
        H.adjoint(XS, np.ones((4, N_OBS)))
    with pytest.raises(SettingError, match="real numbers, not complex64"):
        H(X + 0j)
    with pytest.raises(SettingError, match=r"must have shape \(..., 5\), not \(\)"):
        H(1.0)
    assert H(np.arange(5)).dtype == jnp.float32  # whole numbers are numbers
    assert jax.vmap(H)(jnp.zeros((0, 5))).shape == (0, 3)
    assert jax.jit(H)(jnp.zeros((0, 5))).shape == (0, 3)


def test_a_missing_derivative_is_said_when_it_is_needed_only():
    no_tangent = pf.wrap_operator(tanh_operator(tangent_linear=None))
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: no_tangent(x).sum()))(X), adjoint(X, np.ones(3)), rtol=1e-5)
    np.testing.assert_allclose(jax.grad(lambda x: no_tangent(x).sum())(X), adjoint(X, np.ones(3)), rtol=1e-5)
    no_adjoint = pf.wrap_operator(tanh_operator(adjoint=None))
    np.testing.assert_allclose(jax.jit(no_adjoint)(X), forward(X), rtol=1e-5)
    for run in (lambda f: f, jax.jit):
        with pytest.raises(OperatorError, match=r"'tanh' has no tangent linear.*finite_difference_operator"):
            run(lambda x: jax.jvp(no_tangent, (x,), (x,)))(X)
        with pytest.raises(OperatorError, match=r"'tanh' has no adjoint. Gradients"):
            run(jax.grad(lambda x: no_adjoint(x).sum()))(X)


# ---- exceptions and values that are not finite --------------------------------------------------------


class DomainError(Exception):
    """An exception of the user's own, with more than a text."""

    def __init__(self, cell):
        super().__init__(f"negative emission in cell {cell}")
        self.cell = cell


def with_domain(x):
    if (x < 0).any():
        raise DomainError(int(np.argmin(x)))
    return forward(x)


def test_the_original_exception_comes_out():
    H = pf.wrap_operator(tanh_operator(forward=with_domain, adjoint=lambda x, dy: with_domain(x) and None))
    bad = np.abs(X) * np.array([1, 1, -1, 1, 1], dtype=np.float32)
    for call in (H, jax.grad(lambda x: H(x).sum()), lambda x: jax.vmap(H)(x[None])):  # eager: nothing is between
        with pytest.raises(DomainError, match="cell 2") as caught:
            call(bad)
        assert caught.value.cell == 2
    compiled = jax.jit(H)
    with pytest.raises(DomainError) as caught, original_errors():
        compiled(bad)
    assert caught.value.cell == 2
    assert caught.value.__cause__ is None
    assert caught.value.__traceback__ is not None

    @original_errors()
    def step(x):
        return jax.jit(jax.grad(lambda v: (H(v) ** 2).sum()))(x)

    with pytest.raises(DomainError, match="cell 2"):
        step(bad)
    # Without the context the text says type and message, and how to have the exception itself.
    with pytest.raises(Exception, match=r"(?s)DomainError: negative emission in cell 2.*original_errors"):
        jax.block_until_ready(compiled(bad))
    with pytest.raises(KeyError), original_errors():
        _ = {}["other errors pass"]
    np.testing.assert_allclose(compiled(np.abs(X)), forward(np.abs(X)), rtol=1e-5)  # it works again afterwards


def test_a_diverged_member_does_not_end_the_others():
    calls = []
    op = tanh_operator(forward=lambda x: calls.append(x.copy()) or with_domain(np.abs(x)))
    xs = XS.copy()
    xs[2, 1] = np.nan
    with pytest.raises(OperatorError, match=r"state given to forward .* not finite: nan at index 1"):
        jax.vmap(pf.wrap_operator(op))(xs)
    for batched in (False, True):
        calls.clear()
        op = tanh_operator(forward=lambda x: calls.append(x.copy()) or forward(x), batched=batched)
        H = pf.wrap_operator(op, nonfinite="nan")
        for run in (jax.vmap(H), jax.jit(jax.vmap(H))):
            found = np.asarray(run(xs))
            assert np.isnan(found[2]).all()
            np.testing.assert_allclose(np.delete(found, 2, 0), forward(np.delete(xs, 2, 0)), rtol=1e-5)
        assert all(np.isfinite(c).all() for c in calls)  # the operator never sees it
        gradients = jax.jit(jax.vmap(jax.grad(lambda x, H=H: (H(x) ** 2).sum())))(xs)
        assert np.isnan(gradients[2]).all()
        assert np.isfinite(np.delete(gradients, 2, 0)).all()
        assert np.isnan(H(xs[2])).all()
    passed_on = pf.wrap_operator(tanh_operator(forward=lambda x: forward(x) * np.nan), nonfinite="nan")
    assert np.isnan(passed_on(X)).all()
    with pytest.raises(SettingError, match="Unknown nonfinite 'drop'"):
        pf.wrap_operator(op, nonfinite="drop")


# ---- calls, compilations, memory, threads ------------------------------------------------------------


def test_no_call_is_made_for_what_is_not_used():
    H = pf.wrap_operator(tanh_operator())
    before = H.calls
    jax.block_until_ready(jax.jit(jax.grad(lambda x: H(x).sum()))(X))
    assert changes(before, H) == {"adjoint": 1}
    both = pf.wrap_operator(tanh_operator())
    run = jax.jit(jax.vmap(lambda x: jax.lax.cond(x[0] > 0, both, lambda v: both(2 * v), x)))
    jax.block_until_ready(run(XS))
    assert both.calls["forward"] == 2 * len(XS)  # as documented: both branches


def test_wrapping_again_gives_the_same_callable_and_one_compilation():
    op = tanh_operator()
    H = pf.wrap_operator(op)
    assert pf.wrap_operator(op) is H
    assert pf.wrap_operator(H) is H
    assert pf.wrap_operator(op, nonfinite="nan") is not H
    assert pf.wrap_operator(tanh_operator()) is not H
    run = jax.jit(jax.grad(lambda x: (pf.wrap_operator(op)(x) ** 2).sum()))
    x = jnp.asarray(X)

    def train():
        for _ in range(50):
            run(x).block_until_ready()

    assert compilations(train) == 1
    assert compilations(train) == 0
    # Outside jit nothing is compiled for the operator, however often it is wrapped afresh.
    jax.jit(tanh_twice)(x)

    def fresh():
        for _ in range(20):
            pf.wrap_operator(tanh_operator())(x)

    fresh()
    assert compilations(fresh) == 0


def tanh_twice(x):
    return jnp.tanh(jnp.tanh(x))


def test_a_dropped_operator_is_freed():
    import weakref

    op = tanh_operator()
    H = pf.wrap_operator(op)
    jax.block_until_ready(H(X))
    gone = weakref.ref(op), weakref.ref(H)
    del op, H
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


@pytest.mark.slow
def test_nothing_leaks_over_100_000_calls():
    H = pf.wrap_operator(tanh_operator())

    @jax.jit
    def many(x):
        return jax.lax.fori_loop(0, 5000, lambda i, c: 0.9 * c + jax.grad(lambda v: (H(v) ** 2).sum())(c), x)

    x = jnp.asarray(X)
    many(x).block_until_ready()
    gc.collect()
    tracemalloc.start()
    try:
        many(x).block_until_ready()
        gc.collect()
        start = tracemalloc.get_traced_memory()[0]
        for _ in range(9):
            many(x).block_until_ready()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - start
    finally:
        tracemalloc.stop()
    assert H.calls["forward"] + H.calls["adjoint"] >= 100_000
    assert grown < 100_000  # bytes: less than one per call


def test_200_runs_from_6_threads_end_and_agree():
    inside, most = [0], [0]

    def watched(x):
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        result = forward(x)
        inside[0] -= 1
        return result

    H = pf.wrap_operator(tanh_operator(forward=watched))
    run = jax.jit(jax.vmap(jax.value_and_grad(lambda x: (H(x) ** 2).sum())))
    rng = np.random.default_rng(0)
    states = rng.normal(size=(200, 3, N_STATE)).astype(np.float32)
    found = {}

    def work(k):
        for i in range(k, 200, 6):
            call = run if i % 2 else jax.vmap(jax.value_and_grad(lambda x: (H(x) ** 2).sum()))
            found[i] = jax.block_until_ready(call(states[i]))

    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    assert len(found) == 200
    assert most[0] == 1  # one call at a time: this operator does not say that it is thread-safe
    for i, (values, gradients) in found.items():
        y = forward(states[i])
        np.testing.assert_allclose(values, (y**2).sum(-1), rtol=1e-4)
        np.testing.assert_allclose(gradients, adjoint(states[i], 2 * y), rtol=1e-3, atol=1e-5)


def test_a_thread_safe_operator_runs_in_parallel():
    meet = threading.Barrier(2, timeout=20)

    def wait(x):
        meet.wait()
        return forward(x)

    H = pf.wrap_operator(tanh_operator(forward=wait, thread_safe=True))
    threads = [threading.Thread(target=H, args=(X,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not meet.broken


def test_an_operator_that_calls_itself_does_not_lock_itself_out():
    def nested(x):
        return forward(x) if x[0] > 10 else np.asarray(H._host.run("forward", x + 20)) * 0 + forward(x)

    H = pf.wrap_operator(tanh_operator(forward=nested))
    np.testing.assert_allclose(jax.jit(H)(X), forward(X), rtol=1e-5)


# ---- several devices ----------------------------------------------------------------------------------

SHARDED = """
import jax, numpy as np, partonfit as pf
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
import sys; sys.path.insert(0, sys.argv[1])
from operator_examples import *
def loss(h):
    return lambda x: (h(x) ** 2).sum()
xs = np.random.default_rng(1).normal(size=(8, N_STATE)).astype(np.float32)
right = jax.vmap(jax.grad(loss(in_jax)))(xs)
for batched in (False, True):
    for axis_type in (AxisType.Auto, AxisType.Explicit):
        H = pf.wrap_operator(tanh_operator(batched=batched))
        mesh = jax.make_mesh((4,), ("member",), axis_types=(axis_type,))
        split = jax.device_put(xs, NamedSharding(mesh, P("member")))
        def check(run, rows, calls):
            before = H.calls
            found = jax.block_until_ready(run(split))
            np.testing.assert_allclose(found, rows, rtol=1e-4, atol=1e-5)
            made = changes(before, H)
            want = {k: n if batched else 8 for k, n in calls.items()}
            assert made == want, (batched, axis_type, made, want)
        check(jax.jit(H), in_jax(xs), {"forward": 1})
        check(jax.jit(jax.vmap(jax.grad(loss(H)))), right, {"forward": 1, "adjoint": 1})
        for vma in (True, False):
            part = jax.shard_map(jax.vmap(jax.grad(loss(H))), mesh=mesh, in_specs=P("member"),
                                 out_specs=P("member"), check_vma=vma)
            check(jax.jit(part), right, {"forward": 4, "adjoint": 4})
        scale = lambda x: jax.grad(lambda a: jax.lax.psum(loss(H)(a * x), "member"))(np.float32(1))[None]
        total = jax.jit(jax.shard_map(scale, mesh=mesh, in_specs=P("member"), out_specs=P("member")))(split)
        np.testing.assert_allclose(total, float(jax.grad(lambda a: loss(in_jax)(a * xs))(1.0)), rtol=1e-4)
print("as expected")
"""


def test_split_over_four_devices(tmp_path):
    from pathlib import Path

    script = tmp_path / "sharded.py"
    script.write_text(SHARDED)
    import os

    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, str(script), str(Path(__file__).parent)],
        check=False, capture_output=True, text=True, timeout=300, env=environment,
    )  # fmt: skip
    assert done.stdout == "as expected\n", done.stderr[-3000:]


def test_an_operator_of_batches_only_needs_the_batch():
    """The plain dataclass, with a batched form of one function only."""
    op = Operator(N_STATE, N_OBS, forward, tangent_linear, adjoint, forward_batch=forward)
    H = pf.wrap_operator(op)
    before = H.calls
    jax.block_until_ready(jax.jit(jax.vmap(jax.value_and_grad(lambda x: (H(x) ** 2).sum())))(XS))
    assert changes(before, H) == {"forward": 1, "adjoint": len(XS)}
