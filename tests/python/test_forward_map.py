"""The forward map: rows, operations, and every way tables and data can fail to match."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import X, fake_data, fake_dataset, fake_table, fake_theory
from hypothesis import given, settings
from hypothesis import strategies as st
from partonfit._compare import chi2, chi2_table, closure_data, predictions
from partonfit._errors import DataError, SettingError, TheoryError
from partonfit.theory import _theory as theory_module
from partonfit.theory import forward_map
from partonfit.theory._operations import OPERATIONS

FORMULAS = {
    "NULL": lambda p: p[0],
    "ADD": lambda p: p[0] + p[1],
    "RATIO": lambda p: p[0] / p[1],
    "ASY": lambda p: (p[0] - p[1]) / (p[0] + p[1]),
    "SMN": lambda p: (p[0] + p[1]) / (p[2] + p[3]),
    "SMT": sum,
    "COM": lambda p: sum(p[:10]) / sum(p[10:]),
}


def pdf(x):
    """A smooth positive PDF for made-up tables."""
    x = np.asarray(x)
    return np.arange(1, 15)[:, None] * x**0.3 * (1.001 - x)


def setup(operation="NULL", *, quadratic=False, n=6):
    count = OPERATIONS[operation].n_operands
    tables = [fake_table(f"T{i}", n, seed=i, quadratic=quadratic and i % 2 == 0) for i in range(count)]
    dataset = fake_dataset("A_NC_1GEV_F2", n, tables=[[t.name] for t in tables], operation=operation)
    return fake_data(dataset), fake_theory(*tables), tables


@pytest.mark.parametrize("quadratic", [False, True])
@pytest.mark.parametrize("name", list(OPERATIONS))
def test_operations(name, quadratic):
    data, theory, tables = setup(name, quadratic=quadratic)
    forward = forward_map(data, theory)
    expected = FORMULAS[name]([table.predict(pdf(table.x)) for table in tables])
    np.testing.assert_allclose(forward.predict(pdf(forward.x)), expected, rtol=1e-12)
    assert forward.linear.all() == (OPERATIONS[name].linear and not quadratic)
    if forward.linear.all():
        direct = np.einsum("dfx,fx->d", forward.linear_matrix(), pdf(forward.x))
        np.testing.assert_allclose(direct, expected, rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["NULL", "ADD", "RATIO", "ASY"]), st.integers(1, 4), st.booleans()),
                min_size=1, max_size=4))  # fmt: skip
def test_any_mixture_of_datasets_equals_each_by_itself(kinds):
    sets, tables = [], []
    for i, (operation, n, quadratic) in enumerate(kinds):
        own = [
            fake_table(f"T{i}{k}", n, seed=10 * i + k, x=X[i % 3 :], quadratic=quadratic)
            for k in range(OPERATIONS[operation].n_operands)
        ]
        tables += own
        sets.append(fake_dataset(f"S{i}_NC_1GEV_F2", n, tables=[[t.name] for t in own], operation=operation))
    data, theory = fake_data(*sets), fake_theory(*tables)
    forward = forward_map(data, theory)
    together = data.by_dataset(forward.predict(pdf(forward.x)))
    for dataset in sets:
        alone = forward_map(fake_data(dataset), theory)
        np.testing.assert_allclose(together[dataset.name], alone.predict(pdf(alone.x)), rtol=1e-12)


def test_concatenated_tables_and_cuts():
    parts = [fake_table("P0", 2, seed=1), fake_table("P1", 3, seed=2, x=X[2:]), fake_table("P2", 1, seed=3)]
    whole = fake_dataset("A_NC_1GEV_F2", 6, tables=[["P0", "P1", "P2"]])
    kept = np.array([1, 2, 5])
    cut = replace(whole, kept=kept, values=whole.values[kept], stat=whole.stat[kept],
                  systematics=replace(whole.systematics, additive=whole.systematics.additive[kept],
                                      percent=whole.systematics.percent[kept]))  # fmt: skip
    theory = fake_theory(*parts)
    everything = np.concatenate([part.predict(pdf(part.x)) for part in parts])
    np.testing.assert_allclose(predictions(fake_data(whole), theory, pdf), everything, rtol=1e-12)
    np.testing.assert_allclose(predictions(fake_data(cut), theory, pdf), everything[kept], rtol=1e-12)
    shifted = replace(whole, n_uncut=8, kept=np.array([0, 1, 3, 4, 5, 7]), shifts={"P1": 1, "P2": 1})
    np.testing.assert_allclose(predictions(fake_data(shifted), theory, pdf), everything, rtol=1e-12)


def test_factors_of_the_metadata():
    data, theory, (table,) = setup()
    dataset = replace(data.datasets[0], conversion_factor=2.0, normalization={"T0": 3.0})
    np.testing.assert_allclose(predictions(fake_data(dataset), theory, pdf), 6 * table.predict(pdf(X)), rtol=1e-12)


def test_a_denominator_of_one_row_serves_all_points():
    top, bottom = fake_table("TOP", 4), fake_table("BOTTOM", 1, seed=2)
    dataset = fake_dataset("A_NC_1GEV_F2", 4, tables=[["TOP"], ["BOTTOM"]], operation="RATIO")
    expected = top.predict(pdf(X)) / bottom.predict(pdf(X))
    np.testing.assert_allclose(predictions(fake_data(dataset), fake_theory(top, bottom), pdf), expected, rtol=1e-12)


def test_cfactors(tmp_path, monkeypatch):
    data, theory, (table,) = setup(n=3)
    theory = replace(theory, folders=(tmp_path,))
    theory.__dict__["paths"] = {"T0": tmp_path / "T0"}
    dataset = replace(data.datasets[0], cfac=("QCD", "EWK"))
    monkeypatch.setattr(theory_module, "_published_cfactors", list)
    with pytest.raises(TheoryError, match="no C-factor 'QCD' for the table 'T0'"):
        forward_map(fake_data(dataset), theory)
    (tmp_path / "CF_QCD_T0.dat").write_text("****\nSetName: made up\n****\n1.5 0.0\n2.0 0.0\n2.5 0.0\n")
    (tmp_path / "CF_EWK_T0.dat").write_text("0.5 0.0\n0.5 0.0\n0.5 0.0\n")
    plain = table.predict(pdf(X))
    np.testing.assert_allclose(predictions(fake_data(dataset), theory, pdf), plain * [0.75, 1.0, 1.25], rtol=1e-12)
    without = forward_map(fake_data(data.datasets[0]), theory)
    assert forward_map(fake_data(dataset), theory).hash != without.hash
    (tmp_path / "CF_EWK_T0.dat").write_text("0.5 0.0\n")
    with pytest.raises(TheoryError, match="C-factor 'EWK' of table T0 has 1 rows, but the table has 3"):
        forward_map(fake_data(dataset), theory)
    (tmp_path / "CF_EWK_T0.dat").write_text("0.5 0.0\nhalf\n0.5 0\n")
    with pytest.raises(TheoryError, match="not two numbers"):
        forward_map(fake_data(dataset), theory)


# ---- what is refused --------------------------------------------------------------------------------


def test_rows_that_do_not_match_the_data():
    data, _, _ = setup(n=6)
    with pytest.raises(TheoryError, match=r"has 5 rows for dataset A_NC_1GEV_F2, but the dataset has 6 points"):
        forward_map(data, fake_theory(fake_table("T0", 5)))


def test_missing_table_is_found_before_any_is_read(monkeypatch):
    data, theory, _ = setup("RATIO")
    del theory.__dict__["paths"]["T1"]
    theory.__dict__["paths"]["T11"] = None
    monkeypatch.setattr(theory_module, "read_table", lambda path: pytest.fail("read a table"))
    theory._tables.clear()
    with pytest.raises(TheoryError, match=r"no table 'T1'.*Did you mean 'T11'"):
        forward_map(data, theory)


def test_empty_row_for_a_point_that_passed_the_cuts():
    data, _, (table,) = setup()
    table.values[3] = 0
    with pytest.raises(TheoryError, match=r"T0 is empty in row 3.*raise q2min"):
        forward_map(data, fake_theory(table))
    assert forward_map(list(data.datasets), fake_theory(table)).n_data == 6  # constraints may vanish


def test_unknown_operation_and_wrong_number_of_operands():
    data, theory, _ = setup()
    with pytest.raises(TheoryError, match=r"'RATOI'.*Did you mean 'RATIO'"):
        forward_map(fake_data(replace(data.datasets[0], operation="RATOI")), theory)
    with pytest.raises(TheoryError, match="RATIO of dataset A_NC_1GEV_F2 takes 2 operands, not 1"):
        forward_map(fake_data(replace(data.datasets[0], operation="RATIO")), theory)
    with pytest.raises(TheoryError, match="names no theory table"):
        forward_map(fake_data(replace(data.datasets[0], tables=())), theory)


def test_tables_at_different_scales():
    dataset = fake_dataset("A_NC_1GEV_F2", 6, tables=[["T0"], ["T1"]], operation="RATIO")
    theory = fake_theory(fake_table("T0"), fake_table("T1", q0=1.0))
    with pytest.raises(TheoryError, match=r"T0 at Q0 = 1.65 GeV, T1 at 1 GeV"):
        forward_map(fake_data(dataset), theory)


def test_bad_pdfs():
    data, theory, _ = setup()
    with pytest.raises(SettingError, match="Did you mean 'toy'"):
        predictions(data, theory, "toi")
    with pytest.raises(SettingError, match=r"\(14"):
        predictions(data, theory, lambda x: np.ones((13, len(x))))
    with pytest.raises(SettingError, match=r"not finite at x = 0.01"):
        predictions(data, theory, lambda x: np.where(np.isclose(x, 0.01), np.nan, pdf(x)))
    with pytest.raises(TheoryError, match=r"must have shape \(\.\.\., 14, 6\)"):
        forward_map(data, theory).predict(np.ones((14, 5)))


def test_a_denominator_that_vanishes_names_the_point():
    data, theory, (_, bottom) = setup("RATIO")
    zero = [0] * 14
    bottom.values[2] = 0
    bottom.values[2, 0, 0] = 1e-300
    with np.errstate(all="ignore"), pytest.raises(DataError, match="A_NC_1GEV_F2 at index 2 is not finite"):
        predictions(data, theory, lambda x: np.where(np.isclose(x, X[0]), zero[0], pdf(x)))


def test_chi2_settings():
    data, theory, _ = setup()
    with pytest.raises(SettingError, match="Did you mean 'experimental'"):
        chi2(data, theory, pdf, covariance="experimentl")
    with pytest.raises(SettingError, match="needs a PDF"):
        chi2(data, theory, pdf, covariance="t0")
    with pytest.raises(SettingError, match="covariance is experimental"):
        chi2(data, theory, pdf, t0="toy")
    with pytest.raises(DataError, match="one per data point"):
        chi2_table(data, np.ones(3))
    other = fake_data(fake_dataset("B_NC_1GEV_F2", 3))
    with pytest.raises(DataError, match="made for 6 points, but the data have 3"):
        predictions(other, forward_map(data, theory), pdf)


def test_chi2_table():
    sources = [("MULT", "LUMI"), ("ADD", "CORR")]
    sets = [fake_dataset(f"{n}_NC_1GEV_F2", 4, seed=i, sources=sources, tables=[["T"]]) for i, n in enumerate("AB")]
    data, theory = fake_data(*sets), fake_theory(fake_table("T", 4))
    table = chi2(data, theory, pdf)
    difference = data.values - predictions(data, theory, pdf)
    assert table.total == pytest.approx(difference @ np.linalg.solve(data.covariance(), difference))
    assert table.total_logdet == pytest.approx(np.linalg.slogdet(data.covariance())[1])
    assert table["A_NC_1GEV_F2"] == pytest.approx(chi2(data.select("A_NC_1GEV_F2"), theory, pdf).total)
    frame = table.to_dataframe()
    assert frame["dataset"].tolist() == [*data.names, "total"]
    assert set(frame["covariance"]) == {"experimental"}
    assert "experimental covariance" in str(table)
    with pytest.raises(DataError, match="Did you mean"):
        table["A_NC_1GEV_F3"]


def test_closure_data():
    data, theory, (table,) = setup()
    fake = closure_data(data, theory, pdf)
    np.testing.assert_allclose(fake.values, table.predict(pdf(X)), rtol=1e-12)
    np.testing.assert_array_equal(fake.datasets[0].systematics.percent, data.datasets[0].systematics.percent)
    one, other = (closure_data(data, theory, pdf, level=1, seed=s) for s in (1, 2))
    assert (one.values != other.values).all()
    assert (one.values == closure_data(data, theory, pdf, level=1, seed=1).values).all()
    with pytest.raises(SettingError, match="level must be"):
        closure_data(data, theory, pdf, level=2)
    with pytest.raises(SettingError, match="give seed=1"):
        closure_data(data, theory, pdf, level=1)
    with pytest.raises(SettingError, match="whole number"):
        closure_data(data, theory, pdf, level=1, seed=1.5)


# ---- the parts that a fit works with ----------------------------------------------------------------


def test_linear_and_nonlinear_parts_make_the_whole():
    sets, tables = [], []
    for i, name in enumerate(["RATIO", "NULL", "ASY", "ADD", "RATIO"]):
        own = [fake_table(f"T{i}{k}", 3, seed=10 * i + k) for k in range(OPERATIONS[name].n_operands)]
        tables += own
        sets.append(fake_dataset(f"S{i}_NC_1GEV_F2", 3, tables=[[t.name] for t in own], operation=name))
    forward = forward_map(fake_data(*sets), fake_theory(*tables))
    xf = pdf(forward.x)
    whole = forward.predict(xf)
    rows = np.einsum("rfx,fx->r", forward.nonlinear_matrix(), xf)
    assert len(rows) == 18
    np.testing.assert_allclose(forward.nonlinear_points(rows), whole[~forward.linear], rtol=1e-12)
    linear = np.einsum("dfx,fx->d", forward.linear_matrix(), xf)
    np.testing.assert_allclose(linear[forward.linear], whole[forward.linear], rtol=1e-12)
    assert not linear[~forward.linear].any()

    import jax
    import jax.numpy as jnp

    compiled = jax.jit(forward.nonlinear_points)(jnp.asarray(rows, dtype=jnp.float32))
    assert compiled.dtype == jnp.float32
    np.testing.assert_allclose(compiled, whole[~forward.linear], rtol=1e-5)


def test_quadratic_tables_predict_at_once_but_are_reduced_for_a_fit():
    data, theory, _ = setup("NULL", quadratic=True)
    forward = forward_map(data, theory)
    assert np.isfinite(forward.predict(pdf(forward.x))).all()
    with pytest.raises(TheoryError, match="quadratic in the PDF"):
        forward.nonlinear_matrix()
