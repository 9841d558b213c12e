"""Theory covariance: prescriptions as published, aligned by label, in sampling and in fitting, from cards."""

import itertools

import numpy as np
import partonfit as pf
import pytest
from fakes import fake_data, fake_dataset, fake_table, fake_theory
from partonfit import _scale_variations, runcard
from partonfit._errors import DataError, SettingError, StorageError
from partonfit._scale_variations import PRESCRIPTIONS, public_variations, scale_covariance
from partonfit._seeds import stream
from partonfit.data import TheoryCovariance, load_theory_covariance, pseudodata
from partonfit.inference import draw_replicas

UP, DOWN = 2.0, 0.5
NINE = list(itertools.product((DOWN, 1.0, UP), repeat=2))
LINEAR = ("Sigma", "g", "T3")


def three_sets(order=(0, 1, 2)):
    sets = [
        fake_dataset("NCONE_NC_1GEV_F2", 4, tables=[["A"]]),
        fake_dataset("NCTWO_NC_1GEV_F2", 3, tables=[["B"]], seed=2, sources=[("MULT", "CORR")]),
        fake_dataset("CC_CC_1GEV_F2", 5, tables=[["C"]], seed=3, process="DIS_CC"),
    ]
    return fake_data(*(sets[i] for i in order))


@pytest.fixture(scope="module")
def theories():
    """A theory at each pair of scales: tables of the same names with other numbers."""
    sizes = {"A": 4, "B": 3, "C": 5}
    return {
        scales: fake_theory(*(fake_table(n, k, seed=10 + i, flavours=LINEAR) for n, k in sizes.items()))
        for i, scales in enumerate(NINE)
    }


def shifts(data, theories):
    found = {s: pf.predictions(data, t, "toy") for s, t in theories.items()}
    return {s: values - found[1.0, 1.0] for s, values in found.items()}


def by_hand(name, d, one, other, same):  # noqa: PLR0911 (one return for each formula)
    """The formulas as they are written in arXiv:1906.10698, for points i and j."""

    def a(*scales):
        return sum(d[s][one] for s in scales)

    def b(*scales):
        return sum(d[s][other] for s in scales)

    up0, down0, zero_up, zero_down = (UP, 1.0), (DOWN, 1.0), (1.0, UP), (1.0, DOWN)
    pp, mm, pm, mp = (UP, UP), (DOWN, DOWN), (UP, DOWN), (DOWN, UP)

    def diagonal(*scales):
        return sum(d[s][one] * d[s][other] for s in scales)

    if name == "3 point":
        return diagonal(pp, mm) / 2 if same else a(pp, mm) * b(pp, mm) / 4
    if name == "5 point":
        if same:
            return diagonal(up0, down0, zero_up, zero_down) / 2
        return diagonal(up0, down0) / 2 + a(zero_up, zero_down) * b(zero_up, zero_down) / 4
    if name == "5bar point":
        return diagonal(pp, mm, pm, mp) / 2 if same else (a(pp, pm) * b(pp, pm) + a(mm, mp) * b(mm, mp)) / 4
    if name == "7 point":
        if same:
            return diagonal(up0, down0, zero_up, zero_down, pp, mm) / 3
        cross = a(zero_up, zero_down) * b(zero_up, zero_down) + a(pp, mm) * b(pp, mm)
        return (2 * diagonal(up0, down0) + cross) / 6
    if same:
        return diagonal(up0, down0, zero_up, zero_down, pp, mm, pm, mp) / 4
    cross = a(up0, pp, pm) * b(up0, pp, pm) + a(down0, mm, mp) * b(down0, mm, mp)
    return cross / 12 + a(zero_up, zero_down) * b(zero_up, zero_down) / 8


@pytest.mark.parametrize("name", ["3 point", "5 point", "5bar point", "7 point", "9 point"])
def test_prescriptions_are_the_published_formulas(theories, name):
    data = three_sets()
    d = shifts(data, theories)
    matrix = scale_covariance(data, theories, prescription=name).matrix()
    process = ["NC"] * 7 + ["CC"] * 5
    expected = [[by_hand(name, d, i, j, process[i] == process[j]) for j in range(12)] for i in range(12)]
    np.testing.assert_allclose(matrix, expected, rtol=1e-10, atol=1e-13)
    assert np.linalg.eigvalsh(matrix)[0] > -1e-12 * np.abs(matrix).max()


