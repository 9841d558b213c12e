"""The loop: chunks that change no number, callbacks, checkpoints that are complete or absent."""

import csv
import os
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import engine
import numpy as np
import partonfit as pf
import pytest
from partonfit.training import Checkpoint, Status, checked_callbacks, remove_checkpoint, stored_facts
from partonfit.training._pace import Pace

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def whole():
    """Members that end at different epochs, trained without a stop."""
    result = engine.train(patience=20)
    assert len(set(result.epoch.tolist())) > 2
    return result


# --- chunks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 7])
def test_results_do_not_depend_on_how_the_work_is_cut(whole, steps):
    assert engine.differences(engine.train(patience=20, steps_per_dispatch=steps), whole) == []


def test_results_do_not_depend_on_the_clock(whole, monkeypatch):
    lengths = iter([1, 3, 50, 2, 100, 31] * 100)
    monkeypatch.setattr(Pace, "steps", lambda *_: next(lengths))
    assert engine.differences(engine.train(patience=20), whole) == []


def test_the_pace_follows_the_clock():
    pace = Pace(500)
    assert pace.steps(4, 2) == 16
    pace.learn(1e-5)  # fast: grows, but not at once, and not beyond what is compiled
    assert [pace.steps(4, 2) for _ in range(3)] == [128, 500, 500]
    pace.learn(0.01)  # slow: half a second at most, and at least 50 ms when there are many blocks
    assert pace.steps(1, 2) == 50
    assert pace.steps(1000, 2) == 5
    pace.learn(60)
    assert pace.steps(1, 2) == 1


# --- callbacks -------------------------------------------------------------------------------------


def test_csv_log(tmp_path):
    file = tmp_path / "log.csv"
    result = engine.train(callbacks=[pf.CSVLogger(file)])
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert list(rows[0]) == ["epoch", "seconds", "running", "members", "training", "validation"]
    epochs = [int(row["epoch"]) for row in rows]
    assert epochs == sorted(epochs)
    assert (epochs[-1], rows[-1]["running"], rows[-1]["members"]) == (400, "0", "6")
    assert float(rows[-1]["validation"]) == pytest.approx(np.median(result.validation), rel=1e-6)


def test_csv_log_goes_on_when_resumed_and_begins_anew_otherwise(tmp_path):
    logger = pf.CSVLogger(tmp_path / "log.csv")
    for resumed, lines in ((False, 2), (True, 3), (False, 2)):
        logger.open(resumed)
        logger(1, 2, {"running": 1, "members": 1, "seconds": 0.5})
        logger.close()
        assert len(logger.file.read_text().splitlines()) == lines
    assert logger.file.read_text().splitlines()[1] == "1,0.5,1,1,,"


def test_logs_that_cannot_be_written_are_found_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(pf.StorageError, match="Cannot write"):
        engine.train(callbacks=[pf.CSVLogger(tmp_path / "none" / "log.csv")])
    with pytest.raises(pf.StorageError, match="Cannot write"):
        engine.train(callbacks=[pf.TensorBoard(tmp_path / "file" / "logs")])


def test_tensorboard_log_reads_back(tmp_path):
    """Read with nothing but the format's definition: length, checksum, protocol buffer, checksum."""
    from tensorboardX.proto import event_pb2

    result = engine.train(callbacks=[pf.TensorBoard(tmp_path / "logs")])
    (file,) = (tmp_path / "logs").iterdir()
    raw, found = file.read_bytes(), {}
    while raw:
        (size,) = struct.unpack("<Q", raw[:8])
        event = event_pb2.Event.FromString(raw[12 : 12 + size])
        for value in event.summary.value:
            found.setdefault(value.tag, []).append((event.step, value.simple_value))
        raw = raw[16 + size :]
    assert {"running", "loss", "validation", "seconds"} <= set(found)
    step, value = found["validation"][-1]
    assert step == 400
    assert value == pytest.approx(np.median(result.validation), rel=1e-5)


def test_a_missing_library_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(pf.MissingDependencyError, match=r"partonfit\[tensorboard\]"):
        pf.TensorBoard(tmp_path)


