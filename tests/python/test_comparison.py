"""Two fits side by side: distances whose values are known, chi2, figures, the command."""

import dataclasses

import numpy as np
import partonfit as pf
import pytest
from partonfit import cli
from partonfit._errors import SettingError
from partonfit.results._comparison import distances
from typer.testing import CliRunner

QUICK = {"epochs": 30, "threshold_chi2": None}
CC = ["HERA_CC_318GEV_EM-SIGMARED", "HERA_CC_318GEV_EP-SIGMARED"]


@pytest.fixture(scope="module")
def fit():
    return pf.fit_pdf(pf.load_data(CC), "hera", replicas=40, seed=1, control=pf.fit_control(**QUICK))


def part(fit, chosen):
    """Return the same fit with only the chosen replicas kept."""
    statuses = tuple(dataclasses.replace(s, kept=bool(c)) for s, c in zip(fit.statuses, chosen, strict=True))
    return dataclasses.replace(fit, statuses=statuses)


def test_distances_of_gaussian_replicas_are_one():
    rng = np.random.default_rng(3)
    first, second = rng.normal(2, 3, size=(50, 4000)), rng.normal(2, 3, size=(100, 4000))
    central, variance = distances(first, second)
    # A squared distance has a variance of about 2: the mean of 4000 is known to 0.022.
    assert central.mean() == pytest.approx(1, abs=0.09)
    # The error of a variance is estimated from the fourth moment of few replicas, which makes this one a little large.
    assert variance.mean() == pytest.approx(1, abs=0.2)


def test_distances_measure_shifts_in_units_of_their_errors():
    rng = np.random.default_rng(3)
    first, second = rng.normal(0, 1, size=(100, 2000)), rng.normal(1, 2, size=(100, 2000))
    central, variance = distances(first, second)
    assert central.mean() == pytest.approx(1 + 1 / (1 / 100 + 4 / 100), rel=0.05)
    # The error of a Gaussian variance is sqrt(2 / (N - 1)) s^2.
    assert np.median(variance) == pytest.approx(9 / (2 / 99 * (1 + 16)), rel=0.15)


def test_a_fit_has_no_distance_from_itself(fit):
    same = pf.compare(fit, fit)
    assert (same.central == 0).all()
    assert (same.variance == 0).all()
    np.testing.assert_array_equal(same.chi2[:, 0], same.chi2[:, 1])
    alone = pf.compare(part(fit, np.arange(40) == 0), part(fit, np.arange(40) == 0))
    assert (alone.central == 0).all()


def test_two_halves_of_a_fit_have_a_distance_of_about_one(fit):
    rng, found = np.random.default_rng(0), []
    for _ in range(8):
        chosen = np.isin(np.arange(40), rng.permutation(40)[:20])
        halves = pf.compare(part(fit, chosen & fit.kept), part(fit, ~chosen & fit.kept), x=np.geomspace(1e-3, 0.6, 7))
        found.append([halves.central.mean(), halves.variance.mean()])
    assert (np.abs(np.mean(found, axis=0) - 1) < 0.4).all(), np.mean(found, axis=0)


def test_one_replica_has_no_error_and_says_so(fit):
    result = pf.compare(part(fit, np.arange(40) == 0), part(fit, np.arange(40) == 1))
    assert np.isnan(result.central).all()
    assert "g nan/nan" in str(result)
    assert result.plot().axes
    assert result.plot("ratio", flavours=["g"]).axes


def test_chi2_stand_side_by_side_also_for_other_data(fit):
    other = pf.fit_pdf(pf.load_data(CC[:1]), "hera", replicas=2, seed=1, control=pf.fit_control(**QUICK))
    result = pf.compare(fit, other, labels=("both", "one"))
    table = result.chi2_table().set_index("dataset")
    assert table.index.tolist() == [*CC, "total"]
    assert table.loc["total", "chi2_per_point_first"] == pytest.approx(fit.chi2().per_point)
    assert table.loc[CC[0], "chi2_per_point_second"] == pytest.approx(other.chi2().per_point)
    assert np.isnan(table.loc[CC[1], "chi2_per_point_second"])
    assert table["n_data_second"].tolist() == [42, 0, 42]
    assert "1: both (" in str(result)
    frame = result.to_dataframe()
    assert frame.columns.tolist() == ["flavour", "x", "Q", "distance2_central", "distance2_variance"]
    assert len(frame) == 8 * 50
    for kind in ("distances", "chi2", "ratio"):
        assert result.plot(kind).axes


def test_a_function_can_stand_beside_a_fit(fit):
    result = pf.compare(fit, pf.toy_pdf)
    assert result.replicas[1] == 1
    expected = pf.chi2(fit.data, fit.forward, "toy").per_point
    assert result.chi2[-1, 1] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"flavours": "u_plsu"}, "Did you mean"),
        ({"x": 2.0}, "x must lie in"),
        ({"labels": "one"}, "labels must be two names"),
    ],
)
def test_wrong_settings_are_named(fit, options, words):
    with pytest.raises(SettingError, match=words):
        pf.compare(fit, fit, **options)
    with pytest.raises(SettingError, match="Did you mean 'ratio'"):
        pf.compare(fit, fit).plot("ration")


def test_the_command_writes_a_page_or_a_folder(fit, tmp_path):
    fit.save(tmp_path / "a")
    part(fit, np.arange(40) < 20).save(tmp_path / "b")
    for target in ("page.html", "folder"):
        command = ["compare", *(str(tmp_path / name) for name in ("a", "b")), "-o", str(tmp_path / target)]
        done = CliRunner().invoke(cli.app, command, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        assert "mean squared distance" in done.output
        assert CliRunner().invoke(cli.app, command).exit_code != 0  # it is there already
    page = (tmp_path / "page.html").read_text()
    assert page.count("<img") == 4
    assert "http" not in page.replace("http-equiv", "")
    names = {path.name for path in (tmp_path / "folder").iterdir()}
    assert names == {
        "comparison.html", "distances.csv", "distances.json", "chi2.csv",
        *(f"{kind}.{ending}" for kind in ("distances", "chi2", "ratio") for ending in ("pdf", "png")),
    }  # fmt: skip
