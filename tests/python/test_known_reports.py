"""What users of other programs met with data, cards, evolution and reports, and what must hold here.

Only what no other file of tests holds already: each test is named after the right behaviour.
"""

import json
import time

import numpy as np
import partonfit as pf
import pytest
from fit_standin import StandInFit
from partonfit import runcard
from partonfit.results import _report
from partonfit.theory.evolution import evolve, input_grid

CARD = """\
data: [HERA_CC_318GEV_EM-SIGMARED]
replicas: 2
seed: 1
control: {epochs: 5, threshold_chi2: null}
"""


@pytest.fixture(scope="module")
def fit():
    return runcard.run(runcard.parse_card(CARD))


def test_pseudodata_and_split_of_every_replica_are_stored(fit, tmp_path):
    again = pf.load_fit(fit.save(tmp_path / "fit"))
    assert again.replica_data.shape == again.training_mask.shape == (2, fit.data.n_data)
    np.testing.assert_array_equal(again.replica_data, fit.replica_data)
    np.testing.assert_array_equal(again.training_mask, fit.training_mask)
    assert (again.replica_data[0] != again.replica_data[1]).all()
    assert (again.training_mask[0] != again.training_mask[1]).any()


def test_negative_pseudodata_are_not_drawn_again_unless_asked():
    assert pf.fit_control().positive_tries == 0


def test_the_resolved_card_and_its_hash_are_stored_and_a_changed_card_is_found(fit, tmp_path):
    folder = fit.save(tmp_path / "fit")
    again = pf.load_fit(folder)
    settings = runcard.parse_card(again.provenance["card"]["resolved"])
    assert settings == runcard.parse_card(CARD)
    for key in ("data_hash", "theory_hash"):
        assert len(again.provenance[key]) >= 32
    assert len(again.provenance["t0_predictions"]) == fit.data.n_data
    assert again.provenance["versions"]["partonfit"]
    stored = json.loads((folder / "fit.json").read_text())
    stored["provenance"]["card"]["resolved"] = stored["provenance"]["card"]["resolved"].replace("seed: 1", "seed: 2")
    (folder / "fit.json").write_text(json.dumps(stored))
    with pytest.raises(pf.StorageError, match="was changed after the fit"):
        pf.load_fit(folder)


def test_a_hundred_replicas_are_evolved_in_one_contraction_and_seconds():
    grid = input_grid()
    one = np.asarray(pf.toy_pdf(grid))
    many = one * np.linspace(0.5, 1.5, 100)[:, None, None]
    x, scales = np.geomspace(1e-4, 0.9, 30), np.array([10.0, 100.0]) ** 2
    single = evolve(one[None], grid, x, scales)  # operators are made once
    started = time.process_time()
    all_of_them = evolve(many, grid, x, scales)
    assert time.process_time() - started < 20
    np.testing.assert_allclose(all_of_them, single * np.linspace(0.5, 1.5, 100)[:, None, None, None], rtol=1e-9)


def test_every_table_works_with_one_replica():
    control = pf.fit_control(epochs=5, threshold_chi2=None)
    fit = pf.fit_pdf("hera", replicas=1, seed=1, control=control)
    prediction = fit.predict([0.1], flavour="g")
    assert prediction.sd.tolist() == [[0.0]]
    assert prediction.lower == prediction.upper == prediction.mean
    assert not fit.to_dataframe([0.1]).isna().any().any()
    assert fit.to_xarray().sizes["replica"] == 1
    assert np.isfinite(fit.chi2().total)
    assert pf.compare(fit, fit).to_dataframe().shape[0] > 0


def test_the_size_of_a_report_does_not_grow_with_the_replicas(monkeypatch, tmp_path):
    monkeypatch.setattr(_report.style, "png", lambda figure, dpi: b"\x89PNG")
    for name in ("pdfs", "ratio", "replicas", "chi2", "data", "training", "validation"):
        monkeypatch.setattr(_report, f"plot_{name}", lambda *_, **__: None)
    sizes = [
        _report.write_report(StandInFit(n, datasets={"A": 5}), tmp_path / f"{n}.html").stat().st_size for n in (5, 100)
    ]
    assert sizes[1] < 1.5 * sizes[0]
