"""From names to datasets: what is read, what is cut, and what is refused before slow work."""

import json
import time

import numpy as np
import pytest
from fakes import write_set
from partonfit._errors import DataError, SettingError
from partonfit.data import _catalogue as catalogue
from partonfit.data import _commondata as commondata
from partonfit.data import describe_dataset, list_datasets, load_constraints, load_data, read_entries
from partonfit.data._record import from_file, to_bytes

SET = "MADEUP_NC_1GEV_F2"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """No test reads or writes the user's cache."""
    monkeypatch.setenv("PARTONFIT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path):
    return write_set(tmp_path / "sets" / "MADEUP_NC_1GEV")


# ---- the embedded sets ------------------------------------------------------------------------------


def test_hera_needs_no_yaml_and_is_quick(monkeypatch):
    monkeypatch.setattr(commondata, "load_yaml", lambda path: pytest.fail(f"parsed {path}"))
    load_data("hera")
    start = time.perf_counter()
    data = load_data("hera")
    assert time.perf_counter() - start < 0.3
    assert (data.n_data, len(data)) == (1145, 7)
    assert data["HERA_NC_318GEV_EP-SIGMARED"].n_uncut == 485


def test_embedded_numbers_are_those_of_nnpdf_data():
    names = catalogue.EMBEDDED["hera"]
    stored = json.loads(catalogue.embedded_path("hera").with_suffix(".json").read_text())
    assert tuple(stored["sha256"]) == names
    for name in names[-2:]:  # the two small ones: parsing all of them takes seconds
        for variant in ((), ("legacy",)):
            located = commondata.find_folder(name, commondata.data_folders())
            fresh = commondata.parse_record(*located, variant)
            assert np.array_equal(fresh.errors, catalogue.embedded_records("hera")[name].errors)
            assert fresh.types == catalogue.embedded_records("hera")[name].types
        assert fresh.digest() == stored["sha256"][name]
    for record in catalogue.embedded_records("hera").values():
        assert record.digest() == stored["sha256"][record.name]


@pytest.mark.slow
def test_all_embedded_numbers_are_those_of_nnpdf_data():
    stored = json.loads(catalogue.embedded_path("hera").with_suffix(".json").read_text())["sha256"]
    for name, digest in stored.items():
        located = commondata.find_folder(name, commondata.data_folders())
        assert commondata.parse_record(*located, ("legacy",)).digest() == digest


def test_former_name_is_understood():
    data = load_data("HERACOMBCCEM")
    assert data.names == ("HERA_CC_318GEV_EM-SIGMARED",)
    assert data.datasets[0].variant == ("legacy",)


def test_reader_agrees_with_that_of_nnpdf_data():
    from nnpdf_data.commondataparser import load_commondata, parse_new_metadata

    name, variant = "SLAC_NC_NOTFIXED_P_EM-F2", "legacy_dw"
    folder, observable = commondata.find_folder(name, commondata.data_folders())
    other = load_commondata(parse_new_metadata(folder / "metadata.yaml", observable, variant=variant))
    data = load_data({"dataset": name, "variant": variant}, q2min=0, w2min=0)
    kept = data.datasets[0].kept
    np.testing.assert_array_equal(data.values, other.get_cv()[kept])
    np.testing.assert_array_equal(data.datasets[0].stat, other.stat_errors.to_numpy()[kept])
    ours = data.datasets[0].systematics.absolute(data.values)
    np.testing.assert_allclose(ours, other.systematic_errors().to_numpy()[kept], rtol=1e-14)


# ---- cuts -------------------------------------------------------------------------------------------


def test_cut_report(folder):
    data = load_data(SET, w2min=200, cuts={SET: ["x > 0.15"]}, data_dir=folder)
    assert data.cut_report().to_dict() == {
        "dataset": [SET] * 3,
        "reason": ["W2 <= 200 GeV2", "not x > 0.15", "kept"],
        "n_points": [1, 1, 2],
    }
    assert data.datasets[0].kept.tolist() == [1, 2]
    assert len(data.cut_report().to_dataframe()) == 3


def test_a_point_on_the_limit_is_cut(folder):
    assert load_data(SET, q2min=100, w2min=0, cuts=None, data_dir=write_other(folder)).n_data == 3


def write_other(folder):
    points = "\n".join(f"- {{x: {{mid: 0.1}}, Q2: {{mid: {q2}}}, y: {{mid: 0.5}}}}" for q2 in (100, 100.001, 101, 102))
    return write_set(folder.parent / "other" / "MADEUP_NC_1GEV", kinematics=f"bins:\n{points}\n")


def test_midpoint_when_only_limits_are_given(folder):
    assert load_data(SET, data_dir=folder).datasets[0].kinematics["Q2"].tolist() == [100.0] * 4


def test_dataset_cut_away_whole_is_left_out_with_a_warning(folder):
    entries = [SET, "HERA_CC_318GEV_EM-SIGMARED"]
    with pytest.warns(UserWarning, match=f"{SET} has no point left"):
        data = load_data(entries, cuts={SET: "x > 2"}, data_dir=folder)
    assert data.names == (entries[1],)
    assert data.dropped[0].name == SET
    assert data.cut_report().to_dict()["n_points"][-2:] == [4, 0]


def test_nothing_left_is_an_error(folder):
    with pytest.raises(DataError, match="No data point is left"):
        load_data(SET, q2min=1000, data_dir=folder)


def test_charm_has_a_published_cut_of_its_own():
    entry = {"dataset": "HERA_NC_318GEV_EAVG_CHARM-SIGMARED", "variant": "legacy"}
    assert load_data(entry).n_data == 37
    assert load_data(entry, published_cuts=False).n_data == 47


# ---- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "error", "message"),
    [
        ("HERA_NC_318GEV_EP-SIGMARD", DataError, "Did you mean 'HERA_NC_318GEV_EP-SIGMARED'"),
        ("herra", DataError, "Did you mean 'hera'"),
        ("NMC_NC_NOTFIXED_EM-F2", DataError, "choose a variant .*legacy_dw"),
        ({"dataset": "NMC_NC_NOTFIXED_EM-F2", "variant": "legacy_d"}, DataError, "Did you mean 'legacy_dw'"),
        ({"dataset": "hera", "varaint": "legacy"}, SettingError, "'varaint'.*Did you mean 'variant'"),
        ({"dataset": "X", "sys": "10"}, SettingError, "'sys'.*Use 'variant'"),
        ({"dataset": "X", "frac": -0.1}, SettingError, "'frac' of dataset 'X'.*-0.1"),
        ({"dataset": "X", "frac": 1.5}, SettingError, "'frac' of dataset 'X'.*1.5"),
        ({"dataset": "X", "frac": 0}, SettingError, "'frac'"),
        ({"dataset": "X", "frac": "0.75"}, SettingError, "'frac'"),
        ({"dataset": "X", "weight": 0}, SettingError, "'weight'"),
        ({"dataset": "X", "cfac": 3}, SettingError, "'cfac'"),
        ({"variant": "legacy"}, SettingError, "lacks the key 'dataset'"),
        ([], SettingError, "empty"),
        ("", SettingError, "empty"),
        (["hera", "HERA_CC_318GEV_EM-SIGMARED"], SettingError, "'HERA_CC_318GEV_EM-SIGMARED' is listed twice"),
        (7, SettingError, "must be a dataset name"),
        ([7], SettingError, "name or a mapping"),
        ("NNPDF_POS_2P24GEV_F2U", DataError, "load_constraints"),
    ],
)
def test_bad_entries(entry, error, message):
    with pytest.raises(error, match=message):
        load_data(entry)


