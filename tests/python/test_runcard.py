"""Runcards: every mistake is found when the card is read, with its key and its line."""

import inspect
from dataclasses import fields

import pytest
from partonfit import runcard
from partonfit._errors import SettingError, StorageError
from partonfit.data import load_constraints
from partonfit.inference import FitControl
from partonfit.models import pdf_model
from partonfit.runcard import RunSettings, parse_card

N3FIT = """\
description: a card of the other program
dataset_inputs:
- {dataset: HERA_CC_318GEV_EP-SIGMARED, frac: 0.75, variant: legacy}
datacuts:
  t0pdfset: toy
  q2min: 3.49
  w2min: 12.5
theory:
  theoryid: 40_000_000
trvlseed: 1
nnseed: 2
mcseed: 3
genrep: true
parameters:
  nodes_per_layer: [25, 20, 8]
  activation_per_layer: [tanh, tanh, linear]
  initializer: glorot_normal
  optimizer:
    clipnorm: 6.073e-6
    learning_rate: 2.621e-3
    optimizer_name: Nadam
  epochs: 1700
  stopping_patience: 0.2
  layer_type: dense
  dropout: 0.0
  threshold_chi2: 3.5
fitting:
  fitbasis: EVOL
  basis:
  - {fl: sng, trainable: false, smallx: [1.0, 1.1], largex: [1.4, 3.1]}
debug: false
maxcores: 1
"""

