"""Pseudodata: what repeated experiments would have measured."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import ndtri

from partonfit._errors import DataError
from partonfit.data._covariance import Sources
from partonfit.data._data import Data
from partonfit.data._record import INDEPENDENT
from partonfit.data._split import Streams, streams
from partonfit.data._theory_covariance import TheoryCovariance


def pseudodata(
    data: Data,
    covariance: np.ndarray | None = None,
    rng: int | Streams = 0,
    *,
    t0: np.ndarray | None = None,
    theory: TheoryCovariance | None = None,
    separate_multiplicative: bool = False,
    positive_tries: int = 0,
) -> np.ndarray:
    """Draw one replica of the data from its uncertainties.

    Without ``covariance`` the noise is drawn source by source: one normal number per point for the
    independent part, from the stream of its dataset, and one per correlated source, from its name. Its
    covariance is exactly ``data.covariance(t0)`` (weights apart), and the numbers of a dataset depend
    neither on which other datasets are present nor on their order. With ``covariance`` the replica is
    ``values + L n``, ``L`` being the Cholesky factor taken in the order of the dataset names and ``n``
    from the datasets' own streams.

    Parameters
    ----------
    data
        The data to fluctuate.
    covariance
        A sampling covariance (data, data), for instance one that includes theory uncertainties.
    rng
        A seed, or a function from names to a ``numpy.random.Generator``.
    t0
        Predictions (data,) that multiplicative sources are proportional to; None takes the data.
    theory
        Theory uncertainties on the points of the data (``TheoryCovariance.on(data)``): one more noise, with a
        number per source. Not used with ``covariance``.
    separate_multiplicative
        Whether multiplicative sources act as factors: ``(values + additive noise) * prod(1 + delta)``.
    positive_tries
        How often to draw again while a point of a cross section is negative. The default 0 accepts
        negative points: drawing again biases the mean.

    Returns
    -------
    numpy.ndarray
        Pseudodata (data,).

    Examples
    --------
    >>> from partonfit.data import load_data
    >>> data = load_data("hera")
    >>> pseudodata(data, rng=1).shape
    (1145,)
    """
    draw = streams(rng, "pseudodata")
    generators: dict[tuple[str, ...], np.random.Generator] = {}

    def normal(*names: str) -> np.random.Generator:
        if names not in generators:
            generators[names] = draw(*names)
        return generators[names]

    for _ in range(max(0, positive_tries) + 1):
        if covariance is not None:
            result = _from_covariance(data, covariance, normal)
        elif separate_multiplicative:
            result = _with_factors(data, normal, theory)
        else:
            result = data.values + _noise(data, data.sources(t0), normal) + _theory_noise(theory, normal)
        if not positive_tries or not (negative := _negative(data, result)):
            return result
    msg = (
        f"The pseudodata of dataset {negative} stay negative after {positive_tries} further draws. "
        "Accept negative points (positive_tries=0) or cut the points compatible with zero."
    )
    raise DataError(msg)


Normal = Callable[..., np.random.Generator]


def _noise(data: Data, found: Sources, normal: Normal) -> np.ndarray:
    """Return one draw of the noise (data,): independent part by dataset, correlated part by source."""
    unit = np.concatenate([normal("points", d.name).normal(size=d.n_data) for d in data.datasets])
    return found.independent * unit + found.correlated @ _named_normals(normal("sources"), found.labels)


def _theory_noise(theory: TheoryCovariance | None, normal: Normal) -> np.ndarray | float:
    return 0.0 if theory is None else theory.sizes @ _named_normals(normal("theory"), theory.sources)


def _named_normals(generator: np.random.Generator, labels: Sequence[tuple[str, ...]]) -> np.ndarray:
    """Return one standard normal number per label.

    A number depends on the generator's next bytes and its own label only, not on the other labels: it
    is a keyed hash of the label, read as a uniform number and mapped through the normal quantiles. A
    stream of its own for each of some two hundred sources would cost milliseconds per replica.
    """
    key = generator.bytes(32)
    words = [hashlib.blake2b("/".join(label).encode(), key=key, digest_size=8).digest() for label in labels]
    bits = np.frombuffer(b"".join(words), dtype="<u8") >> np.uint64(11)
    return ndtri((bits.astype(np.float64) + 0.5) * 2.0**-53)


def _from_covariance(data: Data, covariance: np.ndarray, normal: Normal) -> np.ndarray:
    by_name = data.select(sorted(data.names))
    order = np.concatenate([np.arange(data.n_data)[data.slices[name]] for name in by_name.names])
    factor = by_name.cholesky(data.checked_covariance(covariance)[np.ix_(order, order)])
    unit = np.concatenate([normal("points", d.name).normal(size=d.n_data) for d in by_name.datasets])
    noise = np.empty(data.n_data)
    noise[order] = factor @ unit
    return data.values + noise


def _with_factors(data: Data, normal: Normal, theory: TheoryCovariance | None) -> np.ndarray:
    """Return ``(values + additive noise) * prod(1 + delta)`` with delta the relative multiplicative noise."""
    additive, relative = data.additive_and_factors
    noise = _noise(data, additive, normal) + _theory_noise(theory, normal)
    shifts = _named_normals(normal("factors"), relative.labels)
    factor = np.prod(1 + relative.correlated * shifts, axis=1)
    for dataset in data.datasets:
        sizes = dataset.systematics.percent / 100
        kinds = np.array([t in INDEPENDENT for t in dataset.systematics.percent_types], dtype=bool)
        unit = normal("point factors", dataset.name).normal(size=(dataset.n_data, int(kinds.sum())))
        factor[data.slices[dataset.name]] *= np.prod(1 + sizes[:, kinds] * unit, axis=1)
    return (data.values + noise) * factor


def _negative(data: Data, values: np.ndarray) -> str:
    """Return the first dataset with a negative point; asymmetries and ratios of polarised sets may be."""
    for dataset in data.datasets:
        signed = "ASY" in dataset.process or dataset.process.endswith("_POL")
        if not signed and (values[data.slices[dataset.name]] < 0).any():
            return dataset.name
    return ""
