"""Positivity and integrability: the loss, its multipliers, fits under it, and what postfit makes of it."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import partonfit as pf
import pytest
from fakes import X, fake_data, fake_dataset, fake_table, fake_theory
from partonfit._vocabulary import to_evolution
from partonfit.data import Constraint, load_constraints
from partonfit.inference import make_penalty
from partonfit.inference._constraints import Multipliers, elu
from partonfit.models import toy_pdf
from partonfit.results._replicas import FITTED, INTEGRABLE, Measures, vetoes
from partonfit.results._summary import constraint_losses
from partonfit.theory import forward_map, load_theory

LINEAR = fake_table("POS", 4, flavours=("Sigma", "g", "V", "T3"), seed=3)
LOW = fake_table("INT", 1, flavours=("T8",), x=X[:1] / 10, seed=4)
PRODUCT = fake_table("DY", 3, flavours=("Sigma", "g", "V"), quadratic=True, seed=5)


def constraint(name, table, kind="positivity", most=1e6, sign=1.0):
    dataset = fake_dataset(name, table.n_data, tables=[[table.name]])
    return Constraint(replace(dataset, conversion_factor=sign), kind, most)


def setting(sign=1.0):
    observables = (
        constraint("POS", LINEAR, sign=sign),
        constraint("DY", PRODUCT, most=1e10),
        constraint("INT", LOW, "integrability", 1e2),
    )
    theory = fake_theory(LINEAR, PRODUCT, LOW, fake_table("D", 12, flavours=("Sigma", "g", "T3", "V"), seed=6))
    return observables, theory


def penalty(sign=1.0, tolerance=0.0, epochs=1000):
    observables, theory = setting(sign)
    forward = forward_map([c.dataset for c in observables], theory)
    return make_penalty(
        observables, forward, toy_pdf, epochs=epochs, positivity=Multipliers(184.8), integrability=Multipliers(10.0),
        threshold=1e-6, tolerance=tolerance,
    )  # fmt: skip


def by_hand(xf, epoch, sign=1.0, epochs=1000):
    """The loss of every observable, written out from the formula."""
    losses = []
    tables = ((LINEAR, 184.8, 1e6, sign), (PRODUCT, 184.8, 1e10, 1.0), (LOW, 10.0, 1e2, 1.0))
    for table, first, most, factor in tables:
        grid = np.concatenate([LOW.x, X])
        own = xf[:, np.isin(grid, table.x)]
        scaled = first * (most / first) ** ((epoch // 100) / (epochs // 100)) * factor * table.predict(own)
        if table is LOW:
            losses.append(float((scaled**2).sum()))
        else:
            losses.append(sum(-t if t < 0 else 1e-7 * (np.exp(-t) - 1) for t in scaled))
    return losses


def random_fitted(seed=0):
    fitted = np.random.default_rng(seed).normal(size=(1 + len(X), 8))
    fitted[-1] = 0  # at x = 1
    return fitted


@pytest.mark.parametrize("epoch", [0, 99, 100, 999])
@pytest.mark.parametrize("seed", range(3))
def test_the_loss_is_the_published_formula(epoch, seed):
    tested, fitted = penalty(), random_fitted(seed)
    expected = by_hand(to_evolution() @ fitted.T, epoch)
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        value = tested(jnp.asarray(fitted), tested.arrays("float64"), jnp.int32(epoch))
        assert float(value.training) == pytest.approx(sum(expected), rel=1e-7)
        assert float(value.validation) == pytest.approx(sum(expected[:2]), rel=1e-7)  # integrability only trains
        assert bool(value.passed) == all(loss < 1e-6 for loss in expected[:2])
    exact = tested.losses((to_evolution() @ fitted.T)[None], np.array([epoch]))
    np.testing.assert_allclose(exact[0], expected, rtol=1e-10)


def test_positive_observables_pass_and_cost_nothing():
    tested = penalty()
    xf = np.full((1 + len(X), 8), 0.3)
    xf[-1] = 0
    value = tested(jnp.asarray(xf, dtype=jnp.float32), tested.arrays("float32"), jnp.int32(900))
    assert bool(value.passed)
    assert -1e-6 < float(value.validation) <= 0  # at most 1e-7 per point, whatever the multiplier


def test_gradients_stay_finite_however_large_the_multiplier():
    gradient = jax.grad(lambda t: elu(-t).sum())(jnp.array([-1e30, -1.0, 1.0, 1e30], dtype=jnp.float32))
    np.testing.assert_allclose(gradient, [-1, -1, -1e-7 * np.exp(-1), 0], rtol=1e-6)


@pytest.mark.parametrize(
    ("multipliers", "first", "last"),
    [(Multipliers(184.8), 184.8, 1e6), (Multipliers(None), 1.0, 1e6), (Multipliers(None, 1.05), None, 1e6),
     (Multipliers(2.0, 1.05), 2.0, None)],
)  # fmt: skip
def test_multipliers_reach_their_maximum_at_the_last_epoch(multipliers, first, last):
    initial, growth = multipliers.schedule(1e6, 17000)
    assert first is None or initial == first
    assert last is None or initial * growth**170 == pytest.approx(last)


def test_a_quadratic_observable_in_short_form():
    short = penalty(tolerance=1e-3)
    xf = toy_pdf(short.forward.x)[None]
    assert 0 < short.error(xf) < 1e-2
    assert penalty().error(xf) < 1e-8


@pytest.fixture(scope="module")
def fits():
    """The same small fit without constraints, with ones that bind, and with one that nothing can satisfy."""
    data = fake_data(fake_dataset("D", 12, tables=[["D"]]))
    model = pf.pdf_model(nodes=(6,))
    control = pf.fit_control(epochs=300, threshold_chi2=None)
    (positive, product, low), theory = setting()
    # A combination and its negative are never both positive.
    both = replace(LINEAR, name="BOTH", values=LINEAR.values[[0, 0]] * np.array([1.0, -1.0])[:, None, None])
    theory = fake_theory(LINEAR, PRODUCT, LOW, theory.table("D"), both)
    impossible = constraint("BOTH", both)

    def fit(constraints):
        return pf.fit_pdf(
            data, theory, model=model, replicas=3, seed=2, t0=None, constraints=constraints, control=control
        )

    return fit(None), fit([positive, product, low]), fit([impossible])


def test_replicas_of_a_constrained_fit_satisfy_the_constraints(fits):
    free, bound, _ = fits
    assert free.constraint_losses is None
    assert free.settings["constraints"] is None
    assert [c["dataset"] for c in bound.settings["constraints"]] == ["POS", "DY", "INT"]
    assert bound.constraint_losses.shape == (3, 3)
    assert bound.kept.any()
    assert (bound.constraint_losses[bound.kept, :2] < 1e-6).all()


def test_what_cannot_be_satisfied_is_said(fits):
    for status in fits[2].statuses:
        assert status.status == "never_passed"
        assert status.sentence == "never passed positivity within 300 epochs"
        assert not status.kept


def test_constraint_losses_are_stored(fits, tmp_path):
    fits[1].save(tmp_path / "fit")
    again = pf.load_fit(tmp_path / "fit")
    np.testing.assert_array_equal(again.constraint_losses, fits[1].constraint_losses)
    assert again.statuses == fits[1].statuses


def test_the_summary_lists_every_observable(fits):
    found = constraint_losses(fits[1])
    assert [(c.name, c.kind, c.n_data) for c in found] == [
        ("POS", "positivity", 4), ("DY", "positivity", 3), ("INT", "integrability", 1),
    ]  # fmt: skip
    kept = fits[1].constraint_losses[fits[1].kept]
    np.testing.assert_array_equal([c.largest for c in found], kept.max(axis=0))
    assert constraint_losses(fits[0]) == ()


def test_postfit_decides_anew_and_can_be_undone(fits):
    fit = fits[1]
    none = pf.postfit(fit, integrability=1e-300)
    assert not none.kept.any()
    assert "not integrable" in none.statuses[0].sentence
    assert pf.postfit(none).statuses == fit.statuses
    with pytest.raises(pf.SettingError, match="sigmas"):
        pf.postfit(fit, sigmas=0)


def test_missing_tables_of_constraints_are_an_error_before_the_fit():
    with pytest.raises(pf.TheoryError, match="NNPDF_POS_F2U_40"):
        pf.fit_pdf("hera", constraints="nnpdf40", replicas=1)
    with pytest.raises(pf.SettingError, match="constraints must be None"):
        pf.fit_pdf("hera", constraints=3)


def test_postfit_from_the_command_line(tmp_path):
    from partonfit.cli import app
    from typer.testing import CliRunner

    fit = pf.fit_pdf("hera", replicas=2, seed=1, control=pf.fit_control(epochs=3, threshold_chi2=None))
    fit.save(tmp_path / "fit")
    options = ["postfit", str(tmp_path / "fit"), "-o", str(tmp_path / "loose"), "--integrability", "1e9"]
    assert CliRunner().invoke(app, options, catch_exceptions=False).exit_code == 0
    assert pf.load_fit(tmp_path / "loose").statuses == pf.postfit(fit, integrability=1e9).statuses


def measures(n=60):
    rng = np.random.default_rng(0)
    return Measures(
        chi2=rng.normal(1.3, 0.02, n), lengths=rng.normal(10, 0.5, (n, len(FITTED))),
        integrals=np.full((n, len(INTEGRABLE)), 0.1), positivity=np.full((n, 2), -2e-6), observables=("F2U", "DYD"),
    )  # fmt: skip


def test_every_veto_names_its_reason():
    found = measures()
    found.chi2[3] = 9.0
    found.lengths[4, 1] = 90.0
    found.integrals[5, INTEGRABLE.index("T8")] = 0.6
    found.positivity[6, 1] = 0.5
    reasons = vetoes(found, np.ones(60, dtype=bool))
    assert {i: r.partition(":")[2].split(",")[0].strip()[:20] for i, r in enumerate(reasons) if r} == {
        3: "chi2 per point 9 exc",
        4: "arc length of g 90 e",
        5: "T8 is not integrable",
        6: "positivity of DYD fa",
    }


def test_a_veto_changes_the_mean_that_the_next_one_sees():
    """An outlier hides behind a larger one; a replica that failed positivity never counts."""
    found = measures()
    found.chi2[:2] = 2.0, 50.0
    found.chi2[2], found.positivity[2, 0] = 1e6, 1.0
    reasons = vetoes(found, np.ones(60, dtype=bool))
    assert [bool(reason) for reason in reasons[:3]] == [True, True, True]
    assert not any(reasons[3:])
    assert not any(vetoes(measures(), np.ones(60, dtype=bool)))


def test_thresholds_of_the_vetoes_can_be_set():
    usable = np.ones(60, dtype=bool)
    assert all(vetoes(measures(), usable, integrability=0.05))
    assert any(vetoes(measures(), usable, sigmas=1.0))
    assert all(vetoes(measures(), usable, positivity=-1.0))


def test_entries_of_constraints_come_back():
    entries = [c.entry() for c in load_constraints()]
    again = load_constraints(entries)
    assert [c.entry() for c in again] == entries
    assert {c.dataset.name: c.dataset.n_data for c in again} == {
        c.dataset.name: c.dataset.n_data for c in load_constraints()
    }
    with pytest.raises(pf.SettingError, match="listed 2 times"):
        load_constraints(entries + entries[:1])


def test_a_folder_of_theory_folders_is_a_theory(shared):
    theory = load_theory(shared / "theory")
    assert {"NNPDF_POS_DYU_40", "HERA_NC_225GEV_EP_SIGMARED", "LHCB_WP_7TEV"} <= set(theory.names)


def test_n3fit_replicas_satisfy_positivity_here_too(shared):
    """The losses of n3fit's own replicas by our tables: all of them passed there."""
    from partonfit._vocabulary import FLAVOURS, FROM_FLAVOURS
    from scipy.interpolate import CubicSpline

    stored = np.load(shared / "reference" / "n3fit_dis_replicas.npz")
    names = {"GLUON": "g", "PHT": "photon"}
    order = [
        FLAVOURS.index(names.get(str(n), str(n).lower().replace("bar", "") + "bar" * ("BAR" in str(n))))
        for n in stored["labels"]
    ]
    flavours = np.zeros((10, 14, 196))
    flavours[:, order] = stored["xf"].transpose(0, 2, 1)
    evolution = np.einsum("ef,rfx->rex", FROM_FLAVOURS, flavours)
    constraints = load_constraints()
    forward = forward_map([c.dataset for c in constraints], load_theory(shared / "theory" / "positivity"))
    tested = make_penalty(
        constraints, forward, toy_pdf, epochs=17000, positivity=Multipliers(184.8), integrability=Multipliers(10.0),
        threshold=1e-6, tolerance=3e-3,
    )  # fmt: skip
    xf = CubicSpline(np.log(stored["x"]), evolution, axis=-1)(np.log(np.clip(forward.x, stored["x"][0], 1)))
    losses = tested.losses(xf, np.full(10, 17000))
    assert (losses[:, tested.positive] < 1e-6).all()
    arrays = tested.arrays("float32")
    for fitted in np.einsum("kf,rfx->rxk", np.linalg.pinv(to_evolution()), xf):
        assert bool(tested(jnp.asarray(fitted, dtype=jnp.float32), arrays, jnp.int32(16999)).passed)
