"""Exported surrogates, read by the libraries that others read them with."""

import json
import sys

import jax
import keras
import numpy as np
import onnx
import onnxruntime
import partonfit as pf
import pytest
from operator_examples import N_OBS, N_STATE, tanh_operator
from partonfit.surrogates import _onnx


@pytest.fixture(scope="module")
def surrogate():
    return pf.fit_surrogate(tanh_operator(), lambda rng, n: 3 + rng.normal(size=(n, N_STATE)), samples=30, members=2,
                            epochs=20, hidden=(8,), seed=1)  # fmt: skip


def given(part, batch):
    rng = np.random.default_rng(batch)
    arrays = {"x": (batch, N_STATE), "dx": (batch, N_STATE), "dy": (batch, N_OBS)}
    names = {"forward": ("x",), "tangent_linear": ("x", "dx"), "adjoint": ("x", "dy")}[part]
    return {name: rng.normal(size=arrays[name]).astype(np.float32) for name in names}


def test_onnx_of_all_parts_with_any_batch(surrogate, tmp_path):
    written = pf.export_onnx(surrogate, tmp_path / "s.onnx")
    assert not written.refused
    assert set(written.files) == {"forward", "tangent_linear", "adjoint"}
    assert max(written.errors.values()) < 1e-5
    for part, file in written.files.items():
        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        for batch in (1, 2, 11):
            inputs = given(part, batch)
            right = getattr(surrogate, part)(*inputs.values())
            np.testing.assert_allclose(session.run(None, inputs)[0], right, atol=1e-5 * np.abs(right).max())
    props = {p.key: p.value for p in onnx.load(written.files["adjoint"]).metadata_props}
    assert (props["n_state"], props["n_obs"], props["part"]) == ("5", "3", "adjoint")
    np.testing.assert_array_equal(json.loads(props["normalisation"])["state_mean"], surrogate.scaling.state_mean)
    assert "onnx_version" in props
    assert json.loads(props["versions"])["jax"] == surrogate.versions["jax"]


def test_what_does_not_verify_is_refused(surrogate, tmp_path, monkeypatch):
    right = _onnx._onnx_part

    def slightly_wrong(s, part):
        content, run = right(s, "forward")
        off = 1e-4 if part == "forward" else 0.0
        return content, lambda *a: run(a[0]) * (1 + off)

    monkeypatch.setattr(_onnx, "_onnx_part", slightly_wrong)
    with pytest.raises(pf.OperatorError, match=r"forward part .* differ .* by 1.0e-04 .* more than 1e-05"):
        pf.export_onnx(surrogate, tmp_path / "s.onnx", parts="forward")
    with pytest.raises(pf.OperatorError, match="forward part"):
        pf.export_onnx(surrogate, tmp_path / "s.onnx")
    assert not list(tmp_path.iterdir())


def test_a_derivative_that_cannot_be_converted_is_a_reason(surrogate, tmp_path, monkeypatch):
    def cannot(s, part):
        if part != "forward":
            msg = "no such operation"
            raise NotImplementedError(msg)
        return b"content", s.forward

    monkeypatch.setattr(_onnx, "_onnx_part", cannot)
    written = pf.export_onnx(surrogate, tmp_path / "s.onnx")
    assert list(written.files) == ["forward"]
    assert "no such operation" in written.refused["adjoint"]
    with pytest.raises(pf.OperatorError, match=r"adjoint part .* cannot be exported: .*no such operation"):
        pf.export_onnx(surrogate, tmp_path / "t.onnx", parts=["adjoint"])


def test_onnx_settings(surrogate, tmp_path, monkeypatch):
    with pytest.raises(pf.SettingError, match=r"called something.onnx"):
        pf.export_onnx(surrogate, tmp_path / "s.bin")
    with pytest.raises(pf.SettingError, match="Did you mean 'adjoint'"):
        pf.export_onnx(surrogate, tmp_path / "s.onnx", parts=["adjont"])
    with pytest.raises(pf.SettingError, match="Only a surrogate"):
        pf.export_onnx(tanh_operator(), tmp_path / "s.onnx")
    monkeypatch.setitem(sys.modules, "jax2onnx", None)
    with pytest.raises(pf.MissingDependencyError, match=r"partonfit\[onnx\]"):
        pf.export_onnx(surrogate, tmp_path / "s.onnx")


def test_stablehlo_of_all_parts(surrogate, tmp_path):
    written = pf.export_stablehlo(surrogate, tmp_path / "s.bin")
    for part, file in written.files.items():
        program = jax.export.deserialize(bytearray(file.read_bytes()))
        inputs = given(part, 6)
        right = getattr(surrogate, part)(*inputs.values())
        np.testing.assert_allclose(program.call(*inputs.values()), right, atol=1e-5 * np.abs(right).max())
    assert json.loads((tmp_path / "s.bin.json").read_text())["adjoint"]["n_obs"] == "3"


def test_layers_of_other_kinds_are_exported_too(tmp_path):
    layers = [keras.layers.Dense(8, "relu"), keras.layers.LayerNormalization(), keras.layers.Dense(N_OBS)]
    model = keras.Sequential([keras.Input((N_STATE,)), *layers])
    states = np.random.default_rng(1).normal(size=(20, N_STATE))
    surrogate = pf.fit_surrogate(tanh_operator(), states, model=model, epochs=3, seed=1)
    assert pf.export_onnx(surrogate, tmp_path / "s.onnx", parts="forward").errors["forward"] < 1e-5