@pytest.mark.parametrize("options", [{"q2min": -1}, {"w2min": float("nan")}, {"q2min": "3"}, {"q2min": True}])
def test_bad_limits(options):
    with pytest.raises(SettingError, match=next(iter(options))):
        load_data("hera", **options)


def test_cut_of_a_dataset_that_is_not_loaded():
    with pytest.raises(SettingError, match="Did you mean 'HERA_CC_318GEV_EM-SIGMARED'"):
        load_data("hera", cuts={"HERA_CC_318GEV_EM-SIGMARD": "x > 0.1"})


def test_cut_with_a_variable_the_dataset_lacks(folder):
    with pytest.raises(DataError, match=f"Dataset {SET}: Cut 'pT > 3' uses 'pT'"):
        load_data(SET, cuts={SET: "pT > 3"}, data_dir=folder)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("data", "- 1.2", "- .nan", "central value of dataset {set} is not a finite number at index 2"),
        ("data", "- 1.2", "- .inf", "index 2"),
        ("data", "- 1.2", "- none", "index 2 is not a number: 'none'"),
        ("data", "- 1.2\n", "", "3 points; its metadata promise 4"),
        ("uncertainties", "lumi: 0.02", "lumi: .nan", "uncertainty 'lumi' of dataset {set} .* at index 0"),
        ("uncertainties", "treatment: MULT", "treatment: MUL", "'MUL'; expected ADD or MULT"),
        ("uncertainties", "corr: 0.01", "", "defines 3 uncertainties, but its first point lists 2"),
        ("kinematics", "Q2: {min: 90, mid: null, max: 110}", "Q2: {min: 90, mid: null}", "'Q2'"),
        ("data", "data_central", "central", "no list 'data_central'"),
        ("data", "- 1.2", "- [1.2", "not valid YAML at line"),
    ],
)
def test_damaged_files_name_dataset_and_index(tmp_path, file, old, new, message):
    folder = write_set(tmp_path / "sets" / "MADEUP_NC_1GEV")
    path = folder / "MADEUP_NC_1GEV" / f"{file}.yaml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(DataError, match=message.format(set=SET)):
        load_data(SET, data_dir=folder)
    assert not list((tmp_path / "cache").rglob("*.npz"))


