"""The bridge hands over plain values and takes them back."""

from __future__ import annotations

import json

import keras
import numpy as np
import partonfit as pf
import pytest
from partonfit import _bridge_fits, bridge

CONTROL = {"epochs": 60, "threshold_chi2": None}


@pytest.fixture(scope="module")
def parts() -> dict:
    return bridge.fit(
        "hera", {"q2min": 3.49}, "hera", model=None, replicas=2, seed=3, t0="toy", control=CONTROL,
        progress=lambda step, total, metrics: None,
    )  # fmt: skip


def _plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(k, str) and _plain(v) for k, v in value.items())
    if isinstance(value, list):
        return all(isinstance(v, (str, bool, int, float)) for v in value)
    if isinstance(value, np.ndarray):
        return value.dtype in (np.float64, np.int64) and value.flags.c_contiguous
    return isinstance(value, (str, bool, int, float, bytearray))


def test_only_plain_values_cross(parts: dict) -> None:
    assert [name for name, value in parts.items() if not _plain(value)] == []


def test_tables_have_columns_of_equal_length(parts: dict) -> None:
    for name in ("replicas", "chi2", "pdfs", "points", "history", "timings"):
        assert len({len(column) for column in parts[name].values()}) == 1, name
    assert set(parts["pdfs"]["Q"]) == {1.65, 100.0}
    assert parts["chi2"]["dataset"][-1] == "Total"


def test_settings_and_provenance_are_json(parts: dict) -> None:
    assert json.loads(parts["settings"])["seed"] == 3
    assert "versions" in json.loads(parts["provenance"])


def test_a_fit_comes_back_from_its_bytes(parts: dict) -> None:
    before = bridge.predict(parts["id"], [0.1, 0.2], [1.65, 1.65], ["g", "u_v"])
    bridge.load("copy", parts["state"])
    after = bridge.predict("copy", [0.1, 0.2], [1.65, 1.65], ["g", "u_v"])
    for name, values in before.items():
        np.testing.assert_allclose(after[name], values, rtol=1e-12, err_msg=name)


def test_rows_are_answered_in_their_order(parts: dict) -> None:
    x, q, flavour = [0.3, 0.1, 0.3, 0.1], [1.65] * 4, ["u_v", "g", "g", "u_v"]
    rows = bridge.predict(parts["id"], x, q, flavour)
    one = [bridge.predict(parts["id"], [a], [b], [c])["mean"][0] for a, b, c in zip(x, q, flavour, strict=True)]
    np.testing.assert_allclose(rows["mean"], one, rtol=1e-12)
    replicas = bridge.predict(parts["id"], x, q, flavour, "replicas")["replicas"]
    assert replicas.shape == (4, 2)
    np.testing.assert_allclose(replicas.mean(axis=1), rows["mean"], rtol=1e-12)


def test_progress_gets_plain_floats() -> None:
    seen = []
    report = bridge.plain_progress(lambda *given: seen.append(given))
    assert report is not None
    report(np.int64(1), np.int64(2), {"training": np.float32(1.5)})
    step, total, metrics = seen[0]
    assert (type(step), type(total), type(metrics["training"])) == (int, int, float)


def test_mistakes_are_named(parts: dict) -> None:
    with pytest.raises(pf.StorageError, match="not loaded"):
        bridge.predict("unknown", [0.1], [1.65], ["g"])
    with pytest.raises(pf.StorageError, match="damaged"):
        bridge.load("x", b"no archive")
    with pytest.raises(pf.SettingError, match="equal lengths"):
        bridge.predict(parts["id"], [0.1, 0.2], [1.65], ["g"])


def test_few_fits_are_kept(parts: dict) -> None:
    for k in range(_bridge_fits.KEEP_FITS + 1):
        bridge.remember(f"fit {k}", object())
    assert not bridge.is_loaded("fit 0")
    assert len(_bridge_fits.fits) == _bridge_fits.KEEP_FITS
    bridge.load(parts["id"], parts["state"])


def test_weights_are_named_alike_whatever_was_made_before(parts: dict) -> None:
    bridge.load(parts["id"], parts["state"])
    first = bridge.weights(parts["id"])["names"]
    assert bridge.weights(parts["id"])["names"] == first  # Keras has counted on since
    assert first[0] == "dense/kernel[1]"
    network = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, name="mine_7"), keras.layers.Dense(1)])
    paths = bridge._steady_paths(network, network.trainable_variables)
    assert [path.rsplit("/", 2)[-2] for path in paths] == ["mine_7", "mine_7", "dense", "dense"]
