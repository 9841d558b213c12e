"""Results kept on disk: found again, never mistaken, safe with two processes, bounded, mended."""

import subprocess
import sys
import warnings

import jax
import numpy as np
import partonfit as pf
import pytest
from operator_examples import N_STATE, adjoint, changes, forward, tanh_operator
from partonfit._errors import SettingError, StorageError
from partonfit.operators import ResultStore

X = np.random.default_rng(2).normal(size=N_STATE).astype(np.float32)
XS = np.random.default_rng(3).normal(size=(6, N_STATE)).astype(np.float32)


def wrapped(folder, *, key="tanh 1", **options):
    return pf.wrap_operator(tanh_operator(key=key, **options), reload_results=folder)


def files(folder):
    return sorted(folder.glob("*/*.npz"))


@pytest.mark.parametrize("batched", [False, True])
def test_results_are_found_again_by_everyone(tmp_path, batched):
    loss = jax.vmap(jax.value_and_grad(lambda x, h: (h(x) ** 2).sum()), in_axes=(0, None))
    first = wrapped(tmp_path, batched=batched)
    run = jax.jit(lambda xs: loss(xs, first))
    found = jax.block_until_ready(run(XS))
    n = 1 if batched else 6
    assert changes(dict.fromkeys(first.calls, 0), first) == {"forward": n, "adjoint": n}
    jax.block_until_ready(run(XS))
    assert changes(dict.fromkeys(first.calls, 0), first) == {"forward": n, "adjoint": n, "stored": 12}
    # Another process would do what another wrapper does: one state at a time, eager, from the same files.
    second = wrapped(tmp_path)
    for i, x in enumerate(XS):
        value, gradient = jax.value_and_grad(lambda x: (second(x) ** 2).sum())(x)
        np.testing.assert_allclose(value, found[0][i], rtol=1e-6)
        np.testing.assert_allclose(gradient, found[1][i], rtol=1e-5)
    assert changes(dict.fromkeys(second.calls, 0), second) == {"stored": 12}
    # A batch that is partly there asks for the rest only.
    third = wrapped(tmp_path, batched=True)
    more = np.concatenate([XS, -XS[:2]])
    np.testing.assert_allclose(third(more), forward(more), rtol=1e-5)
    assert changes(dict.fromkeys(third.calls, 0), third) == {"forward": 1, "stored": 6}
    assert len(files(tmp_path)) == 14


def test_a_result_belongs_to_key_function_and_arguments(tmp_path):
    first = wrapped(tmp_path)
    first(X)
    for other in (
        lambda: wrapped(tmp_path, key="tanh 2")(X),
        lambda: first(X + np.float32(1e-6)),
        lambda: first.tangent_linear(X, X),
        lambda: first.tangent_linear(X, -X),
        lambda: first.adjoint(X, np.ones(3)),
        lambda: pf.wrap_operator(pf.matrix_operator(np.ones((3, 5))), reload_results=tmp_path)(X),
        lambda: pf.wrap_operator(pf.matrix_operator(2 * np.ones((3, 5))), reload_results=tmp_path)(X),
    ):
        n = len(files(tmp_path))
        other()
        assert len(files(tmp_path)) == n + 1


