"""Versions are found also where this package is plain files, as the R package carries it."""

from importlib import metadata
from pathlib import Path

import partonfit as pf
from partonfit._fit import version as of_fits
from partonfit._versions import version
from partonfit.surrogates._fit import version as of_surrogates


def nothing_installed(name: str) -> str:
    raise metadata.PackageNotFoundError(name)


def test_this_package_needs_no_metadata(monkeypatch):
    monkeypatch.setattr(metadata, "version", nothing_installed)
    assert version("partonfit") == pf.__version__
    assert version("jax") == "unknown"


def test_installed_libraries_have_their_version():
    assert version("numpy") == metadata.version("numpy")


def test_fits_and_surrogates_ask_it():
    assert of_fits is version
    assert of_surrogates is version


def test_the_version_is_the_one_of_the_distribution():
    text = (Path(__file__).parents[2] / "python" / "pyproject.toml").read_text()
    assert f'version = "{pf.__version__}"' in text
