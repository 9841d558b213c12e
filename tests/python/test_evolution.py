"""Evolution: sum rules, the exact solution, eko's own kernels, caches and refusals."""

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from partonfit._errors import SettingError
from partonfit._vocabulary import EVOLUTION
from partonfit.models._toy import toy_pdf
from partonfit.theory.evolution import (
    EvolutionCard,
    _contour,
    _coupling,
    _kernels,
    _moments,
    _operators,
    alpha_s,
    default_card,
    evolve,
    input_grid,
    lambert_grid,
)

SIGMA, GLUON = EVOLUTION.index("Sigma"), EVOLUTION.index("g")
SCALES = [3.5, 10.0, 4.92**2, 100.0, 1e4, 1e10]


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    monkeypatch.setenv("PARTONFIT_CACHE", "")


def _integral(x, values):
    """Integrate (..., x) by splines in log x; ``values`` is x times the integrand."""
    from scipy.interpolate import CubicSpline

    return CubicSpline(np.log(x), values, axis=-1).integrate(np.log(x[0]), 0.0)


@pytest.fixture(scope="module")
def evolved():
    x_in, x_out = input_grid(), lambert_grid(300, 1e-9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PARTONFIT_CACHE", "")
        return x_out, evolve(toy_pdf(x_in)[None], x_in, x_out, SCALES)[0]


def test_momentum_and_valence_are_conserved(evolved):
    x, xf = evolved
    start = toy_pdf(x)
    momentum = _integral(x, x * (xf[:, SIGMA] + xf[:, GLUON]))
    lost = np.abs(momentum / _integral(x, x * (start[SIGMA] + start[GLUON])) - 1)
    assert (lost < [2e-6, 2e-6, 2e-6, 5e-6, 1e-5, 1e-4]).all()  # at 1e5 GeV some lies below x = 1e-9
    for name in ("V", "V3", "V8"):
        row = EVOLUTION.index(name)
        assert np.allclose(_integral(x, xf[:, row]), _integral(x, start[row]), rtol=5e-4)


def test_heavy_quarks_appear_at_their_thresholds(evolved):
    _, xf = evolved
    t24, t35, sigma = (xf[:, EVOLUTION.index(name)] for name in ("T24", "T35", "Sigma"))
    np.testing.assert_allclose(t24[:2], sigma[:2], rtol=1e-12)
    assert (t24[3:, 100] < sigma[3:, 100]).all()  # a bottom quark: Sigma - T24 = 5 (b + bbar)
    np.testing.assert_allclose(t35, sigma, rtol=1e-12)


def test_evolution_to_the_starting_scale_changes_nothing():
    x = input_grid()
    out = np.array([1e-8, 1e-4, 0.03, 0.4, 0.9])
    same = evolve(toy_pdf(x)[None], x, out, [1.65**2])[0, 0]
    expected = toy_pdf(out)
    for name in ("Sigma", "g", "V", "T8"):
        row = EVOLUTION.index(name)
        assert same[row] == pytest.approx(expected[row], rel=1e-4)


def test_replicas_and_scales_are_evolved_as_if_alone():
    x = input_grid()
    out = np.array([1e-3, 0.2])
    two = np.stack([toy_pdf(x), 2 * toy_pdf(x)])
    together = evolve(two, x, out, [10.0, 100.0])
    assert together[1] == pytest.approx(2 * together[0], rel=1e-12)
    alone = evolve(two[1:], x, out, [100.0])
    assert np.allclose(alone[0, 0], together[1, 1], rtol=1e-10, atol=1e-12)


def test_solution_is_exact_for_a_pdf_with_known_moments():
    """Invert the evolved analytic moments of V on a contour of its own: no grid, no polynomials."""
    from scipy.special import loggamma

    card = default_card()
    x, q2 = 0.05, 4.9**2
    s, w = np.polynomial.legendre.leggauss(120)
    t, w = 0.5 + 0.47 * (s + 1) / 2, w * 0.47 / 2
    theta = np.pi * (2 * t - 1)
    n = 10 / (0.1 - np.log(x)) * (theta / np.tan(theta) + 1j * theta)
    slope = 2 * np.pi * (1 / np.tan(theta) - theta / np.sin(theta) ** 2 + 1j) * 10 / (0.1 - np.log(x))
    # Only the leading order has simple moments of its own here: gamma_ns of hep-ph/0404111, eq. 3.4.
    from scipy.special import digamma

    harmonic = digamma(n + 1) + np.euler_gamma
    gamma = (4 / 3) * (4 * harmonic - 3 - 2 / (n * (n + 1)))
    lo = EvolutionCard(order=0)
    a1, a0 = (_coupling.a_s(scale, 4, lo) for scale in (q2, 1.65**2))
    kernel = _kernels.non_singlet(gamma[None], np.array([a1]), a0, 4)[0]

    def moment(a, b):
        return np.exp(loggamma(n - 1 + a) + loggamma(b + 1) - loggamma(n + a + b))

    valence = 5.1072 * moment(0.8, 3.0) + 3.06432 * moment(0.8, 4.0)
    exact = x * np.sum(w * np.real(-1j / np.pi * slope * np.exp(-n * np.log(x)) * kernel * valence))
    grid = input_grid()
    ours = evolve(toy_pdf(grid)[None], grid, np.array([x]), [q2], lo)[0, 0, EVOLUTION.index("V"), 0]
    assert ours == pytest.approx(exact, rel=2e-6)
    assert card.order == 2


def _moments_at_two_and_a_half():
    rng = np.random.default_rng(5)
    gamma = rng.normal(size=(3, 4, 2, 2)) + 1j * rng.normal(size=(3, 4, 2, 2))
    return gamma * np.array([3.0, 20.0, 100.0])[:, None, None, None]


def _exact(gamma, a1, a0, nf, steps=4000):
    """Solve dE/da = R(a) E by small steps (the Magnus midpoint rule)."""
    from scipy.linalg import expm

    beta = _coupling.beta(nf)
    e = np.eye(2, dtype=complex)
    edges = np.linspace(a0, a1, steps + 1)
    for low, high in itertools.pairwise(edges):
        a = (low + high) / 2
        ratio = sum(g * a**k for k, g in enumerate(gamma)) / (a * sum(b * a**k for k, b in enumerate(beta)))
        e = expm(ratio * (high - low)) @ e
    return e


def _faulty(gamma, a1, a0, nf):
    """The formula of eko 0.15.2 to 0.15.7: second-order terms act on the changed operator."""
    r = _kernels._r(gamma[:, None], nf)
    u1, u2 = (u[0] for u in _kernels.u_matrices(r))
    e = _kernels.singlet(gamma[:1, None], np.array([a1]), a0, nf)[0, 0]
    e = e + a1 * u1 @ e - a0 * e @ u1
    return e + a1**2 * u2 @ e - a1 * a0 * u1 @ e @ u1 + a0**2 * e @ (u1 @ u1 - u2)


def test_truncated_singlet_has_the_expected_order_and_the_faulty_formula_has_not():
    """Against the exact solution the error falls as a^3; the faulty formula is another function."""
    gamma = _moments_at_two_and_a_half()[:, 0]
    errors = []
    for scale in (1.0, 0.5):
        a1, a0 = 0.01 * scale, 0.02 * scale
        ours = _kernels.singlet(gamma[:, None], np.array([a1]), a0, 4)[0, 0]
        errors.append(np.abs(ours - _exact(gamma, a1, a0, 4)).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(3, abs=0.4)
    correct = _kernels.singlet(gamma[:, None], np.array([0.01]), 0.02, 4)[0, 0]
    assert np.abs(_faulty(gamma, 0.01, 0.02, 4) - correct).max() > 1e-4 * np.abs(correct).max()


def test_singlet_stays_near_the_exact_solution_where_the_faulty_formula_has_a_pole():
    """The fault sits near N = 1.8, on real anomalous dimensions."""
    moments = _moments.load()
    nodes = moments["n"] + 1
    radius, node = np.unravel_index(np.argmin(np.abs(nodes - 1.8)), nodes.shape)
    gamma = moments["singlet4"][:, radius, node]
    ours = _kernels.singlet(gamma[:, None], np.array([0.0175]), 0.0263, 4)[0, 0]
    wrong = _faulty(gamma, 0.0175, 0.0263, 4)
    assert np.abs(ours - wrong).max() > 1e-5
    exact = _exact(gamma, 0.0175, 0.0263, 4, steps=400)
    assert np.abs(ours - exact).max() < 2e-2


def test_alpha_s_at_reference_and_across_the_bottom_threshold():
    below, above = alpha_s([(4.92**2, 4), (4.92**2, 5)])
    assert alpha_s([91.2**2])[0] == pytest.approx(0.118, rel=1e-14)
    assert above / below - 1 == pytest.approx(14 / 3 * (below / (4 * np.pi)) ** 2, rel=1e-2)
    # Values of the running coupling in the NNLO theory with alpha_s(91.2 GeV) = 0.118.
    assert alpha_s([1.65**2, 1e10]) == pytest.approx([0.33074890793594997, 0.05779854630930846], rel=1e-12)


def test_moments_in_the_package_are_ekores_own():
    stored = _moments.load()
    n, _ = _contour.nodes()
    some = n[::5, ::37]
    fresh = _moments.compute(some)
    for name in ("singlet4", "singlet5"):
        assert fresh[name] == pytest.approx(stored[name][:, ::5, ::37], rel=1e-12, abs=1e-12)
    assert fresh["matching"] == pytest.approx(stored["matching"][::5, ::37], rel=1e-10, abs=1e-10)
    assert fresh["ns5"] == pytest.approx(stored["ns5"][:, :, ::5, ::37], rel=1e-12, abs=1e-12)


_EKO = """
import json, sys
import numpy as np
from eko.kernels import singlet, non_singlet, EvoMethods
from eko.couplings import Couplings, CouplingEvolutionMethod
from eko.quantities.couplings import CouplingsInfo
from eko.quantities.heavy_quarks import QuarkMassScheme
from eko import beta, interpolation
gamma, ns = np.load(sys.argv[1]), np.load(sys.argv[2])
b = [beta.beta_qcd((2 + i, 0), 4) for i in range(3)]
lo = singlet.lo_exact(gamma, 0.0175, 0.0263, b)
r = singlet.r_vec(gamma, b, (3, 0), (3, 0), False)
u = singlet.u_vec(r, (3, 0))
flat = lambda m: [[v.real, v.imag] for v in np.ravel(m)]
c = Couplings(CouplingsInfo(0.118, 0.0075, (91.2, 5)), (3, 0), CouplingEvolutionMethod.EXPANDED,
              [1.51**2, 4.92**2, 172.5**2], QuarkMassScheme.POLE, [1.0] * 3)
grid = interpolation.XGrid(np.array(json.loads(sys.argv[3])))
d = interpolation.InterpolatorDispatcher(grid, 4, False)
print(json.dumps({
    "lo": flat(lo), "u1": flat(u[1]), "u2": flat(u[2]),
    "ns": flat(non_singlet.dispatcher((3, 0), EvoMethods.TRUNCATED, ns, 0.0175, 0.0263, 4)),
    "a": [c.a_s(q2, nf) for q2, nf in ((3.0, 4), (24.0, 4), (1e4, 5))],
    "basis": [[float(f(x)) for f in d] for x in (0.01, 0.2, 0.7)],
}))
"""


def test_kernels_coupling_and_polynomials_are_ekos(tmp_path):
    """eko's own functions, uncompiled and in a process of their own (compiling them takes minutes)."""
    import json
    import os

    moments = _moments.load()
    gamma, ns = moments["singlet4"][:, 3, 20], moments["ns4"][3, :, 3, 20]
    np.save(tmp_path / "g.npy", gamma)
    np.save(tmp_path / "n.npy", ns)
    x = lambert_grid(12, 1e-3)
    done = subprocess.run(
        [sys.executable, "-c", _EKO, str(tmp_path / "g.npy"), str(tmp_path / "n.npy"), json.dumps(x.tolist())],
        capture_output=True, text=True, check=True, env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    eko = json.loads(done.stdout)
    a1, a0 = 0.0175, 0.0263

    def matrix(name):
        return (np.array(eko[name]) @ [1, 1j]).reshape(2, 2)

    e0, u1, u2 = matrix("lo"), matrix("u1"), matrix("u2")
    expected = (
        e0 + a1 * u1 @ e0 - a0 * e0 @ u1
        + a1**2 * u2 @ e0 - a1 * a0 * u1 @ e0 @ u1 + a0**2 * e0 @ (u1 @ u1 - u2)
    )  # fmt: skip
    ours = _kernels.singlet(gamma[:, None], np.array([a1]), a0, 4)[0, 0]
    assert ours == pytest.approx(expected, rel=1e-11, abs=1e-13)
    valence = _kernels.non_singlet(ns[:, None], np.array([a1]), a0, 4)[0, 0]
    assert valence == pytest.approx(complex(*eko["ns"][0]), rel=1e-12)
    card = default_card()
    a = [_coupling.a_s(q2, nf, card) for q2, nf in ((3.0, 4), (24.0, 4), (1e4, 5))]
    assert a == pytest.approx(eko["a"], rel=1e-13)
    assert _contour.Basis(x).values(np.array([0.01, 0.2, 0.7])) == pytest.approx(np.array(eko["basis"]), abs=1e-10)


def test_operators_are_cached_and_a_damaged_file_is_computed_again(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTONFIT_CACHE", str(tmp_path))
    x = lambert_grid(20, 1e-3)
    first = _operators.operators(x, x, [(10.0, 4)], default_card())
    (file,) = tmp_path.rglob("*.npy")
    file.write_bytes(file.read_bytes()[:100])
    again = _operators.operators(x, x, [(10.0, 4)], default_card())
    assert np.array_equal(first, again)
    monkeypatch.setattr(_operators, "compute", None)  # now only the cache can answer
    assert np.array_equal(first, _operators.operators(x, x, [(10.0, 4)], default_card()))
    assert len([*Path(tmp_path).rglob("*.npy")]) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q2s": [1.0]}, "at least 2.28"),
        ({"q2s": [(100.0, 7)]}, "7 flavours"),
        ({"x_out": np.array([1e-12])}, "x_out must lie"),
        ({"xf0": np.zeros((1, 13, 5))}, "replica, 14, "),
    ],
)
def test_refusals_say_what_is_wrong(change, message):
    x = input_grid()
    arguments = {"xf0": toy_pdf(x)[None], "x_in": x, "x_out": np.array([0.1]), "q2s": [10.0]} | change
    with pytest.raises(SettingError, match=message):
        evolve(**arguments)


def test_cards_refuse_scales_out_of_order():
    with pytest.raises(SettingError, match="ordered"):
        EvolutionCard(q0=1.0)
