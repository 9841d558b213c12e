"""Operators made of functions, objects, matrices, tables and differences; the transport model."""

import jax
import numpy as np
import partonfit as pf
import pytest
import scipy.sparse
from fakes import X, fake_data, fake_dataset, fake_table, fake_theory
from operator_examples import N_OBS, N_STATE, W, adjoint, forward, tangent_linear, tanh_operator
from partonfit._errors import OperatorError, SettingError
from partonfit._vocabulary import EVOLUTION, FITTED, to_evolution
from partonfit.theory._map import forward_map
from partonfit.theory._operations import OPERATIONS
from scipy.sparse.linalg import LinearOperator, aslinearoperator

RNG = np.random.default_rng(8)
STATE, DX, DY = RNG.normal(size=N_STATE), RNG.normal(size=N_STATE), RNG.normal(size=N_OBS)


class Model:
    """An operator as a class, with names of its own for two methods."""

    n_state, n_obs, key, name, thread_safe = N_STATE, N_OBS, "model 1", "my model", True

    def forward(self, x):
        return forward(x)

    def tlm(self, x, dx):
        return tangent_linear(x, dx)

    def adjoint(self, x, dy):
        return adjoint(x, dy)

    adjoint_batch = adjoint


def test_from_an_object():
    op = pf.operator(Model(), tangent_linear="tlm")
    assert (op.name, op.thread_safe, op.linear, op.key) == ("my model", True, False, None)  # the key spoke for its own
    assert op.adjoint_batch is not None
    assert op.forward_batch is None
    assert pf.check_operator(op).passed
    assert pf.operator(Model()).key == "model 1"
    # As it is, the class follows the protocol but for the tangent linear.
    np.testing.assert_allclose(
        jax.grad(lambda x: pf.wrap_operator(Model())(x).sum())(STATE), adjoint(STATE, 1.0), rtol=1e-5
    )
    with pytest.raises(SettingError, match=r"tangent_linear='tml': Model has no such method. Did you mean 'tlm'"):
        pf.operator(Model(), tangent_linear="tml")
    with pytest.raises(OperatorError, match=r"'my model' has no tangent linear"):
        jax.jvp(pf.wrap_operator(Model()), (STATE,), (DX,))


def test_what_is_missing_is_named():
    with pytest.raises(SettingError, match="needs forward="):
        pf.operator(n_state=1, n_obs=1)
    with pytest.raises(SettingError, match="needs n_obs=, the size of the observations"):
        pf.operator(forward=forward, n_state=5)
    with pytest.raises(SettingError, match=r"n_state must be a whole number, not 5\.5"):
        pf.operator(forward=forward, n_state=5.5, n_obs=3)
    with pytest.raises(SettingError, match="adjoint must be a function, not ndarray"):
        pf.operator(forward=forward, adjoint=W, n_state=5, n_obs=3)
    with pytest.raises(SettingError, match="key must be a text that is not empty, not ''"):
        tanh_operator(key="")
    with pytest.raises(OperatorError, match=r"'forward' has no adjoint.*Give adjoint="):
        pf.operator(forward=forward, n_state=5, n_obs=3).adjoint(STATE, DY)
    with pytest.raises(SettingError, match="'dict' is no observation operator"):
        pf.wrap_operator({})


@pytest.mark.parametrize(
    "make",
    [
        np.array, list, scipy.sparse.csr_matrix, scipy.sparse.coo_array, aslinearoperator,
        lambda m: LinearOperator(m.shape, matvec=lambda v: m @ v, rmatvec=lambda v: m.T @ v, dtype=float),
    ],
)  # fmt: skip
def test_matrices(make):
    op = pf.matrix_operator(make(W), offset=[1.0, 2.0, 3.0])
    np.testing.assert_allclose(op.forward(STATE), W @ STATE + [1, 2, 3])
    np.testing.assert_allclose(op.tangent_linear(STATE, DX), W @ DX)
    np.testing.assert_allclose(op.adjoint(STATE, DY), DY @ W)
    report = pf.check_operator(op)
    assert not report.problems, str(report)
    H = pf.wrap_operator(op)
    xs = RNG.normal(size=(4, N_STATE)).astype(np.float32)
    np.testing.assert_allclose(jax.jit(jax.vmap(H))(xs), xs @ W.T + [1, 2, 3], rtol=1e-4)
    assert H.calls["forward"] == 1


