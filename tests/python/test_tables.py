"""Reading tables: what they mean, and what is said about those that are damaged."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from fakes import X, fake_table
from partonfit._errors import SettingError, TheoryError
from partonfit._vocabulary import EVOLUTION, FLAVOURS, PIDS, TO_FLAVOURS
from partonfit.data import load_constraints
from partonfit.models import toy_pdf
from partonfit.theory import forward_map, load_theory, read_table

TABLE = "HERA_CC_318GEV_EM_SIGMARED.pineappl.lz4"
POSITIONS = {pid: i for i, pid in enumerate(PIDS[name] for name in FLAVOURS)}


@cache
def xfx(pid, x, q2):
    """The known PDF as an LHAPDF-like function."""
    return float((TO_FLAVOURS[POSITIONS[pid]] @ toy_pdf(np.array([x])))[0])


def every_table(shared):
    return sorted((shared / "theory").glob("*/*.pineappl.lz4"))


def test_agrees_with_the_convolution_of_pineappl(shared):
    from pineappl.fk_table import FkTable

    for path in every_table(shared):
        grid, table = FkTable.read(str(path)), read_table(path)
        expected = grid.convolve(list(grid.convolutions), [xfx] * len(grid.convolutions))
        ours = table.predict(toy_pdf(table.x))
        # Some observables of this PDF are differences of terms of order 1 that nearly cancel.
        np.testing.assert_allclose(ours, expected, rtol=1e-10, atol=1e-13, err_msg=path.name)
        assert table.q0 == pytest.approx(1.65)
        assert table.linear == (len(grid.convolutions) == 1)


def test_quadratic_tables_and_constraints_go_through_the_map(shared):
    constraints = load_constraints()
    theory = load_theory([shared / "theory" / "positivity"])
    forward = forward_map([c.dataset for c in constraints], theory)
    predicted, start = forward.predict(toy_pdf(forward.x)), 0
    for constraint in constraints:
        dataset = constraint.dataset
        table = theory.table(dataset.tables[0][0])
        own = table.predict(toy_pdf(table.x))[dataset.kept] * dataset.conversion_factor
        here = predicted[start : start + dataset.n_data]
        np.testing.assert_allclose(here, own, rtol=1e-9, atol=1e-13)
        assert forward.linear[start] == table.linear
        start += dataset.n_data
    assert len(forward.quadratic) == 3


def test_predict_of_linear_and_quadratic_tables():
    rng = np.random.default_rng(0)
    xf = rng.uniform(size=(2, 14, len(X)))
    linear, quadratic = fake_table("L"), fake_table("Q", quadratic=True)
    rows = [EVOLUTION.index(name) for name in linear.flavours]
    np.testing.assert_allclose(linear.predict(xf)[1], np.einsum("dfx,fx->d", linear.values, xf[1][rows]))
    expected = 0
    for c, (one, other) in enumerate(quadratic.flavours):
        first, second = xf[1][EVOLUTION.index(one)], xf[1][EVOLUTION.index(other)]
        expected = expected + np.einsum("dxy,x,y->d", quadratic.values[:, c], first, second)
    np.testing.assert_allclose(quadratic.predict(xf)[1], expected)
    with pytest.raises(TheoryError, match=r"Table L needs a PDF of shape \(\.\.\., 14, 6\)"):
        linear.predict(xf[..., :3])


@pytest.fixture
def folder(shared, tmp_path):
    (tmp_path / TABLE).write_bytes((shared / "theory" / "dis_nnlo" / TABLE).read_bytes())
    return tmp_path


@pytest.mark.parametrize("keep", [0, 3, 10, 100, 1000, -1, -5])
def test_truncated_table(folder, keep, capfd):
    path = folder / TABLE
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(TheoryError, match=r"(truncated|no LZ4 file).*bytes"):
        load_theory(folder).table("HERA_CC_318GEV_EM_SIGMARED")
    assert capfd.readouterr() == ("", "")  # the Rust library was not even asked


def test_table_that_is_something_else(folder):
    (folder / TABLE).write_bytes(b"<html>not found</html>")
    with pytest.raises(TheoryError, match="no LZ4 file"):
        load_theory(folder).table("HERA_CC_318GEV_EM_SIGMARED")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_table_damaged_inside(folder):
    content = bytearray((folder / TABLE).read_bytes())
    content[2000:2400] = bytes(400)
    (folder / TABLE).write_bytes(content)
    with pytest.raises(TheoryError, match="damaged or no FK table"):
        load_theory(folder).table("HERA_CC_318GEV_EM_SIGMARED")


def test_theory_folder_layouts(folder, tmp_path):
    inner = tmp_path / "theory_40" / "fastkernel"
    inner.mkdir(parents=True)
    (folder / TABLE).rename(inner / TABLE)
    theory = load_theory(tmp_path / "theory_40")
    assert theory.names == ("HERA_CC_318GEV_EM_SIGMARED",)
    info = theory.info("HERA_CC_318GEV_EM_SIGMARED")
    assert (info["kind"], info["n_data"], round(info["q0"], 2)) == ("linear", 42, 1.65)
    before = load_theory(inner).hash()
    assert load_theory(theory.name).names == theory.names
    assert Path(theory.name).is_absolute()
    both = load_theory([inner, tmp_path / "theory_40"])
    assert load_theory(both.name).folders == both.folders
    assert theory.hash() == before == theory.hash(theory.names)


def test_missing_and_empty_folders(tmp_path):
    with pytest.raises(TheoryError, match="does not exist"):
        load_theory(tmp_path / "nowhere")
    with pytest.raises(TheoryError, match="holds no table"):
        load_theory(tmp_path)
    with pytest.raises(TheoryError, match="Did you mean 'hera'"):
        load_theory("herra")
    with pytest.raises(SettingError, match="name or a folder"):
        load_theory(7)
    with pytest.raises(SettingError, match="empty list"):
        load_theory([])