@pytest.mark.parametrize("where", ["callbacks", "progress"])
def test_an_exception_in_a_users_function_keeps_the_best_so_far(where):
    seen = []

    def mine(step, total, metrics):
        seen.append(step)
        if step >= 100:
            msg = "a typing error"
            raise NameError(msg)

    given = {"progress": mine} if where == "progress" else {"callbacks": [mine]}
    with pytest.warns(RuntimeWarning, match="mine raised NameError: a typing error .* the best so far is kept"):
        result = engine.train(epochs=10_000_000, **given)
    assert isinstance(result.error, NameError)
    assert set(result.status) == {Status.INTERRUPTED}
    assert (result.best_epoch > 0).all()
    assert sum(step >= 100 for step in seen) == 1  # it is not called again


def test_what_is_no_callback_is_refused():
    import keras

    with pytest.raises(pf.SettingError, match=r"not keras.*CSVLogger\. Those of Keras"):
        checked_callbacks(keras.callbacks.CSVLogger("x.csv"))
    assert checked_callbacks(None) == ()
    assert checked_callbacks([print, print]) == (print, print)


# --- checkpoints -----------------------------------------------------------------------------------


def interrupted(folder, at=100, **more):
    def stop(step, total, metrics):
        if step >= at:
            raise KeyboardInterrupt

    store = Checkpoint(folder, engine.parts())
    return engine.train(patience=20, steps_per_dispatch=20, callbacks=[stop], checkpoint=store, **more)


def test_an_interrupted_training_resumes_to_the_same_bits(whole, tmp_path):
    first = interrupted(tmp_path / "c")
    assert Status.INTERRUPTED in first.status
    again = Checkpoint(tmp_path / "c", engine.parts(), resume=True)
    assert engine.differences(engine.train(patience=20, checkpoint=again), whole) == []
    # What has ended is not trained again: no program is compiled.
    done = engine.train(patience=20, checkpoint=Checkpoint(tmp_path / "c", engine.parts(), resume=True))
    assert done.compilations == 0
    assert engine.differences(done, whole) == []


def test_without_a_checkpoint_resume_begins(whole, tmp_path):
    store = Checkpoint(tmp_path / "c", engine.parts(), resume=True, facts={"seed": 7})
    assert stored_facts(tmp_path / "c") is None
    assert engine.differences(engine.train(patience=20, checkpoint=store), whole) == []
    assert stored_facts(tmp_path / "c") == {"seed": 7}
    remove_checkpoint(tmp_path / "c")
    assert not (tmp_path / "c").exists()


KILLED = """
import os, random, signal, sys, time
sys.path.insert(0, {here!r})
import engine
import numpy as np
from pathlib import Path
from partonfit.training import Checkpoint

def attempt(kept):
    store = Checkpoint({folder!r}, engine.parts(), resume=True, every=0)
    store.due = lambda: True  # as often as can be: a kill falls into the writing of one sooner or later
    said = lambda step, total, metrics: os.write(kept, b"t")
    result = engine.train(6, epochs=1500, steps_per_dispatch=20, checkpoint=store, callbacks=[said])
    np.savez({out!r}, *result.trainable, loss=result.loss, history=result.history["loss"])

random.seed(5)
kills = 0
while not Path({out!r}).exists():
    reads, writes = os.pipe()
    child = os.fork()  # JAX has not started yet, only been imported: it starts anew in each child
    if child == 0:
        os.close(reads)
        attempt(writes)
        os._exit(0)
    os.close(writes)
    if kills < 3:
        os.read(reads, 1)  # it has begun to train
        time.sleep(random.uniform(0, 0.4))
        os.kill(child, signal.SIGKILL)
    kills += os.WIFSIGNALED(os.waitpid(child, 0)[1])
    os.close(reads)
print(kills, *sorted(path.name for path in Path({folder!r}).iterdir()))
"""


def test_killed_at_any_moment_it_resumes_to_the_same_result(tmp_path):
    """SIGKILL at random moments, among them while a checkpoint is being written."""
    out = tmp_path / "out.npz"
    code = KILLED.format(here=str(HERE), folder=str(tmp_path / "c"), out=str(out))
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    kills, *left = ran.stdout.split()
    assert kills == "3"
    assert len(left) == 1  # the last checkpoint, and nothing half-written
    expected = engine.train(6, epochs=1500, steps_per_dispatch=20)
    with np.load(out) as found:
        for i, leaf in enumerate(expected.trainable):
            np.testing.assert_array_equal(found[f"arr_{i}"], leaf)
        np.testing.assert_array_equal(found["loss"], expected.loss)
        np.testing.assert_array_equal(found["history"], expected.history["loss"])


