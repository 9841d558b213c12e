"""The public door: names, documentation, and that it opens quickly."""

import inspect
import subprocess
import sys

import partonfit as pf
import pytest


def test_every_public_name_exists_and_nothing_else_is_listed():
    assert sorted(pf.__all__) == sorted(pf._HOME)
    for name in pf.__all__:
        assert getattr(pf, name).__name__ == name
    assert set(dir(pf)) == {*pf.__all__, *pf._PACKAGES, "__version__"}
    with pytest.raises(AttributeError, match="no attribute 'fit_pfd'"):
        _ = pf.fit_pfd


@pytest.mark.parametrize("name", pf.__all__)
def test_every_public_name_is_documented(name):
    thing = getattr(pf, name)
    text = inspect.getdoc(thing)
    assert text
    if inspect.isfunction(thing):
        assert "Parameters" in text
        assert "Examples" in text
        for parameter in inspect.signature(thing).parameters.values():
            assert parameter.kind is parameter.VAR_KEYWORD or parameter.name in text, parameter.name


def test_importing_starts_neither_keras_nor_jax():
    code = "import sys, partonfit; sys.exit(any(name in sys.modules for name in ('keras', 'jax', 'pandas')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_another_keras_backend_is_a_clear_error():
    code = "import os; os.environ['KERAS_BACKEND'] = 'torch'; import partonfit"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "set the environment variable KERAS_BACKEND=jax".lower() in done.stderr.lower()