def test_matrices_that_are_none():
    for bad in (np.ones(3), W + 1j, W * np.nan, [["a"]]):
        with pytest.raises(SettingError, match=r"real and finite with shape \(observation, state\)"):
            pf.matrix_operator(bad)
    with pytest.raises(SettingError, match=r"offset must be finite with shape \(3,\)"):
        pf.matrix_operator(W, offset=np.ones(5))
    keys = [pf.matrix_operator(m).key for m in (W, 2 * W, scipy.sparse.csr_matrix(W), scipy.sparse.csr_matrix(2 * W))]
    assert len(set(keys)) == 4
    assert pf.matrix_operator(W.copy()).key == keys[0]
    assert pf.matrix_operator(aslinearoperator(W)).key is None
    own = W.copy()
    op = pf.matrix_operator(own)
    own[:] = 0  # the operator, whose key says what it is, keeps its numbers
    np.testing.assert_allclose(op.forward(STATE), W @ STATE)


def test_finite_differences():
    op = pf.finite_difference_operator(tanh_operator(key="tanh 1"))
    np.testing.assert_allclose(op.tangent_linear(STATE, DX), tangent_linear(STATE, DX), rtol=1e-8)
    np.testing.assert_allclose(op.adjoint(STATE, DY), adjoint(STATE, DY), rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(op.tangent_linear(STATE, 0 * DX), 0)
    assert op.key == "tanh 1|finite differences 1e-06"
    assert "1 adjoint = 10 forward calls" in repr(op)
    with pytest.raises(SettingError, match="step must be above 0"):
        pf.finite_difference_operator(forward, n_state=5, n_obs=3, step=0)


# ---- theory tables ------------------------------------------------------------------------------------


def tables(names=tuple(OPERATIONS), *, quadratic=()):
    """Data with every operation, and a forward map for them."""
    sets, made = [], []
    for i, name in enumerate(names):
        n = OPERATIONS[name].n_operands
        own = [fake_table(f"T{i}_{k}", 3, seed=20 * i + k, quadratic=name in quadratic) for k in range(n)]
        made += own
        sets.append(fake_dataset(f"S{i}_NC_1GEV_F2", 3, tables=[[t.name] for t in own], operation=name))
    return fake_data(*sets), fake_theory(*made)


def pdf(x):
    return np.stack([(1 + i) * x**0.3 * (1 - x) ** (3 + 0.1 * i) for i in range(len(EVOLUTION))])


@pytest.mark.parametrize("basis", ["evolution", "fitted"])
@pytest.mark.parametrize("quadratic", [(), ("NULL", "RATIO")])
def test_tables(basis, quadratic):
    data, theory = tables(quadratic=quadratic)
    op = pf.theory_operator(data, theory, basis=basis)
    rows = [EVOLUTION.index(name) for name in FITTED]
    state = (pdf(X) if basis == "evolution" else pdf(X)[rows]).ravel()
    full = pdf(X) if basis == "evolution" else to_evolution() @ pdf(X)[rows]
    np.testing.assert_allclose(op.forward(state), forward_map(data, theory).predict(full), rtol=1e-12)
    assert not op.linear
    states = state * RNG.uniform(0.8, 1.2, size=(3, len(state)))
    report = pf.check_operator(op, states)
    assert not report.problems, str(report)
    assert report.measured["dot test"] < 1e-12
    assert report.measured["Taylor test"] < 1e-8


def test_linear_tables_are_said_to_be_linear_and_match_predictions():
    data, theory = tables(["NULL", "ADD", "SMT"])
    op = pf.theory_operator(forward_map(data, theory))
    assert op.linear
    np.testing.assert_allclose(op.forward(pdf(X).ravel()), pf.predictions(data, theory, pdf), rtol=1e-12)
    assert not pf.check_operator(op).problems
    others = [
        pf.theory_operator(forward_map(data, theory), basis="fitted"),
        pf.theory_operator(*tables(["NULL", "ADD"])),
    ]
    assert len({op.key, *(o.key for o in others)}) == 3


def test_the_embedded_tables_as_a_black_box_give_the_gradient_of_chi2():
    data, theory = pf.load_data("hera"), pf.load_theory("hera")
    H = pf.wrap_operator(pf.theory_operator(data, theory, basis="fitted"))
    forward = forward_map(data, theory)
    matrix = np.einsum("dfx,fk->dkx", forward.linear_matrix(), to_evolution()).reshape(data.n_data, -1)
    rows = [EVOLUTION.index(name) for name in FITTED]
    state = pf.toy_pdf(forward.x)[rows].ravel()
    error = 0.1 * np.abs(data.values)
    with jax.enable_x64(True):
        chi2 = jax.jit(jax.value_and_grad(lambda s: (((H(s) - data.values) / error) ** 2).sum()))
        value, gradient = chi2(state)
    residual = (matrix @ state - data.values) / error
    assert float(value) == pytest.approx(residual @ residual, rel=1e-10)
    np.testing.assert_allclose(gradient, 2 * matrix.T @ (residual / error), rtol=1e-9)


def test_settings_of_the_tables():
    data, theory = tables(["NULL"])
    with pytest.raises(SettingError, match="Did you mean 'evolution'"):
        pf.theory_operator(data, theory, basis="evolutoin")
    with pytest.raises(SettingError, match="needs data and a theory"):
        pf.theory_operator(data)
    with pytest.raises(SettingError, match="A forward map holds its theory"):
        pf.theory_operator(forward_map(data, theory), theory)


# ---- the transport model --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return pf.transport_model()


def test_the_transport_model_is_as_large_as_it_says_and_its_adjoint_is_exact(model):
    assert (model.n_state, model.n_obs, model.linear) == (2000, 100, False)
    states = RNG.uniform(0, 1, size=(2, model.n_state))
    report = pf.check_operator(model, states)
    assert not report.problems, str(report)
    assert report.measured["dot test"] < 1e-13
    x, dx = RNG.uniform(size=(2, model.n_state))
    # An imaginary step gives the derivative to rounding, and knows nothing of our tangent linear.
    right = model.forward(x + 1e-30j * dx).imag / 1e-30
    np.testing.assert_allclose(model.tangent_linear(x, dx), right, rtol=1e-12)
    # The linearisation matters: at another state the derivative is another one.
    other = model.tangent_linear(np.zeros_like(x), dx)
    assert np.linalg.norm(other - right) > 0.3 * np.linalg.norm(right)


def test_transport_conserves_mass_and_keeps_concentrations_positive():
    calm = pf.transport_model(20, 15, stations=300, times=3, loss=0, saturation=float("inf"))
    assert calm.linear
    x = np.zeros(300)
    x[137] = 1
    seen = calm.forward(x).reshape(3, 300)  # a station in every cell
    np.testing.assert_allclose(seen.sum(axis=1), 8 * np.arange(1, 4), rtol=1e-12)
    assert seen.min() >= 0
    assert not pf.check_operator(calm).problems
    # Reaction takes away what the rate law says: for uniform emissions wind and diffusion change nothing.
    reacting = pf.transport_model(20, 15, stations=300, times=1, steps=4, loss=0.2, saturation=float("inf"))
    c = 0.0
    for _ in range(4):
        c = c - 0.2 * c**2 + 0.3
    np.testing.assert_allclose(reacting.forward(np.full(300, 0.3)), c, rtol=1e-12)


def test_a_cloud_moves_and_spreads_as_diffusion_says():
    still = pf.transport_model(
        41, 41, stations=41 * 41, times=1, steps=21, wind=0, diffusion=0.1, loss=0, saturation=float("inf")
    )
    x = np.zeros((41, 41))
    x[20, 20] = 1
    # One pulse: emission for 21 steps less emission for 20.
    before = pf.transport_model(
        41, 41, stations=41 * 41, times=1, steps=20, wind=0, diffusion=0.1, loss=0, saturation=float("inf")
    )
    pulse = (still.forward(x.ravel()) - before.forward(x.ravel())).reshape(41, 41)
    offset = np.arange(41) - 20
    assert pulse.sum() == pytest.approx(1)
    assert (pulse.sum(axis=0) * offset**2).sum() == pytest.approx(2 * 0.1 * 20, rel=1e-6)  # variance 2 D t
    assert (pulse.sum(axis=1) * offset).sum() == pytest.approx(0, abs=1e-12)


def test_the_transport_model_in_jax(model):
    H = pf.wrap_operator(model)
    xs = RNG.uniform(size=(3, model.n_state)).astype(np.float32)
    y = model.forward(xs)
    found = jax.jit(jax.vmap(jax.grad(lambda x: (H(x) ** 2).sum())))(xs)
    np.testing.assert_allclose(found, model.adjoint(xs, 2 * y), rtol=1e-3, atol=1e-5)
    assert H.calls == {"forward": 1, "tangent_linear": 0, "adjoint": 1, "stored": 0}
    assert pf.transport_model(seed=1).key != model.key == pf.transport_model().key
    for settings, message in [
        ({"wind": 0.6, "diffusion": 0.2}, "step is unstable"),
        ({"stations": 3000}, "There are 2000 cells"),
        ({"saturation": 0}, "saturation must be above zero"),
        ({"loss": -1}, "loss must be above"),
    ]:
        with pytest.raises(SettingError, match=message):
            pf.transport_model(**settings)