def test_missing_file_and_missing_folder(folder):
    (folder / "MADEUP_NC_1GEV" / "data.yaml").unlink()
    with pytest.raises(DataError, match=r"Cannot read .*data\.yaml"):
        load_data(SET, data_dir=folder)
    with pytest.raises(DataError, match="does not exist"):
        load_data(SET, data_dir=folder / "nowhere")


def test_unknown_observable_suggests_one_of_the_same_set(folder):
    with pytest.raises(DataError, match=f"Did you mean '{SET}'"):
        load_data("MADEUP_NC_1GEV_F1", data_dir=folder)


# ---- cache ------------------------------------------------------------------------------------------


def test_cache_is_used_until_a_file_changes(folder, tmp_path, monkeypatch):
    first = load_data(SET, data_dir=folder)
    assert len(list((tmp_path / "cache").rglob("*.npz"))) == 1
    with monkeypatch.context() as patch:
        patch.setattr(commondata, "parse_record", lambda *args: pytest.fail("parsed again"))
        assert load_data(SET, data_dir=folder).hash == first.hash
    path = folder / "MADEUP_NC_1GEV" / "data.yaml"
    path.write_text(path.read_text().replace("- 1.2", "- 1.25"))
    second = load_data(SET, data_dir=folder)
    assert second.values[2] == 1.25
    assert second.hash != first.hash


def test_damaged_cache_is_rebuilt(folder, tmp_path):
    first = load_data(SET, data_dir=folder)
    (stored,) = (tmp_path / "cache").rglob("*.npz")
    stored.write_bytes(stored.read_bytes()[:100])
    assert load_data(SET, data_dir=folder).hash == first.hash


def test_cache_that_cannot_be_written_only_costs_time(folder, tmp_path, monkeypatch):
    (tmp_path / "blocked").write_text("a file where a folder is wanted")
    monkeypatch.setenv("PARTONFIT_CACHE", str(tmp_path / "blocked"))
    assert load_data(SET, data_dir=folder).n_data == 4
    monkeypatch.setenv("PARTONFIT_CACHE", "")
    assert load_data(SET, data_dir=folder).n_data == 4


