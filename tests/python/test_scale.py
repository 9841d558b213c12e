"""Several devices and several processes: the same numbers as on one."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import engine
import numpy as np
import partonfit as pf
import pytest
from partonfit.training import ByMember, find_place, my_members
from partonfit.training._processes import Place, _slurm_coordinator, connect

HERE = Path(__file__).parent


def python(code, *arguments, devices=1, **environment):
    """Start Python on ``code`` with this many forced CPU devices, in a process of its own."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    variables |= {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}", "PYTHONPATH": str(HERE)}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)],
        env=variables | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ended(process, code=0, timeout=300):
    """Return what a process wrote, after checking how it ended; a busy machine needs patience."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    assert process.returncode == code, err[-3000:]
    return out + err


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


# --- devices ---------------------------------------------------------------------------------------

DEVICES = """
import sys
import time
import engine
import jax
import numpy as np
import partonfit as pf
from partonfit.training import ByMember
assert jax.local_device_count() == 4
found = {}
for precision in ("float32", "float64"):
    for devices in (1, 4):
        result = engine.train(9, epochs=2000, block_size=2, precision=precision, placement=ByMember(devices))
        assert result.compilations == devices
        found |= {f"{precision} {devices} {i}": leaf for i, leaf in enumerate(result.trainable)}
    alone = engine.train(9, numbers=[7], epochs=2000, block_size=2, precision=precision, placement=ByMember(4))
    found |= {f"{precision} alone {i}": leaf for i, leaf in enumerate(alone.trainable)}
np.savez(sys.argv[1], **found)
try:
    ByMember(5)
except pf.SettingError as error:
    print(error)
"""


def test_members_on_four_devices_equal_those_on_one(tmp_path):
    """Over 2000 epochs to the last bit, so also to 1e-10 in float64, 1e-4 in float32; member 7 also alone."""
    words = ended(python(DEVICES, tmp_path / "out.npz", devices=4))
    assert "devices is 5, but this process has 4" in words
    with np.load(tmp_path / "out.npz") as found:
        for precision in ("float64", "float32"):
            for i in range(4):
                one, four, alone = (found[f"{precision} {name} {i}"] for name in (1, 4, "alone"))
                assert one.dtype == precision
                np.testing.assert_array_equal(four, one)
                np.testing.assert_array_equal(alone[0], four[7])


def test_devices_that_are_not_there_are_named():
    with pytest.raises(pf.SettingError, match=r"xla_force_host_platform_device_count=N"):
        ByMember(1000)
    with pytest.raises(pf.SettingError, match="devices must be a whole number"):
        ByMember("all")
    with pytest.raises(pf.SettingError, match="devices must be some of"):
        ByMember(["cpu"])


# --- where a process stands ------------------------------------------------------------------------

SLURM = {"SLURM_JOB_ID": "1234", "SLURM_NTASKS": "8", "SLURM_PROCID": "3", "SLURM_STEP_NODELIST": "node[007-009,011]"}


@pytest.fixture
def slurm(monkeypatch):
    for name in list(os.environ):
        if name.startswith("SLURM_"):
            monkeypatch.delenv(name)
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_slurm_says_where_a_process_stands(slurm):
    assert find_place() == Place("node007:62674", 8, 3)
    assert find_place(coordinator="head:1") == Place("head:1", 8, 3)
    slurm.setenv("SLURM_NTASKS", "1")
    assert find_place() is None
    slurm.delenv("SLURM_STEP_NODELIST")  # in a batch script, outside of srun
    slurm.setenv("SLURM_NTASKS", "8")
    assert find_place() is None


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("a", "a"), ("a1,a2", "a1"), ("a[001-004]", "a001"), ("a[02,5-9],b", "a02"), ("rack-3-node[7]", "rack-3-node7")],
)
def test_the_first_host_of_a_step(nodes, first):
    assert _slurm_coordinator(SLURM | {"SLURM_STEP_NODELIST": nodes}) == f"{first}:62674"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, "h:1", None), "processes is missing"),
        ((2, None, 0), "coordinator .* is needed"),
        ((2, "h:1", None), "process_id is needed"),
        ((2, "h:1", 2), r"must be below processes \(2\)"),
        ((2, "h", 0), "HOST:PORT"),
        ((0, "h:1", 0), "at least 1"),
    ],
)
def test_wrong_places_are_named(monkeypatch, arguments, message):
    for name in SLURM:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(pf.SettingError, match=message):
        find_place(*arguments)


def test_one_process_is_no_group(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert find_place() is None
    assert find_place(1) is None
    assert my_members(4).tolist() == [0, 1, 2, 3]


def test_nobody_answers():
    begun = time.monotonic()
    with pytest.raises(pf.FitError, match=r"Process 1 could not reach process 0 at 127.0.0.1:\d+ within 1 s"):
        connect(Place(f"127.0.0.1:{free_port()}", 2, 1), timeout=1)
    with pytest.raises(pf.FitError, match=r"Of 3 processes, 1, 2 did not come to 127.0.0.1:\d+ within 1 s"):
        connect(Place(f"127.0.0.1:{free_port()}", 3, 0), timeout=1)
    assert time.monotonic() - begun < 10
    with socket.create_server(("", 0)) as taken, pytest.raises(pf.FitError, match="cannot listen on port"):
        connect(Place(f"127.0.0.1:{taken.getsockname()[1]}", 2, 0), timeout=1)


# --- two processes ---------------------------------------------------------------------------------

MEMBERS = """
import os, sys, time
import engine
import numpy as np
import partonfit as pf
from partonfit.training import (
    Checkpoint, connect, disconnect, find_place, gather_result, my_members, own_folder
)
me, port, folder, what = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
connect(find_place(2, f"127.0.0.1:{port}", me), timeout=60 if what != "die" else 10)
store = Checkpoint(own_folder(folder), engine.parts(), resume=what == "resume")
mine = my_members(7)