BAD = [
    ("replica: 3", 1, "unknown key 'replica'. Did you mean 'replicas'?"),
    ("data: hera\nreplicas: many", 2, "replicas: expected a whole number, not 'many'"),
    ("replicas: 0", 1, "replicas: must be at least 1, not 0"),
    ("replicas: 1.5", 1, "replicas: expected a whole number"),
    ("replicas: true", 1, "replicas: expected a number"),
    ("seed: -1", 1, "seed: must be at least 0"),
    ("seed: one", 1, "seed: expected a whole number"),
    ("seed: 99999999999", 1, "seed: must be less than 2147483648"),
    ("q2min: .nan", 1, "q2min: must be"),
    ("w2min: [1]", 1, "w2min: expected a number"),
    ("data: 3", 1, "data: expected a name or a list of datasets"),
    ("data:\n- 3", 2, "data[1]: expected a name or a mapping"),
    ("data:\n- dataset: A\n  frac: 2", 3, "data[1].frac: must be at most 1.0"),
    ("data:\n- dataset: A\n  frac: -0.5", 3, "data[1].frac: must be greater than 0"),
    ("data:\n- A\n- {name: B}", 3, "'data[2].dataset' is missing"),
    ("data:\n- {dataset: A, fraction: 1}", 2, "unknown key 'data[1].fraction'. Did you mean 'frac'?"),
    ("control:\n  epoch: 3", 2, "unknown key 'control.epoch'. Did you mean 'epochs'?"),
    ("control: 3", 1, "control: expected a mapping"),
    ("control:\n  patience: 1.5", 2, "control.patience: must be at most 1"),
    ("control:\n  precision: float16", 2, "control.precision: must be 'float32' or 'float64'"),
    ("control:\n  pseudodata: maybe", 2, "control.pseudodata: expected true or false"),
    ("control:\n  epochs: 0", 2, "control.epochs: must be at least 1"),
    ("model:\n  nodes: 25", 2, "model.nodes: expected a list"),
    ("model:\n  nodes: [25, 0]", 2, "model.nodes[2]: must be at least 1"),
    ("model:\n  sum_rules: some", 2, "model.sum_rules: must be 'all', 'momentum', 'valence' or 'off'"),
    ("model:\n  alpha: {glu: [0, 1]}", 2, "model.alpha.glu: must be 'Sigma', 'g'"),
    ("model:\n  alpha: {g: [1]}", 2, "model.alpha.g"),
    ("a: !!python/object/apply:os.system [ls]", 1, "is not allowed"),
    ("replicas: 1\nreplicas: 2", 2, "stands twice"),
    ("data: [1", 1, "not valid YAML"),
    ("- 1\n- 2", None, "expected keys with values"),
    ("", None, "is empty"),
    ("dataset_inputs: []", 1, "must list at least one dataset"),
    ("dataset_inputs: [{dataset: A}]\nparamters: {}", 2, "'paramters' is not known. Did you mean 'parameters'?"),
    ("dataset_inputs: [{dataset: A}]\nparameters:\n  epochz: 1", 3, "'parameters.epochz' is not known"),
    ("dataset_inputs: [{dataset: A}]\nparameters:\n  epochs: few", 3, "parameters.epochs: expected a whole number"),
    ("dataset_inputs: [{dataset: A}]\nparameters:\n  layer_type: conv", 3, "must be 'dense' or 'dense_per_flavour'"),
    ("dataset_inputs: [{dataset: A}]\nparameters:\n  feature_scaling_points: many", 3, "feature_scaling_points"),
    ("dataset_inputs: [{dataset: A}]\nparameters:\n  activation_per_layer: tanh", 3, "end in 'linear'"),
    ("dataset_inputs: [{dataset: A}]\nparameters:\n  nodes_per_layer: [25, 20, 9]", 3, "must end in 8"),
    ("dataset_inputs: [{dataset: A}]\nfitting:\n  fitbasis: EVOLQED", 3, "EVOL, CCBAR_ASYMM, FLAVOUR here"),
    ("dataset_inputs: [{dataset: A}]\nfitting:\n  fitbasis: FLAVOUR\n  basis:\n  - {fl: sng}", 5, "is 'sng'"),
    ("dataset_inputs: [{dataset: A}]\npositivity:\n  posdataset: []", 3, "Did you mean 'posdatasets'?"),
    ("dataset_inputs: [{dataset: A}]\npositivity:\n  posdatasets: F2U", 3, "must be a list of observables"),
    (
        "dataset_inputs: [{dataset: A}]\npositivity:\n  posdatasets:\n  - {dataset: NNPDF_INTEG_3GEV_XT3}",
        4,
        "must be the name of an observable NNPDF_POS_...",
    ),
    (
        "dataset_inputs: [{dataset: A}]\nintegrability:\n  integdatasets:\n"
        "  - {dataset: NNPDF_INTEG_3GEV_XT3, maxlambda: a}",
        4,
        "integrability.integdatasets[1].maxlambda: expected a number",
    ),
    (
        "dataset_inputs: [{dataset: A}]\nadded_filter_rules:\n- {dataset: A}",
        3,
        "needs 'dataset: NAME' and 'rule: CONDITION'",
    ),
    ("dataset_inputs: [{dataset: A}]\nadded_filter_rules: x > 1", 2, "must be a list of rules"),
    (
        "dataset_inputs: [{dataset: A}]\nparameters:\n  positivity: {start: 1}",
        3,
        "'parameters.positivity.start' is not known",
    ),
    ("dataset_inputs: [{dataset: A}]\nparameters:\n  positivity: {initial: -1}", 3, "must be greater than 0"),
    ("dataset_inputs: [{dataset: A}]\ndiagonal_basis: 3", 2, "'diagonal_basis' must be true or false"),
    ("dataset_inputs: [{dataset: A}]\nparameters:\n  dropout: 1.5", 3, "parameters.dropout: must be less than 1"),
    ("constraints: nnpdf41", 1, "constraints: must be 'nnpdf40'"),
    ("constraints:\n- {dataset: NNPDF_POS_2P24GEV_F2U, lambda: 3}", 2, "unknown key 'constraints[1].lambda'"),
    ("constraints:\n- {maxlambda: 3}", 2, "'constraints[1].dataset' is missing"),
    ("control: {positivity_threshold: 0}", 1, "must be greater than 0"),
    ("cuts: [x > 1]", 1, "cuts: expected a mapping"),
    ("dataset_inputs: [{dataset: A}]\nmcseed: x", 2, "'mcseed' must be a whole number"),
    ("dataset_inputs: [{dataset: A}]\nfitting:\n  basis:\n  - {fl: glu}", 4, "Did you mean 'g'?"),
]


@pytest.mark.parametrize(("text", "line", "words"), BAD)
def test_mistakes_are_named_with_key_and_line(text, line, words):
    with pytest.raises(SettingError) as caught:
        parse_card(text, name="card.yml")
    message = str(caught.value)
    assert words in message
    assert message.startswith("card.yml")
    if line is not None:
        assert any(words in part and f"line {line}:" in part for part in message.splitlines())


def test_all_mistakes_are_reported_at_once():
    with pytest.raises(SettingError) as caught:
        parse_card("replicas: 0\nseed: x\nmodle: {}\n")
    assert str(caught.value).count("\n") == 2


def test_defaults_are_those_of_the_functions():
    """The card repeats names and defaults for its schema; they must not drift."""
    control = {f.name: f.default for f in fields(FitControl)}
    assert runcard.ControlSettings().model_dump() == control
    model = {name: p.default for name, p in inspect.signature(pdf_model).parameters.items()}
    del model["network"], model["precision"]
    assert {**runcard.ModelSettings().model_dump(), "nodes": (25, 20)} == model


