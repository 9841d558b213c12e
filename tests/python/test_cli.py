"""The command line: one message for every mistake, results that say what to do next."""

import json
from types import SimpleNamespace

import pytest
from fit_standin import StandInFit
from partonfit import __version__, _console, cli, runcard
from partonfit._errors import FitError
from typer.testing import CliRunner

COMMANDS = (
    [], ["fit"], ["closure"], ["compare"], ["postfit"], ["report"], ["evolve"], ["chi2"], ["card"], ["theory"],
    ["theory", "build"], ["theory", "info"], ["theory", "check"], ["data"], ["data", "list"], ["data", "show"],
)  # fmt: skip


def call(*arguments):
    return CliRunner().invoke(cli.app, [str(a) for a in arguments], catch_exceptions=False, env={"COLUMNS": "200"})


def failed(result, code, *words):
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert result.stderr.count("Error") == 1
    flat = " ".join(result.stderr.split())
    for word in words:
        assert word in flat


@pytest.fixture
def quick(monkeypatch):
    """Replace the training by the stand-in; it remembers the settings it was called with."""
    seen = []

    class Saved(StandInFit):
        def save(self, folder, overwrite=False):
            folder.mkdir()

        def write_lhapdf(self, folder, **options):
            folder.mkdir()
            return folder

        def report(self, file, **options):
            file.write_text("<html>")
            return file

    def run(settings, *, base, progress, **more):
        progress(1, 2, {"training": 1.0, "validation": 2.0, "running": 3, "members": 4})
        seen.append(settings)
        return Saved(3)

    monkeypatch.setattr(runcard, "run", run)
    return seen


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(command):
    result = call(*command, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.output
    if command and command not in (["theory"], ["data"]):
        assert f"Example: partonfit {' '.join(command)}" in " ".join(result.output.split())


def test_version():
    assert call("--version").output == f"partonfit {__version__}\n"


def test_fit_writes_everything_and_says_what_comes_next(quick, tmp_path):
    target = tmp_path / "fit"
    result = call(
        "fit", "hera", "-o", target, "--replicas", 3, "--seed", 8, "--epochs", 50, "--lhapdf", "s", "--report"
    )
    assert result.exit_code == 0, result.output
    assert (quick[0].replicas, quick[0].seed, quick[0].control.epochs, quick[0].data) == (3, 8, 50, "hera")
    assert "experimental" in result.stdout
    assert f"partonfit evolve {target}" in result.stdout
    assert (target / "s").is_dir()
    assert (target / "report.html").is_file()
    assert runcard.read_card(target / "card.yml").seed == 8


def test_a_card_is_read_and_the_command_line_wins(quick, tmp_path):
    (tmp_path / "card.yml").write_text("replicas: 7\nseed: 2\ncontrol: {epochs: 9}\n")
    assert call("fit", tmp_path / "card.yml", "-o", tmp_path / "fit", "--seed", 5).exit_code == 0
    assert (quick[0].replicas, quick[0].seed, quick[0].control.epochs) == (7, 5, 9)


def test_an_interrupted_fit_is_still_written(monkeypatch, tmp_path):
    class Interrupted(StandInFit):
        @property
        def statuses(self):
            return tuple(SimpleNamespace(**{**vars(s), "status": "interrupted"}) for s in super().statuses)

        def save(self, folder, overwrite=False):
            folder.mkdir()

    monkeypatch.setattr(runcard, "run", lambda *_, **__: Interrupted(2))
    result = call("fit", "hera", "-o", tmp_path / "fit")
    assert result.exit_code == _console.INTERRUPTED
    assert "best weights so far were kept" in result.stderr
    assert (tmp_path / "fit" / "card.yml").is_file()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["fit", "hra"], 1, ["no runcard 'hra'", "Did you mean 'hera'?"]),
        (["fit", "hera", "--replicas", "0"], 2, ["replicas: must be at least 1, not 0"]),
        (["fit", "hera", "--seed", "-1"], 2, ["seed: must be at least 0"]),
        (["fit", "hera", "--lhapdf", "a/b"], 2, ["cannot be the name of an LHAPDF set"]),
        (["fit", "BAD"], 2, ["line 2: unknown key 'replica'. Did you mean 'replicas'?"]),
    ],
)
def test_mistakes_give_one_message_before_any_work(quick, tmp_path, arguments, code, words):
    (tmp_path / "bad.yml").write_text("data: hera\nreplica: 3\n")
    arguments = [str(tmp_path / "bad.yml") if a == "BAD" else a for a in arguments]
    failed(call(*arguments, "-o", tmp_path / "fit"), code, *words)
    assert quick == []
    assert not (tmp_path / "fit").exists()