def stop(step, total, metrics):
    if what == "stop" and step >= 100:
        raise KeyboardInterrupt
    if what == "die" and me == 1:
        os._exit(9)

result = engine.train(7, numbers=mine, patience=20, checkpoint=store, callbacks=[stop])
try:
    result = gather_result(result, 7)
except pf.FitError as error:
    print(error, flush=True)
    os._exit(5)
np.savez(f"{folder}-{what}-{me}.npz", *result.trainable, **result.history,
         others=[result.loss, result.validation, result.epoch, result.best_epoch, [int(s) for s in result.status]])
disconnect()
"""


def two(folder, what, codes=(0, 0)):
    port = free_port()
    both = [python(MEMBERS, k, port, folder, what) for k in (0, 1)]
    try:
        return [ended(process, code) for process, code in zip(both, codes, strict=True)]
    finally:
        for process in both:
            process.kill()


def test_members_divided_over_two_processes(tmp_path):
    """Stopped, resumed from both processes' checkpoints, and gathered: as in one process."""
    two(tmp_path / "c", "stop")
    two(tmp_path / "c", "resume")
    whole = engine.train(7, patience=20)
    for k in (0, 1):
        with np.load(f"{tmp_path / 'c'}-resume-{k}.npz") as found:
            for i, leaf in enumerate(whole.trainable):
                np.testing.assert_array_equal(found[f"arr_{i}"], leaf)
            for name, values in whole.history.items():
                np.testing.assert_array_equal(found[name], values)
            status = [int(s) for s in whole.status]
            np.testing.assert_array_equal(
                found["others"], [whole.loss, whole.validation, whole.epoch, whole.best_epoch, status]
            )


def test_a_process_that_dies_is_named(tmp_path):
    said, _ = two(tmp_path / "c", "die", codes=(5, 9))
    assert "Process 1 ended before its members were done" in said
    assert "again with resume" in said


# --- one model over divided samples ----------------------------------------------------------------