def test_a_card_prints_and_reads_back():
    settings = parse_card("data:\n- {dataset: A, frac: 0.5}\n- B\nseed: 4\nmodel: {alpha: {g: [0.1, 0.2]}}")
    again = parse_card(runcard.to_yaml(settings))
    assert again == settings
    assert again.hash == settings.hash
    assert again.hash != RunSettings().hash
    assert settings.entries == [{"dataset": "A", "frac": 0.5}, "B"]


def test_the_seed_that_was_drawn_is_written_into_the_card():
    assert parse_card(runcard.to_yaml(RunSettings(), seed=11)).seed == 11


def test_changes_from_the_command_line_are_checked_like_a_card():
    changed = runcard.with_changes(RunSettings(), replicas=3, epochs=7, seed=5, theory="x")
    assert (changed.replicas, changed.control.epochs, changed.seed, changed.theory) == (3, 7, 5, "x")
    with pytest.raises(SettingError, match="replicas: must be at least 1"):
        runcard.with_changes(RunSettings(), replicas=0)


def test_settings_cannot_be_changed_afterwards():
    with pytest.raises(ValueError, match="frozen"):
        RunSettings().replicas = 3


def test_an_n3fit_card_is_understood():
    settings = parse_card(N3FIT)
    assert settings.entries == [{"dataset": "HERA_CC_318GEV_EP-SIGMARED", "frac": 0.75, "variant": "legacy"}]
    assert (settings.theory, settings.t0) == ("40000000", "toy")
    assert settings.model.nodes == [25, 20]
    assert settings.model.alpha == {"Sigma": (1.0, 1.1)}
    assert settings.model.beta == {"Sigma": (1.4, 3.1)}
    assert (settings.control.epochs, settings.control.patience) == (1700, 0.2)
    assert settings.control.clipnorm == 6.073e-6


def test_each_of_the_three_seeds_of_an_n3fit_card_counts():
    changes = (("x", "x"), ("trvlseed: 1", "trvlseed: 9"), ("nnseed: 2", "nnseed: 9"), ("mcseed: 3", "mcseed: 9"))
    seeds = {parse_card(N3FIT.replace(old, new)).seed for old, new in changes}
    assert len(seeds) == 4


def test_constraints_of_an_n3fit_card_are_honoured(shared):
    settings = runcard.read_card(shared / "bench" / "n3fit_dis.yml")
    entries = settings.constraint_entries
    assert load_constraints(entries)[0].max_lambda == 1e6
    known = {c.dataset.name: (c.max_lambda, c.dataset.n_data) for c in load_constraints("nnpdf40")}
    assert {c.dataset.name: (c.max_lambda, c.dataset.n_data) for c in load_constraints(entries)} == known
    assert settings.cuts == {}
    assert (settings.control.positivity_initial, settings.control.integrability_initial) == (184.8, 10.0)


def test_added_rules_of_datasets_are_cuts_and_multipliers_default_as_in_n3fit():
    card = N3FIT + (
        "added_filter_rules:\n- {dataset: HERA_CC_318GEV_EP-SIGMARED, rule: x > 0.1}\n"
        "- {dataset: NNPDF_POS_2P24GEV_F2C, rule: x < 0.7}\n- {dataset: NNPDF_POS_2P24GEV_F2C, rule: x > 1e-4}\n"
        "positivity: {posdatasets: [{dataset: NNPDF_POS_2P24GEV_F2C, maxlambda: 50}]}\n"
    )
    settings = parse_card(card)
    assert settings.cuts == {"HERA_CC_318GEV_EP-SIGMARED": ["x > 0.1"]}
    assert settings.constraint_entries == [
        {"dataset": "NNPDF_POS_2P24GEV_F2C", "maxlambda": 50.0, "rule": "(x < 0.7) and (x > 1e-4)"}
    ]
    assert settings.control.positivity_initial is None


def test_deep_nesting_and_alias_bombs_are_refused():
    with pytest.raises(SettingError, match="too deeply nested"):
        parse_card("a: " + "[" * 60 + "]" * 60)
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 30))
    with pytest.raises(SettingError, match="too large"):
        parse_card(bomb)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(StorageError, match="Cannot read"):
        runcard.read_card(tmp_path / "missing.yml")
    (tmp_path / "binary.yml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StorageError, match="UTF-8"):
        runcard.read_card(tmp_path / "binary.yml")


def test_the_schema_describes_every_key():
    schema = runcard.card_schema()
    assert set(schema["properties"]) == set(RunSettings.model_fields)
    assert all("description" in p for p in schema["properties"].values())


def test_an_unknown_t0_says_what_may_be_given(tmp_path):
    with pytest.raises(SettingError, match="LHAPDF_DATA_PATH"):
        runcard.known_pdf("NNPDF40", tmp_path)
