"""Quadratic rows in the short form of a fit, against the whole tables."""

import jax
import jax.numpy as jnp
import numpy as np
import partonfit as pf
import pytest
from fakes import X, fake_data, fake_dataset, fake_table, fake_theory
from partonfit._errors import TheoryError
from partonfit._vocabulary import to_evolution
from partonfit.data import load_constraints, load_data
from partonfit.models import toy_pdf
from partonfit.theory import forward_map, load_theory, union_grid

FLAVOURS = ("Sigma", "g", "V", "T3", "T8", "V35", "T15")


def hadronic(n=5, operation="RATIO"):
    tables = [fake_table("Q", n, quadratic=True, flavours=FLAVOURS), fake_table("L", n, flavours=FLAVOURS, x=X[1:])]
    names = [["Q"], ["L"]] if operation == "RATIO" else [["Q"]]
    data = fake_data(
        fake_dataset("A", n, tables=names, operation=operation),
        fake_dataset("B", n, tables=[["L"]], seed=4),
    )
    return forward_map(data, fake_theory(*tables))


def smooth_pdfs(x, count=20, size=0.3, seed=0):
    """PDFs of the toy's size with other shapes (count, 14, x)."""
    rng = np.random.default_rng(seed)
    fitted = np.linalg.pinv(to_evolution()) @ toy_pdf(x)
    place = np.log(1 / x) + 5 * (1 - x)
    waves = np.cos(np.outer(rng.uniform(0, 0.4, 8 * count), place) + rng.uniform(0, 7, (8 * count, 1)))
    return np.einsum("ek,rkx->rex", to_evolution(), fitted * (1 + size * waves.reshape(count, 8, len(x))))


@pytest.mark.parametrize("operation", ["NULL", "RATIO"])
def test_without_tolerance_nothing_is_lost(operation):
    forward = hadronic(operation=operation)
    short = forward.reduced(toy_pdf(forward.x), to_evolution(), tolerance=0)
    xf = smooth_pdfs(forward.x)
    features = np.einsum("pkx,rkx->rp", short.nonlinear_matrix(), xf)
    points = short.nonlinear_points(features)
    np.testing.assert_allclose(points, forward.predict(xf)[:, ~forward.linear], rtol=1e-8)
    np.testing.assert_array_equal(short.predict(xf), forward.predict(xf))
    compiled = jax.jit(short.nonlinear_points)(jnp.asarray(features, dtype=jnp.float32))
    np.testing.assert_allclose(compiled, points, rtol=1e-3)


@pytest.mark.parametrize("shared_legs", [False, True])
def test_the_error_follows_the_tolerance(shared_legs, monkeypatch):
    """Both short forms: directions by row, and directions in a space that all rows share."""
    monkeypatch.setattr("partonfit.theory._reduction._WORTH_SHARING", 1e9 if shared_legs else 0.0)
    forward = hadronic()
    xf = smooth_pdfs(forward.x)
    exact = forward.predict(xf)[:, ~forward.linear]
    errors, sizes = [], []
    for tolerance in (1e-1, 1e-2, 1e-4):
        short = forward.reduced(toy_pdf(forward.x), to_evolution(), tolerance)
        assert (short.reduction.directions is not None) == shared_legs
        points = short.nonlinear_points(np.einsum("pkx,rkx->rp", short.nonlinear_matrix(), xf))
        errors.append(float(np.sqrt(np.mean((points / exact - 1) ** 2))))
        sizes.append(short.reduction.sums.shape[0])
    assert errors[0] > errors[1] > errors[2]
    assert errors[1] < 3e-2
    assert errors[2] < 3e-4
    assert sizes[0] < sizes[1] < sizes[2]


def test_the_short_form_has_to_be_made_first():
    with pytest.raises(TheoryError, match=r"Call reduced\(\)"):
        hadronic().nonlinear_matrix()


def test_a_map_on_a_larger_grid_predicts_the_same():
    forward = hadronic()
    grid = union_grid([forward.x, [1e-6, 0.05]])
    larger = forward.on(grid)
    np.testing.assert_allclose(larger.predict(toy_pdf(grid)), forward.predict(toy_pdf(forward.x)), rtol=1e-13)
    with pytest.raises(TheoryError, match=r"lacks the point x = 0\.1"):
        forward.on(grid[grid != 0.1])


def test_drell_yan_positivity_with_few_directions(shared):
    """On the tables of NNPDF4.0: a small part of the products, and the error of a smooth PDF that was promised."""
    constraints = [c for c in load_constraints() if "_DY" in c.dataset.name]
    forward = forward_map([c.dataset for c in constraints], load_theory(shared / "theory" / "positivity"))
    short = forward.reduced(toy_pdf(forward.x), to_evolution(), 1e-3)
    assert len(short.nonlinear_matrix()) < 12 * forward.n_data  # of 28 * 8 for each row
    xf = smooth_pdfs(forward.x)
    points = short.nonlinear_points(np.einsum("pkx,rkx->rp", short.nonlinear_matrix(), xf, optimize=True))
    error = np.abs(points - forward.predict(xf)) / forward.predict(xf).max(axis=1, keepdims=True)
    assert error.max() < 1e-2
    assert np.median(error) < 1e-4


@pytest.mark.parametrize(
    "name", ["LHCB_WPWM_7TEV_MUON_Y", "DYE866_Z0_800GEV_DW_RATIO_PDXSECRATIO", "D0ZRAP-D0_ZNORM_MCgrid_500M"]
)
def test_hadronic_data_in_the_short_form(shared, name):
    """W at LHCb (sums), the E866 ratio of deuteron and proton, and the total of the D0 Z distribution."""
    theory = load_theory(shared / "theory" / "hadronic")
    if name in theory.names:
        data = fake_data(fake_dataset(name, theory.table(name).n_data, tables=[[name]]))
    else:
        data = load_data([name], q2min=0, w2min=0)
    forward = forward_map(data, theory)
    short = forward.reduced(toy_pdf(forward.x), to_evolution(), 1e-4)
    xf = smooth_pdfs(forward.x, 10, size=0.1)
    points = short.nonlinear_points(np.einsum("pkx,rkx->rp", short.nonlinear_matrix(), xf, optimize=True))
    error = np.abs(points / forward.predict(xf) - 1)
    assert np.median(error) < 1e-4
    assert np.quantile(error, 0.98) < 3e-3  # the rest: ratios through zero at the edge of phase space


def test_data_quadratic_in_the_pdf_are_fitted():
    """The compressed chi2 of trained replicas is the plain one, with whole tables, to a part of a point's error."""
    data = fake_data(fake_dataset("A", 8, tables=[["L"]]), fake_dataset("B", 8, tables=[["Q"]], seed=4))
    theory = fake_theory(
        fake_table("Q", 8, quadratic=True, flavours=FLAVOURS), fake_table("L", 8, flavours=FLAVOURS, x=X[1:])
    )
    control = pf.fit_control(epochs=100, threshold_chi2=None, quadratic_tolerance=1e-6)
    fit = pf.fit_pdf(data, theory, model=pf.pdf_model(nodes=(4,)), replicas=2, seed=1, t0=None, control=control)
    plain = fit.chi2().per_point
    assert fit.provenance["compression"]["error_per_point"] < 1e-3 * plain
    assert (np.nanmin(fit.history["training"], axis=1) < fit.history["training"][:, 0]).all()
