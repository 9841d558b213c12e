"""Named random streams: one seed gives every stream of a fit.

A stream is found by its name alone, so adding a dataset or a replica never shifts the numbers
another one gets. What is drawn on the host (pseudodata, splits, initial weights) comes from NumPy's
``SeedSequence`` with the hashed name as spawn key: microseconds per stream, float64 draws. What is
drawn inside compiled programs (dropout, shuffling) comes from ``jax.random.fold_in`` over the same
words.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import jax
import numpy as np

from partonfit._checks import whole
from partonfit._errors import SettingError

_LARGEST_SEED = 2**31 - 1  # the largest R integer: the same seeds are valid in both languages


def checked_seed(seed: Any) -> int:
    """Return ``seed`` as an int, or raise :class:`SettingError`.

    Examples
    --------
    >>> checked_seed(7)
    7
    """
    value = whole("seed", seed, least=0)
    if value > _LARGEST_SEED:
        msg = f"seed must be at most {_LARGEST_SEED}, not {value}."
        raise SettingError(msg)
    return value


def key(seed: int, *names: str | int) -> jax.Array:
    """Return the JAX key of the stream ``names`` under ``seed``.

    Parameters
    ----------
    seed
        The one seed of the fit.
    *names
        What the stream is for, from the general to the particular, e.g. ``"pseudodata", 3``.
    """
    result = jax.random.key(checked_seed(seed), impl="threefry2x32")
    for name in names:
        result = jax.random.fold_in(result, _word(name))
    return result


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return the NumPy generator of the stream ``names`` under ``seed`` (float64 draws).

    Examples
    --------
    >>> a = stream(1, "pseudodata", "HERA", 0).normal(size=3)
    >>> b = stream(1, "pseudodata", "HERA", 0).normal(size=3)
    >>> bool((a == b).all())
    True
    """
    return np.random.Generator(np.random.Philox(_sequence(seed, names)))


def integer(seed: int, *names: str | int) -> int:
    """Return the 31-bit integer of the stream ``names`` (for libraries that want a plain seed)."""
    return int(_sequence(seed, names).generate_state(1)[0] & 0x7FFFFFFF)


def _sequence(seed: int, names: tuple[str | int, ...]) -> np.random.SeedSequence:
    return np.random.SeedSequence(checked_seed(seed), spawn_key=tuple(_word(name) for name in names))


@cache
def _word(name: str | int) -> int:
    if isinstance(name, str):
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    return checked_seed(name)