def test_stored_record_is_the_same_and_holds_no_pickle(folder, tmp_path):
    record = commondata.parse_record(folder / "MADEUP_NC_1GEV", "F2", ())
    path = tmp_path / "one.npz"
    path.write_bytes(to_bytes([record]))
    (again,) = from_file(path)
    assert again.digest() == record.digest()
    assert again.description == record.description
    path.write_bytes(b"no archive")
    with pytest.raises(DataError, match="Cannot read the stored datasets"):
        from_file(path)


# ---- lists and descriptions -------------------------------------------------------------------------


def test_variant_changes_the_numbers(folder):
    wide = load_data({"dataset": SET, "variant": "wide"}, data_dir=folder)
    assert wide.datasets[0].stat.tolist() == [0.2] * 4
    assert wide.datasets[0].variant == ("wide",)


def test_list_and_description():
    infos = {info.name: info for info in list_datasets()}
    assert infos == {info.name: info for info in list_datasets()}  # the second comes from the cache
    info = infos["HERA_CC_318GEV_EM-SIGMARED"]
    assert (info.n_data, info.process, info.embedded) == (42, "DIS_CC", True)
    shown = describe_dataset("HERA_CC_318GEV_EM-SIGMARED")
    assert shown["tables"] == [["HERA_CC_318GEV_EM_SIGMARED"]]
    assert shown["n_shared_sources"] == 169
    json.dumps(shown)
    assert describe_dataset("hera")["n_data"] == 1306
    assert "choose a variant" in describe_dataset("NMC_NC_NOTFIXED_EM-F2")["note"]


def test_constraints_of_nnpdf40():
    constraints = load_constraints()
    assert [c.kind for c in constraints].count("positivity") == 15
    by_name = {c.dataset.name: c for c in constraints}
    assert by_name["NNPDF_POS_2P24GEV_FLL"].dataset.n_data == 19
    assert by_name["NNPDF_POS_2P24GEV_DYU"].max_lambda == 1e10
    assert by_name["NNPDF_INTEG_3GEV_XT3"].max_lambda == 1e2
    assert load_constraints({"dataset": "NNPDF_POS_2P24GEV_F2U", "maxlambda": 5})[0].max_lambda == 5


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"dataset": "NNPDF_POS_2P24GEV_F2U", "maxlamda": 5}, "Did you mean 'maxlambda'"),
        ({"dataset": "NNPDF_POS_2P24GEV_F2U", "maxlambda": -5}, "at least 0"),
        ("HERA_CC_318GEV_EM-SIGMARED", "no positivity or integrability"),
        ({"maxlambda": 5}, "key 'dataset'"),
    ],
)
def test_bad_constraints(entry, message):
    with pytest.raises(SettingError, match=message):
        load_constraints(entry)


def test_entries_are_kept_as_given():
    entries = read_entries([{"dataset": "A", "frac": 0.5, "cfac": ["QCD"], "weight": 2, "custom_group": "g"}, "B"])
    assert (entries[0].frac, entries[0].cfac, entries[0].weight, entries[0].group) == (0.5, ("QCD",), 2.0, "g")
    assert read_entries(entries) == entries


def test_request_makes_the_same_data_again(folder):
    entries = [
        {"dataset": SET, "variant": "wide", "frac": 0.5, "weight": 2.0, "custom_group": "mine"},
        "HERACOMBCCEM",
    ]
    data = load_data(entries, q2min=10, w2min=5, cuts={SET: "x > 0.15"}, data_dir=folder)
    request = json.loads(json.dumps(data.request))
    again = load_data(**request)
    assert again.hash == data.hash
    assert again.request == data.request
    assert (again.datasets[0].frac, again.datasets[0].group) == (0.5, "mine")
    part = data.select("HERA_CC_318GEV_EM-SIGMARED")
    assert load_data(**part.request).hash == part.hash
    fake = data.with_values(2 * data.values)
    assert load_data(**fake.request).with_values(fake.values).hash == fake.hash
    assert load_data(**load_data("hera").request).hash == load_data("hera").hash