@pytest.mark.parametrize("argument", ["one", "1.5"])
def test_a_seed_that_is_no_whole_number_is_wrong_use(tmp_path, argument):
    failed(call("fit", "hera", "-o", tmp_path / "fit", "--seed", argument), 2, "--seed")


def test_a_folder_that_cannot_be_written_is_found_first(quick, tmp_path):
    (tmp_path / "file").write_text("")
    failed(call("fit", "hera", "-o", tmp_path / "file" / "fit"), 1, "Cannot write")
    (tmp_path / "there").mkdir()
    failed(call("fit", "hera", "-o", tmp_path / "there"), 1, "exists already")
    assert quick == []


def test_a_failure_of_the_work_has_its_own_exit_code(monkeypatch, tmp_path):
    def run(*_, **__):
        msg = "nothing [b]converged[/b]"
        raise FitError(msg)

    monkeypatch.setattr(runcard, "run", run)
    failed(call("fit", "hera", "-o", tmp_path / "fit"), 1, "nothing [b]converged[/b]")


def test_ctrl_c_outside_of_training_says_so(monkeypatch, tmp_path):
    def run(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(runcard, "run", run)
    result = call("fit", "hera", "-o", tmp_path / "fit")
    assert result.exit_code == _console.INTERRUPTED
    assert "Nothing was written" in result.stderr


def test_a_folder_without_a_fit_is_named(tmp_path):
    for command in (["report", tmp_path], ["evolve", tmp_path, "--name", "s"], ["chi2", tmp_path]):
        failed(call(*command), 1, str(tmp_path))


def test_card_prints_the_resolved_card_and_its_schema(tmp_path):
    (tmp_path / "card.yml").write_text("replicas: 7\n")
    text = call("card", tmp_path / "card.yml").stdout
    assert runcard.parse_card(text) == runcard.parse_card("replicas: 7")
    assert "replicas" in json.loads(call("card", "--schema").stdout)["properties"]


def test_datasets_are_listed_and_shown():
    assert "HERA_CC_318GEV_EP-SIGMARED" in call("data", "list", "HERA_CC", "--embedded").stdout
    shown = call("data", "show", "HERA_CC_318GEV_EP-SIGMARED").stdout
    assert "39 of 39" in shown
    failed(call("data", "show", "HERA_CC_318GEV_EP-SIGMARE"), 1, "'HERA_CC_318GEV_EP-SIGMARED'")
    failed(call("data", "list", "HERRA"), 2, "No dataset name contains")


def test_theories_are_described(shared):
    folder = shared / "theory" / "dis_nnlo"
    assert "HERA_CC_318GEV_EP_SIGMARED" in call("theory", "info", folder).stdout
    assert json.loads(call("theory", "info", folder, "--table", "NMC_NC_EM_P_F2").stdout)["n_data"] == 260
    failed(call("theory", "info", folder, "--table", "NMC_NC_EM_P_F3"), 1, "NMC_NC_EM_P_F2")
    assert "there are no hashes to compare" in call("theory", "check", folder).stdout


def test_wrong_theories_are_named(tmp_path):
    failed(call("theory", "check", "no-such-theory"), 1, "no-such-theory")
    failed(call("theory", "build", "herra", "-o", tmp_path / "t"), 2, "'hera'")
    failed(call("theory", "build", "hera", "--scheme", "fonll", "-o", tmp_path / "t"), 2, "'fonll-c'")
    assert list(tmp_path.iterdir()) == []


def test_words_of_a_progress_bar():
    assert _console.chi2_words({}) == ""
    assert "1.2 training" in _console.chi2_words({"loss": 1.2, "validation": 1.3})
