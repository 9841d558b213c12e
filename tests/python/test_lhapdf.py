"""LHAPDF sets: what is written, and that independent readers find the same PDF in it."""

import importlib
import os

import numpy as np
import pytest
from fit_standin import CARD, StandInFit, alpha_s, evolve, running
from partonfit._errors import SettingError, StorageError
from partonfit._vocabulary import FLAVOURS, PIDS, rotation
from partonfit.results._lhapdf import make_grid, write_lhapdf
from partonfit.results._lhapdf_reader import read_lhapdf

GRID = make_grid(CARD)
HOW = {"evolve": evolve, "alpha_s": alpha_s, "card": CARD, "x_in": GRID.x}
SCALES = (1.65, 2.0, 4.9, 4.92, 17.0, 91.1876, 5e4)
X = np.geomspace(1e-8, 0.8, 120)
NAMES = ("g", "u", "ubar", "d", "dbar", "s")


@pytest.fixture(scope="module")
def fit():
    return StandInFit(4, vetoed=1)


@pytest.fixture(scope="module")
def folder(fit, tmp_path_factory):
    return write_lhapdf(fit, tmp_path_factory.mktemp("sets") / "myset", **HOW)


@pytest.fixture(scope="module")
def found(folder):
    return read_lhapdf(folder)


def expected(fit, names, Q):
    """(member, name, x): the mean of the kept replicas, then the replicas."""
    kept = fit.xf(X)
    members = np.concatenate([kept.mean(axis=0, keepdims=True), kept])
    return running(np.einsum("fe,rex->rfx", rotation(names), members), X, Q)


def test_info_is_complete(found):
    wanted = {
        "SetDesc", "Authors", "Format", "DataVersion", "NumMembers", "Particle", "Flavors", "OrderQCD", "FlavorScheme",
        "NumFlavors", "ErrorType", "XMin", "XMax", "QMin", "QMax", "MZ", "MUp", "MDown", "MStrange", "MCharm",
        "MBottom", "MTop", "AlphaS_MZ", "AlphaS_OrderQCD", "AlphaS_Type", "AlphaS_Qs", "AlphaS_Vals",
    }  # fmt: skip
    assert wanted <= set(found.info)
    assert found.info["ErrorType"] == "replicas"
    assert found.info["NumMembers"] == 4 == found.n_members
    assert sorted(found.info["Flavors"]) == [-5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 21]
    assert (found.info["XMin"], found.info["XMax"]) == (1e-9, 1.0)
    assert (found.info["QMin"], found.info["QMax"]) == (1.65, 1e5)
    assert len(found.info["AlphaS_Qs"]) == len(found.info["AlphaS_Vals"])


def test_subgrids_meet_at_the_threshold_and_no_scale_stands_twice_in_one(found):
    assert [g.q[0] for g in found.subgrids] == pytest.approx([1.65, 4.92])
    assert found.subgrids[0].q[-1] == found.subgrids[1].q[0] == pytest.approx(4.92)
    for grid in found.subgrids:
        assert (np.diff(grid.q) > 0).all()
        assert (np.diff(grid.x) > 0).all()
    assert sum(len(g.q) for g in found.subgrids) in range(48, 56)
    assert len(found.subgrids[0].x) == 197


def test_each_side_of_a_threshold_is_evolved_with_its_own_number_of_flavours():
    assert (pytest.approx(4.92**2), 4) in GRID.points
    assert (pytest.approx(4.92**2), 5) in GRID.points


def test_every_parton_vanishes_at_one(found):
    assert all((g.values[..., -1] == 0).all() for g in found.subgrids)


@pytest.mark.parametrize("Q", SCALES)
def test_our_reader_finds_the_pdf_again(fit, found, Q):
    got = found.xf(X, Q)[:, [FLAVOURS.index(name) for name in NAMES]]
    np.testing.assert_allclose(got, expected(fit, NAMES, Q), rtol=1e-4, atol=1e-6)