DIVIDED = """
import sys
import jax, keras, numpy as np
import partonfit as pf
from partonfit._precision import precision_context
from partonfit.training import connect, disconnect, find_place
from partonfit.training._devices import chosen_devices
me = int(sys.argv[1])
if me >= 0:
    connect(find_place(2, f"127.0.0.1:{sys.argv[2]}", me))
x = np.linspace(-0.6, 1, 41)[:, None]  # does not divide among two or four devices
y = np.sin(3 * x) + 0.3
keras.utils.set_random_seed(3)
with precision_context("float64"):
    layers = [keras.layers.Dense(8, "tanh", dtype="float64"), keras.layers.Dense(1, dtype="float64")]
    model = keras.Sequential([keras.Input((1,), dtype="float64"), *layers])

def train(loss="mse", **more):
    common = {"epochs": 300, "seed": 1, "optimizer": keras.optimizers.Adam(0.01), "precision": "float64"}
    return pf.train(model, loss, (x, y), validation=(x[::3], y[::3]), metrics=["mae"], **common | more)

divided = train(data_parallel=True)
if me < 0:
    whole = train(devices=1)
    for name in ("loss", "validation", "mae", "validation_mae"):
        np.testing.assert_allclose(divided.history[name], whole.history[name], rtol=1e-8)
    np.testing.assert_allclose(divided.loss, whole.loss, rtol=1e-8)
    for a, b in zip(divided.values()[0], whole.values()[0]):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)
    for wrong in ({"batch_size": 8}, {"member_data": (None, y[None], None)}):
        try:
            train(data_parallel=True, **wrong)
        except pf.SettingError as error:
            print(error)
    pair = jax.devices()[1:3]
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=[f"cpu:{d.id}" for d in pair]))
    np.testing.assert_array_equal(chosen_devices(), pair)
    assert model.layers[0].kernel.value.devices() == {jax.devices()[0]}  # made before
    np.testing.assert_allclose(train().loss, whole.loss, rtol=1e-8)  # divided, like Keras' own fit()
    try:
        train(batch_size=8)
    except pf.SettingError as error:
        print("of Keras:", error)
    with precision_context("float64"):
        model = keras.models.clone_model(model)  # its weights lie on both devices
    assert model.layers[0].kernel.value.devices() == set(pair)
    several = train(members=3)
    keras.distribution.set_distribution(None)
    np.testing.assert_array_equal(several.loss, train(members=3).loss)  # members are divided, not samples
    mesh = keras.distribution.DeviceMesh((4,), ["model"])
    keras.distribution.set_distribution(keras.distribution.ModelParallel(layout_map=keras.distribution.LayoutMap(mesh)))
    try:
        train()
    except pf.SettingError as error:
        print(error)
np.savez(sys.argv[3], divided.loss, *divided.values()[0])
if me >= 0:
    disconnect()
"""


def test_one_model_on_four_devices(tmp_path):
    words = ended(python(DIVIDED, -1, 0, tmp_path / "out.npz", devices=4))
    assert "do not divide among 4 devices" in words
    assert "member_data cannot be divided" in words
    assert "of Keras: The samples of data do not divide among 2 devices" in words
    assert "keras.distribution is ModelParallel, which divides weights" in words


def test_one_model_on_two_processes(tmp_path):
    """Both processes end with the model that one process reaches."""
    port = free_port()
    each = [python(DIVIDED, k, port, tmp_path / f"{k}.npz") for k in (0, 1)]
    each.append(python(DIVIDED, -1, 0, tmp_path / "2.npz", devices=4))
    try:
        for process in each:
            ended(process)
    finally:
        for process in each:
            process.kill()
    found = [np.load(tmp_path / f"{k}.npz") for k in range(3)]
    for name in found[2].files:
        np.testing.assert_array_equal(found[0][name], found[1][name])
        np.testing.assert_allclose(found[0][name], found[2][name], rtol=1e-6, atol=1e-8)
    for archive in found:
        archive.close()
