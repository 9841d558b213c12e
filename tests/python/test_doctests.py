"""Every example in a docstring runs and gives what it shows."""

import doctest
import importlib
import pkgutil

import partonfit
import pytest

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
# The worker runs in yadism's own environment; the command line is started by its own tests.
MODULES = [
    info.name
    for info in pkgutil.walk_packages(partonfit.__path__, "partonfit.")
    if ".worker" not in info.name and not info.name.endswith("._embed")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    results = doctest.testmod(importlib.import_module(name), optionflags=OPTIONS)
    assert results.failed == 0
