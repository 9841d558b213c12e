"""Which points a replica is trained on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from partonfit._errors import SettingError
from partonfit.data._data import Data

Streams = Callable[..., np.random.Generator]
"""Takes the names of a stream, gives its random generator."""


def streams(rng: int | Streams, *names: str | int) -> Streams:
    """Return a function from further names to generators, under one seed or one function."""
    if callable(rng):
        return lambda *more: rng(*names, *more)
    from partonfit._seeds import stream

    return lambda *more: stream(rng, *names, *more)


def n_training(n_data: int, fraction: float) -> int:
    """Return how many of a dataset's points are for training: the fraction, rounded down.

    A dataset of one point always trains. (n3fit lets it train with probability ``fraction``.)

    Examples
    --------
    >>> n_training(121, 0.75), n_training(1, 0.75), n_training(100, 0.29)
    (90, 1, 29)
    """
    # The small number keeps 0.29 * 100 = 28.999... from losing a point to rounding.
    return n_data if n_data == 1 else int(fraction * n_data + 1e-9)


def split_masks(data: Data, rng: int | Streams, *, fraction: float = 0.75) -> np.ndarray:
    """Draw the training points of one replica.

    Every dataset has its own stream, ``rng("split", dataset)``: which other datasets are present and
    in which order changes nothing.

    Parameters
    ----------
    data
        The data; a dataset's own ``frac`` comes before ``fraction``.
    rng
        A seed, or a function from names to a ``numpy.random.Generator`` (for replica k, for instance
        ``lambda *names: stream(seed, "replica", k, *names)``).
    fraction
        Part of each dataset used for training, in (0, 1].

    Returns
    -------
    numpy.ndarray
        True for training points, False for validation points (data,).

    Examples
    --------
    >>> from partonfit.data import load_data
    >>> mask = split_masks(load_data("hera"), 1)
    >>> mask.shape, int(mask.sum())
    ((1145,), 856)
    """
    draw = streams(rng, "split")
    mask = np.zeros(data.n_data, dtype=bool)
    for dataset in data.datasets:
        part = fraction if dataset.frac is None else dataset.frac
        n = n_training(dataset.n_data, _checked(part))
        chosen = draw(dataset.name).permutation(dataset.n_data)[:n]
        mask[data.slices[dataset.name].start + chosen] = True
    return mask


def _checked(fraction: Any) -> float:
    if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 < fraction <= 1:
        msg = f"The training fraction must be a number above 0 and at most 1, not {fraction!r}."
        raise SettingError(msg)
    return float(fraction)


def split_modes(data: Data, rng: int | Streams, *, fraction: float = 0.75) -> np.ndarray:
    """Draw the training modes of one replica, among the eigenmodes of the correlation matrix of all data.

    The modes are counted by ascending eigenvalue, so the order of the datasets changes nothing. A dataset's own
    ``frac`` has no meaning here.

    Parameters
    ----------
    data
        The data: there are as many modes as points.
    rng
        As in :func:`split_masks`.
    fraction
        Part of the modes used for training, in (0, 1].

    Returns
    -------
    numpy.ndarray
        True for training modes, False for validation modes (data,).

    Examples
    --------
    >>> from partonfit.data import load_data
    >>> int(split_modes(load_data("hera"), 1).sum())
    858
    """
    draw = streams(rng, "split")
    mask = np.zeros(data.n_data, dtype=bool)
    mask[draw("eigenmodes").permutation(data.n_data)[: n_training(data.n_data, _checked(fraction))]] = True
    return mask