def test_single_scale_prescriptions(theories):
    data = three_sets()
    d = shifts(data, theories)
    factorisation = scale_covariance(data, theories, prescription="3f point").matrix()
    both = [np.outer(d[s], d[s]) for s in ((UP, 1.0), (DOWN, 1.0))]
    np.testing.assert_allclose(factorisation, sum(both) / 2, rtol=1e-10, atol=1e-14)  # common to all processes
    apart = scale_covariance(data, theories, prescription="3r point", correlated="dataset")
    together = scale_covariance(data, theories, prescription="3r point", correlated="all")
    full = sum(np.outer(d[s], d[s]) for s in ((1.0, UP), (1.0, DOWN))) / 2
    np.testing.assert_allclose(together.matrix(), full, rtol=1e-10, atol=1e-14)
    mean = (d[1.0, UP] + d[1.0, DOWN]) / 2
    np.testing.assert_allclose(apart.matrix()[:4, 4:], np.outer(mean[:4], mean[4:]), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(apart.matrix()[:4, :4], full[:4, :4], rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("order", [(2, 0, 1), (1, 2, 0)])
def test_permuting_datasets_changes_nothing(theories, order):
    data, other = three_sets(), three_sets(order)
    one = scale_covariance(data, theories, prescription=9)
    assert one.on(other).labels == other.labels
    np.testing.assert_allclose(
        one.on(other).matrix(), scale_covariance(other, theories, prescription=9).matrix(), rtol=1e-9, atol=1e-13
    )
    assert one.on(other).hash == one.hash
    place = [data.labels.index(label) for label in other.labels]
    np.testing.assert_allclose(
        other.covariance(theory=one), data.covariance(theory=one)[np.ix_(place, place)], rtol=1e-12
    )
    drawn = pseudodata(data, rng=4, theory=one.on(data))
    np.testing.assert_allclose(pseudodata(other, rng=4, theory=one.on(other)), drawn[place], rtol=1e-12)


def test_a_users_matrix_is_aligned_by_label_never_by_position(tmp_path):
    data = three_sets()
    rng = np.random.default_rng(1)
    half = rng.normal(size=(14, 14))
    labels = [*data.labels, ("NCONE_NC_1GEV_F2", 9), ("NCTWO_NC_1GEV_F2", 7)]  # with points that were cut
    matrix = half @ half.T
    shuffled = rng.permutation(14)
    given = TheoryCovariance.from_matrix([labels[i] for i in shuffled], matrix[np.ix_(shuffled, shuffled)])
    np.testing.assert_allclose(given.on(data).matrix(), matrix[:12, :12], rtol=1e-10, atol=1e-10)
    again = load_theory_covariance(given.save(tmp_path / "mine.npz"))
    assert again.hash == given.hash
    np.testing.assert_allclose(again.on(data).matrix(), matrix[:12, :12], rtol=1e-10, atol=1e-10)


def _table(labels, matrix, separator="\t", columns=None):
    columns = labels if columns is None else columns
    head = [["group", "", "", *("X" for _ in columns)], ["dataset", "", "", *(n for n, _ in columns)]]
    head.append(["id", "", "", *(str(k) for _, k in columns)])
    rows = [["X", n, str(k), *(repr(float(v)) for v in row)] for (n, k), row in zip(labels, matrix, strict=True)]
    return "\n".join(separator.join(row) for row in [*head, ["group", "dataset", "id", *("" for _ in columns)], *rows])


@pytest.mark.parametrize("separator", ["\t", ","])
def test_n3fits_table_of_a_users_matrix_is_read_by_its_labels(tmp_path, separator):
    data = three_sets()
    half = np.random.default_rng(2).normal(size=(12, 12))
    matrix, turned = half @ half.T, list(reversed(range(12)))
    columns = [data.labels[i] for i in turned]
    file = tmp_path / "user.csv"
    file.write_text(_table(data.labels, matrix[:, turned], separator, columns))
    found = load_theory_covariance(file, factor=2.0)
    np.testing.assert_allclose(found.on(data).matrix(), 2 * matrix, rtol=1e-9, atol=1e-10)
    file.write_text(_table(data.labels, matrix, separator, [("OTHER", 0), *data.labels[1:]]))
    with pytest.raises(DataError, match="different labels"):
        load_theory_covariance(file)


def test_a_dataset_cut_away_whole_is_left_out_with_a_warning():
    data = three_sets()
    given = TheoryCovariance.from_matrix(data.labels, np.eye(12))
    fewer = data.select(["CC_CC_1GEV_F2", "NCONE_NC_1GEV_F2"])
    with pytest.warns(UserWarning, match="NCTWO_NC_1GEV_F2 is not among the data: its theory covariance is left out"):
        assert given.on(fewer).labels == fewer.labels
    with pytest.warns(UserWarning, match="no point left after the cuts"):
        cut = pf.load_data(["HERA_CC_318GEV_EM-SIGMARED", "HERA_CC_318GEV_EP-SIGMARED"],
                           cuts={"HERA_CC_318GEV_EP-SIGMARED": "x > 2"})  # fmt: skip
    labels = [*cut.labels, ("HERA_CC_318GEV_EP-SIGMARED", 0)]
    with pytest.warns(UserWarning, match="EP-SIGMARED has no point left after the cuts: its theory covariance"):
        assert TheoryCovariance.from_matrix(labels, np.eye(len(labels))).on(cut).labels == cut.labels


def test_what_it_does_not_cover_is_said():
    data = three_sets()
    only = TheoryCovariance.from_matrix(data.labels[:4], np.eye(4))
    with pytest.warns(UserWarning, match="theory covariance") as heard:
        matrix = only.on(data).matrix()
    assert sorted(str(w.message).split()[-1] for w in heard) == ["CC_CC_1GEV_F2.", "NCTWO_NC_1GEV_F2."]
    np.testing.assert_allclose(matrix, np.diag([1.0] * 4 + [0.0] * 8), atol=1e-15)
    lacking = TheoryCovariance.from_matrix(data.labels[1:], np.eye(11))
    with pytest.raises(DataError, match="no entry for dataset NCONE_NC_1GEV_F2 at index 0"):
        lacking.on(data)


@pytest.mark.parametrize(
    ("labels", "matrix", "message"),
    [
        ([("A", 0), ("A", 0)], np.eye(2), "dataset A, index 0 twice"),
        ([("A", 0), ("A", 1)], np.eye(3), "2 labels"),
        ([("A", 0), ("B", 1)], [[1, 0], [0.5, 1]], "not symmetric between A, index 0, and B, index 1"),
        ([("A", 0), ("B", 1)], [[1, 2], [2, 1]], "negative eigenvalue"),
        ([("A", 0), ("B", 1)], [[1, np.nan], [np.nan, 1]], "not finite"),
    ],
)
def test_matrices_that_are_no_covariance(labels, matrix, message):
    with pytest.raises(DataError, match=message):
        TheoryCovariance.from_matrix(labels, matrix)


@pytest.mark.parametrize("text", ["", "a,b\nc,d\n", "x\n" * 10])
def test_files_that_are_no_table(tmp_path, text):
    file = tmp_path / "bad.csv"
    file.write_text(text)
    with pytest.raises(DataError, match="no covariance with labels"):
        load_theory_covariance(file)
    with pytest.raises(StorageError, match="Cannot read"):
        load_theory_covariance(tmp_path / "absent.csv")


def test_missing_theories_and_unknown_prescriptions_are_named(theories):
    data = three_sets()
    few = {s: t for s, t in theories.items() if s != (UP, DOWN)}
    assert len(scale_covariance(data, few, prescription=7)) == 12
    with pytest.raises(SettingError, match=r"9 point prescription needs .* \(2, 0.5\) too"):
        scale_covariance(data, few, prescription=9)
    with pytest.raises(SettingError, match="Did you mean '7 point'"):
        scale_covariance(data, theories, prescription="7 points")
    with pytest.raises(SettingError, match="no pair of scale factors"):
        scale_covariance(data, {"one": theories[1.0, 1.0]})
    texts = {f"({a:g}, {b:g})": t for (a, b), t in theories.items()}
    np.testing.assert_array_equal(scale_covariance(data, texts).matrix(), scale_covariance(data, theories).matrix())


def test_theory_noise_has_the_theory_covariance(theories):
    data = three_sets()
    theory = scale_covariance(data, theories, prescription="7 point").scaled(0.05)
    n = 6000
    drawn = np.stack(
        [pseudodata(data, rng=lambda *names, k=k: stream(1, "replica", k, *names), theory=theory) for k in range(n)]
    )
    matrix = data.covariance(theory=theory)
    sigma = np.sqrt(np.diag(matrix))
    assert (theory.matrix().diagonal() > 0.2 * np.diag(matrix)).any()  # else this would test nothing
    assert np.abs((drawn.mean(axis=0) - data.values) / sigma).max() < 4.5 / np.sqrt(n)
    assert np.abs((np.cov(drawn.T) - matrix) / np.outer(sigma, sigma)).max() < 5 * np.sqrt(2 / n)


@pytest.mark.parametrize("sampling", [True, False])
@pytest.mark.parametrize("fitting", [True, False])
def test_fit_counts_it_where_it_is_asked_to(theories, sampling, fitting):
    data, central = three_sets(), theories[1.0, 1.0]
    theory = scale_covariance(data, theories, prescription=3)
    control = pf.fit_control(
        epochs=5, threshold_chi2=None, theory_in_sampling=sampling, theory_in_fitting=fitting, precision="float64"
    )
    model = pf.pdf_model(nodes=(4,), precision="float64")
    fit = pf.fit_pdf(data, central, model=model, replicas=2, seed=1, t0=None, control=control,
                     theory_covariance=theory)  # fmt: skip
    assert fit.settings["theory_covariance"]["hash"] == theory.hash
    assert fit.settings["theory_covariance"]["prescription"] == "3 point"
    expected = draw_replicas(data, None, 2, 1, control, theory=theory).pseudodata
    np.testing.assert_array_equal(fit.replica_data, expected)
    plain = pf.fit_pdf(data, central, model=model, replicas=2, seed=1, t0=None, control=control)
    assert np.array_equal(plain.replica_data, fit.replica_data) != sampling
    if not sampling:  # the same pseudodata, weights and split: only the chi2 differs
        assert np.allclose(plain.history["training"][:, 0], fit.history["training"][:, 0], rtol=1e-9) != fitting


CARD = """
data: [HERA_CC_318GEV_EM-SIGMARED]
theory: hera
theory_covariance:
  prescriptions: [3 point]
  theories: {"(2, 2)": up, "(0.5, 0.5)": down}
  matrix: mine.npz
  factor: 4
replicas: 1
"""


def test_card_adds_prescriptions_and_matrix(tmp_path, monkeypatch):
    data = pf.load_data(["HERA_CC_318GEV_EM-SIGMARED"])
    TheoryCovariance.from_matrix(data.labels, np.eye(data.n_data)).save(tmp_path / "mine.npz")
    embedded = pf.load_theory("hera")
    for name in ("up", "down"):
        (tmp_path / name).mkdir()
        for path in embedded.paths.values():
            (tmp_path / name / path.name).symlink_to(path)
    settings = runcard.parse_card(CARD)
    found = runcard._theory_covariance(settings, {"data": data, "theory": embedded}, tmp_path)
    np.testing.assert_allclose(found.matrix(), 4 * np.eye(data.n_data), atol=1e-12)
    assert runcard.parse_card(CARD.replace("factor: 4", "factor: 5")).hash != settings.hash


N3FIT = """
dataset_inputs: [{dataset: HERA_CC_318GEV_EM-SIGMARED, frac: 0.75}]
theory: {theoryid: 708}
diagonal_basis: DIAGONAL
separate_multiplicative: true
use_t0_sampling: false
resample_negative_pseudodata: true
fitting: {savepseudodata: true}
theorycovmatconfig:
  point_prescriptions: ['7 point']
  theoryids: {from_: scale_variation_theories}
  pdf: toy
  use_thcovmat_in_sampling: true
  use_thcovmat_in_fitting: false
"""


def test_n3fits_keys_are_honoured():
    settings = runcard.parse_card(N3FIT.replace("DIAGONAL", "true\ndiagonal_frac: 0.6"))
    assert settings.theory_covariance.prescriptions == ["7 point"]
    assert settings.theory_covariance.pdf == "toy"
    control = settings.control
    assert (control.theory_in_sampling, control.theory_in_fitting) == (True, False)
    assert (control.split, control.training_fraction) == ("modes", 0.6)
    assert (control.separate_multiplicative, control.t0_in_sampling, control.positive_tries) == (True, False, 1000)
    assert runcard.parse_card(N3FIT.replace("DIAGONAL", "false")).control.split == "points"
    with pytest.raises(SettingError, match=r"line 10: theorycovmatconfig.point_prescriptions\[1\]"):
        runcard.parse_card(N3FIT.replace("DIAGONAL", "false").replace("7 point", "8 point"))


def test_n3fits_theories_lie_beside_the_central_one(tmp_path):
    found = public_variations(tmp_path / "theory_708")
    assert found[UP, DOWN] == tmp_path / "theory_710"
    assert public_variations("theory_41_000_000")[1.0, UP].name == "theory_41000013"
    with pytest.raises(SettingError, match=r"not known for the theory mine .*theory_covariance\.theories"):
        public_variations(tmp_path / "mine")
    for family in _scale_variations.PUBLIC.values():
        assert family[1.0, 1.0] in _scale_variations.PUBLIC
        assert len(set(family.values())) == len(family)


def test_every_prescription_is_symmetric_in_up_and_down():
    for norm, groups in PRESCRIPTIONS.values():
        points = {point for group in groups for point in group}
        assert {(1 / kf, 1 / kr) for kf, kr in points} == points
        assert sum(len(group) for group in groups) == len(points)
        scales = len({axis for point in points for axis in (0, 1) if point[axis] != 1})
        joint = len(groups) == 1 and scales == 2  # three points vary both together: one scale
        assert norm == pytest.approx((1 if joint else scales) / len(points))
