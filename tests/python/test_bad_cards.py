"""Thirty and more broken runcards, each run by `partonfit fit`: one message with key and line, before any training.

Cards that cannot be parsed are in test_runcard.py too; here are those that a user meets, to the end.
"""

import time

import numpy as np
import pytest
from partonfit import _card_lines, cli
from typer.testing import CliRunner

CC = "HERA_CC_318GEV_EM-SIGMARED"
CARDS = {
    # what the card says cannot be read
    "unknown key": ("replica: 3", 1, "unknown key 'replica'. Did you mean 'replicas'?"),
    "unknown key inside": ("control:\n  epoch: 3", 2, "unknown key 'control.epoch'. Did you mean 'epochs'?"),
    "wrong type": ("seed: 1\nreplicas: many", 2, "replicas: expected a whole number, not 'many'"),
    "negative fraction": (f"data:\n- dataset: {CC}\n  frac: -0.5", 3, "data[1].frac: must be greater than 0"),
    "fraction above one": (f"data:\n- {{dataset: {CC}, frac: 1.5}}", 2, "data[1].frac: must be at most 1"),
    "negative weight": (f"data:\n- {{dataset: {CC}, weight: -1}}", 2, "data[1].weight: must be greater than 0"),
    "no replicas": ("replicas: 0", 1, "replicas: must be at least 1"),
    "key twice": ("seed: 1\nseed: 2", 2, "stands twice"),
    "not YAML": ("seed: 1\ndata: [1", 2, "not valid YAML"),
    "code": ("a: !!python/object/apply:os.system [ls]", 1, "is not allowed"),
    "n3fit key": (f"dataset_inputs: [{{dataset: {CC}}}]\nparameters:\n  epochz: 1", 3, "'parameters.epochz' is not"),
    "n3fit layers": (f"dataset_inputs: [{{dataset: {CC}}}]\nparameters:\n  layer_type: LSTM", 3, "layer_type"),
    "n3fit flavour": (
        f"dataset_inputs: [{{dataset: {CC}}}]\nfitting:\n  basis:\n  - {{fl: glu}}", 4, "Did you mean 'g'?"
    ),
    # what it names is not there
    "unknown dataset": ("seed: 1\ndata:\n- HERA_CC_318GEV_EM-SIGMARE", 3, f"Did you mean '{CC}'?"),
    "unknown variant": (f"data:\n- {{dataset: {CC}, variant: lgacy}}", 2, "Did you mean 'legacy'?"),
    "no datasets": ("data: []", 1, "The list of datasets is empty"),
    "dataset twice": (f"data:\n- {CC}\n- {CC}", 2, "listed twice"),
    "missing theory": ("seed: 1\ntheory: no-such", 2, "no-such does not exist"),
    "theory without tables": ("theory: empty", 1, "holds no table"),
    "missing tables": ("seed: 1\nconstraints: nnpdf40\ntheory: hera", 3, "no table 'NNPDF_POS_F2U_40'"),
    "missing C-factor": (f"data:\n- {{dataset: {CC}, cfac: [QCD]}}", 2, "no C-factor 'QCD'"),
    "missing t0": ("seed: 1\nt0: nopdf", 2, "there is no PDF 'nopdf'"),
    "unknown observable": ("constraints: [NNPDF_POS_2P24GEV_F2Z]", 1, "Did you mean 'NNPDF_POS_2P24GEV_F2U'?"),
    "unknown optimizer": ("control: {optimizer: Nadamm}", 1, "Did you mean 'Nadam'?"),
    "unknown initializer": ("model:\n  initializer: glorot_norml", 2, "Did you mean 'glorot_normal'?"),
    "unknown activation": ("model:\n  activation: tahn", 2, "Did you mean 'tanh'?"),
    # what it asks for cannot be
    "fully cut dataset": (f"data: [{CC}]\ncuts: {{{CC}: x > 2}}", 1, f"No data point is left after the cuts ({CC}"),
    "everything cut": ("seed: 1\nq2min: 1e9", 2, "No data point is left after the cuts"),
    "cut that cannot be read": (f"seed: 1\ncuts: {{{CC}: x >}}", 2, "Cannot read the cut 'x >'"),
    "cut by an unknown name": (f"seed: 1\ncuts: {{{CC}: xx > 1}}", 2, "uses 'xx', which this dataset does not have"),
    "cut with code": (f"cuts: {{{CC}: \"open('x')\"}}", 1, "is not allowed"),
    "cut of another dataset": (f"data: [{CC}]\ncuts:\n  NMC: x > 0.1", 3, "'NMC', which is not loaded"),
    "range upside down": ("model: {alpha: {g: [2, 1]}}", 1, "low <= high"),
    "exponents of another basis": ("model:\n  basis: flavour\n  alpha: {Sigma: [1, 2]}", 3, "unknown combination"),
    "form with scaled input": ("model:\n  form: herapdf\n  scaling: 10", 2, "in the place of a network"),
    "knots in disorder": ("model:\n  scaling: [0.1, 0.01, 1]", 2, "increasing values of x"),
}  # fmt: skip


def run(card, folder):
    (folder / "empty").mkdir()
    (folder / "card.yml").write_text(card)
    place = str(folder / "card.yml")
    return CliRunner().invoke(
        cli.app, ["fit", place, "-o", str(folder / "fit")], catch_exceptions=False, env={"COLUMNS": "400"}
    )


@pytest.mark.parametrize(("card", "line", "words"), CARDS.values(), ids=list(CARDS))
def test_broken_cards_are_refused_with_key_and_line_before_slow_work(card, line, words, tmp_path, monkeypatch):
    def never(*_args, **_options):
        pytest.fail("the training began")

    monkeypatch.setattr("partonfit._fit.fit_replicas", never)
    started = time.process_time()
    result = run(card, tmp_path)
    assert result.exit_code in (1, 2)
    message = " ".join(result.stderr.split())
    assert f"card.yml, line {line}: " in message
    assert words in message
    assert message.count("Error:") == 1
    assert "Traceback" not in message
    assert not (tmp_path / "fit").exists()
    assert time.process_time() - started < 30


def test_there_are_thirty_of_them():
    assert len(CARDS) >= 30


def test_a_singular_covariance_names_the_dataset_and_the_eigenvalue(tmp_path, monkeypatch):
    """Such a dataset needs files of its own: the covariance is made singular where it is computed."""
    from partonfit.data import Data

    monkeypatch.setattr(Data, "covariance", lambda self, *_, **__: np.ones((self.n_data, self.n_data)))
    result = run(f"replicas: 2\ndata: [{CC}]", tmp_path)
    message = " ".join(result.stderr.split())
    assert result.exit_code == 1
    assert "card.yml, line 2: " in message
    assert CC in message
    assert "eigenvalue" in message


def test_the_line_is_that_of_the_whole_name():
    text = f"# {CC[:-1]}\ndata:\n- {CC}_B\n- {CC}"
    assert _card_lines.line_of(f"Dataset {CC} is wrong", text) == 4
    assert _card_lines.line_of("Nothing of the card", text) is None
