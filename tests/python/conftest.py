"""What every test shares: the JAX backend before Keras, and where shared reference material lies."""

import os
from pathlib import Path

import partonfit  # noqa: F401  (chooses the Keras backend, so it comes before any test imports keras)
import pytest

SHARED = Path(os.environ.get("PARTONFIT_SHARED", Path(__file__).parents[3] / "shared"))


@pytest.fixture(scope="session")
def shared():
    """Folder of reference tables and numbers that are not part of the repository."""
    if not SHARED.is_dir():
        pytest.skip(f"reference material not found: set PARTONFIT_SHARED (looked in {SHARED})")
    return SHARED
