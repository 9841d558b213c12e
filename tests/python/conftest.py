"""What every test shares: the JAX backend before Keras, and where shared reference material lies."""

import os
import sys
from pathlib import Path

import partonfit  # noqa: F401  (chooses the Keras backend, so it comes before any test imports keras)
import pytest

SHARED = Path(os.environ.get("PARTONFIT_SHARED", Path(__file__).parents[3] / "shared"))


@pytest.fixture(autouse=True)
def seeded():
    """Give every test the same initial weights whatever ran before: a failure has to repeat."""
    if "keras" in sys.modules:
        sys.modules["keras"].utils.set_random_seed(1)


@pytest.fixture(scope="session")
def shared():
    """Folder of reference tables and numbers that are not part of the repository."""
    if not SHARED.is_dir():
        pytest.skip(f"reference material not found: set PARTONFIT_SHARED (looked in {SHARED})")
    return SHARED