def test_neopdf_finds_the_pdf_again(fit, folder, monkeypatch):
    pdf = importlib.import_module("neopdf.pdf").PDF
    monkeypatch.setenv("NEOPDF_DATA_PATH", str(folder.parent))
    for member in range(4):
        reader = pdf.mkPDF("myset", member)
        for Q in (1.7, 4.92, 91.1876, 5e4):
            got = [[reader.xfxQ2(PIDS[name], float(x), Q * Q) for x in X] for name in NAMES]
            np.testing.assert_allclose(got, expected(fit, NAMES, Q)[member], rtol=1e-4, atol=2e-5)
    assert reader.alphasQ2(CARD.mz**2) == pytest.approx(0.118, rel=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_parton_finds_the_pdf_again(fit, folder):
    pdf = importlib.import_module("parton.pdf").PDF
    for member in range(4):
        reader = pdf("myset", member, pdfdir=os.fspath(folder.parent))
        for Q in (1.7, 91.1876):
            got = [reader.xfxQ(PIDS[name], X, np.array([Q]))[:, 0] for name in NAMES]
            np.testing.assert_allclose(got, expected(fit, NAMES, Q)[member], rtol=1e-4, atol=1e-6)


def test_prediction_of_a_set_is_that_of_the_fit(fit, found):
    mine, theirs = found.predict(X, flavour=["g", "u_v"], Q=100.0), fit.predict(X, flavour=["g", "u_v"], Q=100.0)
    for name in ("mean", "sd", "replicas"):
        np.testing.assert_allclose(getattr(mine, name), getattr(theirs, name), rtol=2e-4, atol=1e-5)
    assert (mine.lower <= mine.upper).all()


def test_one_replica_gives_two_equal_members(tmp_path):
    found = read_lhapdf(write_lhapdf(StandInFit(1), tmp_path / "one", **HOW))
    assert found.n_members == 2
    np.testing.assert_array_equal(found.subgrids[0].values[0], found.subgrids[0].values[1])
    assert (found.predict(X, flavour="g").sd == 0).all()


def test_a_set_is_not_overwritten_unless_asked(fit, tmp_path):
    target = tmp_path / "again"
    write_lhapdf(fit, target, **HOW)
    with pytest.raises(StorageError, match="set overwrite"):
        write_lhapdf(fit, target, **HOW)
    write_lhapdf(StandInFit(1), target, overwrite=True, **HOW)
    assert read_lhapdf(target).n_members == 2


def test_another_folder_is_never_overwritten(fit, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("years of work")
    with pytest.raises(StorageError, match="not an LHAPDF set"):
        write_lhapdf(fit, tmp_path / "precious", overwrite=True, **HOW)


def test_a_failure_leaves_nothing_behind(fit, tmp_path):
    def failing(*_):
        msg = "out of luck"
        raise RuntimeError(msg)

    with pytest.raises(RuntimeError, match="out of luck"):
        write_lhapdf(fit, tmp_path / "broken", **{**HOW, "evolve": failing})
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_written_the_error_comes_first(fit, tmp_path):
    (tmp_path / "file").write_text("")

    def never(*_):
        pytest.fail("evolution was started")

    for target in (tmp_path / "file" / "set", tmp_path / "missing" / "set"):
        with pytest.raises(StorageError, match="Cannot write"):
            write_lhapdf(fit, target, **{**HOW, "evolve": never})


@pytest.mark.parametrize("name", ["my set", ".hidden", "a/..", "ü"])
def test_names_of_sets_are_checked(fit, tmp_path, name):
    with pytest.raises(SettingError, match="name of an LHAPDF set"):
        write_lhapdf(fit, tmp_path / name, **HOW)


def test_reader_names_what_is_wrong(folder, tmp_path):
    with pytest.raises(StorageError, match="not an LHAPDF set"):
        read_lhapdf(tmp_path)
    broken = tmp_path / "myset"
    broken.mkdir()
    for path in folder.iterdir():
        (broken / path.name).write_text(
            path.read_text()[:100_000].rpartition("\n")[0] + "\n---\n" if path.suffix == ".dat" else path.read_text()
        )
    with pytest.raises(StorageError, match="cut short or damaged"):
        read_lhapdf(broken)


@pytest.mark.parametrize(("x", "Q", "words"), [(1e-10, 10, "covers x"), (0.1, 1.0, "covers Q"), (0.1, 2e5, "covers Q")])
def test_outside_of_a_set_is_an_error(found, x, Q, words):
    with pytest.raises(SettingError, match=words):
        found.xf(np.array([x]), Q)


def test_known_set_is_read(shared):
    toy = read_lhapdf(shared / "bench" / "lhapdf" / "toyLH_nnlo", members=1)
    g = toy.predict(np.array([0.1]), flavour="g", Q=10.0).mean[0, 0]
    assert g == pytest.approx(1.144445172666329, rel=1e-4)
    assert toy(np.array([0.1, 0.2])).shape == (14, 2)