FULL = """
import resource, sys
sys.path.insert(0, {here!r})
import engine
import partonfit as pf
from partonfit.training import Checkpoint
def fill(step, total, metrics):  # from here on no file may grow beyond 200 bytes
    if step >= 100:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, resource.RLIM_INFINITY))
store = Checkpoint({folder!r}, engine.parts(), every=0)
store.due = lambda: True
try:
    engine.train(patience=20, steps_per_dispatch=20, checkpoint=store, callbacks=[fill])
except pf.StorageError as error:
    print(error)
"""


def test_a_full_disk_is_a_clear_error_and_loses_nothing(whole, tmp_path):
    code = FULL.format(here=str(HERE), folder=str(tmp_path / "c"))
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert "Writing a checkpoint to" in found.stdout
    assert "File too large" in found.stdout
    assert "The one before it is complete and kept" in found.stdout
    again = Checkpoint(tmp_path / "c", engine.parts(), resume=True)
    assert [path.name.isdigit() for path in (tmp_path / "c").iterdir()] == [True]
    assert engine.differences(engine.train(patience=20, checkpoint=again), whole) == []


@pytest.mark.skipif(os.geteuid() != 0 or not Path("/dev/shm").is_dir(), reason="needs the right to mount")
def test_a_small_file_system_that_is_full(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", place], check=False).returncode:
        pytest.skip("cannot mount a small file system")
    try:
        with pytest.raises(pf.StorageError, match=r"No space left on device.*run again with resume"):
            engine.train(width=500, checkpoint=Checkpoint(place / "c", engine.parts()))
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored") / "c"
    interrupted(folder)
    return folder


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda c: None, "holds the checkpoint of a fit. Set resume"),
        (lambda c: (c / "notes.txt").write_text(""), "holds 'notes.txt', which is no checkpoint"),
    ],
)
def test_what_would_be_overwritten_is_refused(stored, tmp_path, damage, message):
    folder = tmp_path / "c"
    shutil.copytree(stored, folder)
    damage(folder)
    before = sorted(folder.rglob("*"))
    with pytest.raises(pf.StorageError, match=message):
        Checkpoint(folder, engine.parts())
    assert sorted(folder.rglob("*")) == before


def test_a_foreign_checkpoint_is_refused(stored):
    before = sorted(stored.rglob("*"))
    with pytest.raises(pf.StorageError, match="belongs to another fit: it has another data"):
        Checkpoint(stored, engine.parts(data=2 * engine.X), resume=True)
    with pytest.raises(pf.StorageError, match="another data and settings"):
        Checkpoint(stored, engine.parts(data=1, settings=2), resume=True)
    assert sorted(stored.rglob("*")) == before


@pytest.mark.parametrize("damage", ["about", "arrays", "truncated", "format", "shape"])
def test_an_unreadable_checkpoint_is_a_clear_error(stored, tmp_path, damage):
    folder = tmp_path / "c"
    shutil.copytree(stored, folder)
    (number,) = folder.iterdir()
    about = number / "about.json"
    files = sorted((f for f in (number / "state").rglob("*") if f.is_file()), key=lambda f: f.stat().st_size)
    if damage == "about":
        about.write_text("{")
    elif damage == "arrays":
        shutil.rmtree(number / "state")
    elif damage == "truncated":
        for file in files[-2:]:
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 3])
    elif damage == "format":
        about.write_text(about.read_text().replace('"format": 1', '"format": 99'))

    def resume():
        store = Checkpoint(folder, engine.parts(), resume=True)
        engine.train(patience=20, width=9 if damage == "shape" else 8, checkpoint=store)

    with pytest.raises(pf.StorageError, match=r"cannot be read|has format 99"):
        resume()
    assert number.is_dir()


def test_a_checkpoint_costs_little():
    """Writing is never due sooner than a hundred times what the last one took."""
    assert Checkpoint.__init__.__kwdefaults__["every"] == 10
    store = object.__new__(Checkpoint)
    store._next = time.monotonic() + 5
    assert not store.due()


def test_finished_members_leave_the_batch():
    """Cost follows the living ones: blocks get fewer."""
    sizes = []
    from partonfit.training import _loop

    original = _loop._Loop.pack

    def spy(self, index, members):
        sizes.append(len(index))
        return original(self, index, members)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_loop._Loop, "pack", spy)
        result = engine.train(12, patience=60, block_size=2, epochs=3000, learning_rate=0.05)
    assert sizes[0] == 12
    assert len(sizes) > 2
    assert sizes == sorted(sizes, reverse=True)
    assert set(result.status) == {Status.STOPPED}