def test_an_operator_that_writes_into_its_arguments_is_stored_under_what_it_was_given(tmp_path):
    def greedy(x):
        y = forward(x)
        x[:] = 0
        return y

    H = wrapped(tmp_path, forward=greedy)
    H(X)
    np.testing.assert_allclose(H(X), forward(X), rtol=1e-5)
    assert H.calls == {"forward": 1, "tangent_linear": 0, "adjoint": 0, "stored": 1}


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other", "pickle"])
def test_a_damaged_file_is_computed_again_with_a_warning(tmp_path, damage):
    H = wrapped(tmp_path)
    H(X)
    (path,) = files(tmp_path)
    raw = path.read_bytes()
    if damage == "other":  # a whole file with another name's content
        H(XS[0])
        other = next(p for p in files(tmp_path) if p != path)
        path.write_bytes(other.read_bytes())
    elif damage == "pickle":
        np.savez(path, question=np.array([{}], dtype=object), result=np.zeros(3))
    else:
        middle = len(raw) // 2
        changed = {"cut": raw[:middle], "empty": b"", "flipped": bytearray(raw)}[damage]
        if damage == "flipped":
            at = raw.rindex(np.float64(forward(X.astype(float))[0]).tobytes())
            changed[at] ^= 1
        path.write_bytes(bytes(changed))
    with pytest.warns(RuntimeWarning, match="is damaged; it is computed again"):
        np.testing.assert_allclose(H(X), forward(X), rtol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(H(X), forward(X), rtol=1e-5)


def test_the_folder_stays_below_its_limit_and_keeps_what_is_used(tmp_path):
    store = ResultStore(tmp_path, "key", max_bytes=40_000)
    x = np.zeros(1)
    store.put("forward", np.ones(10), x)
    for i in range(1, 200):
        store.put("forward", np.ones(10), x + i)
        if i % 10 == 0:
            store.get("forward", x)
    store.shrink()
    assert sum(p.stat().st_size for p in files(tmp_path)) <= 40_000
    assert store.get("forward", x) is not None  # used, so kept
    assert store.get("forward", x + 1) is None  # longest unused
    assert store.get("forward", x + 199) is not None
    # An operator goes on when results vanish under it.
    H = pf.wrap_operator(tanh_operator(key="k"), reload_results=store)
    H(X)
    for path in files(tmp_path):
        path.unlink()
    np.testing.assert_allclose(H(X), forward(X), rtol=1e-5)


WORKER = """
import sys, numpy as np, jax, partonfit as pf
sys.path.insert(0, sys.argv[1])
from operator_examples import *
H = pf.wrap_operator(tanh_operator(key="two processes"), reload_results=sys.argv[2])
H._host.store.max_bytes = int(sys.argv[3])
xs = np.random.default_rng(0).normal(size=(60, N_STATE)).astype(np.float32)
for turn in range(4):
    np.testing.assert_allclose(jax.jit(jax.vmap(H))(xs), forward(xs), rtol=1e-4)
    H._host.store.shrink()
print("as expected", H.calls["forward"] + H.calls["stored"])
"""


@pytest.mark.parametrize("limit", [10**9, 10_000])
def test_two_processes_share_a_folder(tmp_path, limit):
    from pathlib import Path

    command = [sys.executable, "-W", "error", "-c", WORKER, str(Path(__file__).parent), str(tmp_path), str(limit)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in processes:
        out, error = process.communicate(timeout=300)
        assert out == "as expected 240\n", error[-3000:]
    assert not list(tmp_path.glob("*/.part*"))
    if limit > 10**6:
        assert len(files(tmp_path)) == 60


def test_where_results_go(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTONFIT_CACHE", str(tmp_path / "cache"))
    H = wrapped(True)
    H(X)
    assert len(files(tmp_path / "cache" / "operators")) == 1
    monkeypatch.setenv("PARTONFIT_CACHE", "")
    with pytest.raises(SettingError, match=r"cache is switched off .* name a folder"):
        wrapped(True)
    with pytest.raises(SettingError, match=r"need the operator's key.*key="):
        wrapped(tmp_path, key=None)
    with pytest.raises(SettingError, match="must be False, True, a folder or a ResultStore, not 3"):
        wrapped(3)
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="Cannot write"):
        wrapped(tmp_path / "file" / "below")
    with pytest.raises(SettingError, match="max_bytes"):
        ResultStore(tmp_path, "key", max_bytes=0)


def test_what_is_not_finite_is_not_stored(tmp_path):
    op = tanh_operator(key="nan", adjoint=lambda x, dy: adjoint(x, dy) * np.nan)
    H = pf.wrap_operator(op, reload_results=tmp_path, nonfinite="nan")
    assert np.isnan(H.adjoint(X, np.ones(3))).all()
    assert not files(tmp_path)
