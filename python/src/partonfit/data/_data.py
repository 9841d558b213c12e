"""The collection of datasets that a fit or a comparison uses."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from partonfit._errors import DataError, SettingError, nearest
from partonfit.data._covariance import Sources, assemble, cholesky, regularise, sources
from partonfit.data._dataset import Dataset

if TYPE_CHECKING:
    import pandas as pd

    from partonfit.data._theory_covariance import TheoryCovariance


@dataclass(frozen=True)
class CutReport:
    """How many points were cut, by dataset and reason, as equally long columns.

    Attributes
    ----------
    dataset, reason
        Names and reasons; the reason "kept" gives the points that remain.
    n_points
        Number of points.
    """

    dataset: tuple[str, ...]
    reason: tuple[str, ...]
    n_points: tuple[int, ...]

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as plain lists."""
        return {"dataset": list(self.dataset), "reason": list(self.reason), "n_points": list(self.n_points)}

    def to_dataframe(self) -> pd.DataFrame:
        """Return the report as a pandas table."""
        import pandas as pd

        return pd.DataFrame(self.to_dict())


@dataclass(frozen=True, eq=False)
class Data:
    """Datasets after cuts, with their joint covariance.

    Attributes
    ----------
    datasets
        Those with at least one point left, in the order given.
    dropped
        Those that the cuts removed altogether.
    options
        The keyword arguments of :func:`load_data` that made it.

    Examples
    --------
    >>> from partonfit.data import load_data
    >>> data = load_data("hera")
    >>> data
    <Data: 1145 points in 7 datasets>
    >>> data.covariance().shape
    (1145, 1145)
    """

    datasets: tuple[Dataset, ...]
    dropped: tuple[Dataset, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        """Return one line: points and datasets."""
        plural = "" if len(self.datasets) == 1 else "s"
        return f"<Data: {self.n_data} points in {len(self.datasets)} dataset{plural}>"

    def __len__(self) -> int:
        """Return the number of datasets."""
        return len(self.datasets)

    def __getitem__(self, name: str) -> Dataset:
        """Return the dataset called ``name``."""
        for dataset in self.datasets:
            if dataset.name == name:
                return dataset
        msg = f"There is no dataset '{name}' here. {nearest(name, self.names, what='dataset')}"
        raise DataError(msg)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the datasets."""
        return tuple(dataset.name for dataset in self.datasets)

    @cached_property
    def slices(self) -> dict[str, slice]:
        """For each dataset the rows it takes in every array with the axis "data"."""
        ends = np.cumsum([dataset.n_data for dataset in self.datasets]).tolist()
        return {d.name: slice(end - d.n_data, end) for d, end in zip(self.datasets, ends, strict=True)}

    @property
    def n_data(self) -> int:
        """Number of points."""
        return sum(dataset.n_data for dataset in self.datasets)

    @cached_property
    def values(self) -> np.ndarray:
        """Central values (data,)."""
        return np.concatenate([dataset.values for dataset in self.datasets])

    @cached_property
    def order(self) -> np.ndarray:
        """Rows sorted by label (data,): an order that does not depend on that of the datasets."""
        labels = self.labels
        return np.array(sorted(range(len(labels)), key=labels.__getitem__))

    @property
    def labels(self) -> tuple[tuple[str, int], ...]:
        """For each point its dataset and its row number in the published dataset."""
        return tuple((d.name, int(row)) for d in self.datasets for row in d.kept)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of everything that influences a fit; the order of the datasets does not."""
        digests = sorted(dataset.digest() for dataset in self.datasets)
        return hashlib.sha256("".join(digests).encode()).hexdigest()

    def sources(self, t0: np.ndarray | None = None) -> Sources:
        """Return the uncertainties by source, multiplicative ones scaled as in :meth:`covariance`."""
        scale = self._scale(t0)
        key = scale.tobytes()
        if key not in self._recent_sources:  # the same for every replica of a fit: the last one is kept
            self._recent_sources.clear()
            self._recent_sources[key] = sources(self.datasets, scale)
        return self._recent_sources[key]

    @cached_property
    def additive_and_factors(self) -> tuple[Sources, Sources]:
        """Sources of the additive uncertainties, and the multiplicative ones relative to the data (correlated)."""
        zero, one = sources(self.datasets, np.zeros(self.n_data)), sources(self.datasets, np.ones(self.n_data))
        return zero, replace(one, correlated=one.correlated - zero.correlated)

    @cached_property
    def _recent_sources(self) -> dict[bytes, Sources]:
        return {}

    def covariance(
        self, t0: np.ndarray | None = None, *, floor: float = 0.0, theory: TheoryCovariance | None = None
    ) -> np.ndarray:
        """Return the covariance matrix (data, data).

        Parameters
        ----------
        t0
            Predictions (data,) that multiplicative uncertainties are proportional to (t0 covariance,
            arXiv:0912.2276); None takes the measured values (experimental covariance).
        floor
            Eigenvalues of the correlation matrix below it are raised to it; 0 leaves the matrix alone.
        theory
            Theory uncertainties, added by label; a dataset's weight divides them like the others.
        """
        if isinstance(floor, bool) or not isinstance(floor, int | float) or not 0 <= floor < 1:
            msg = f"floor must be a number from 0 to below 1, not {floor!r}."
            raise SettingError(msg)
        extra = None if theory is None else theory.on(self).matrix()
        matrix = assemble(self.datasets, self._scale(t0), extra)
        return regularise(matrix, float(floor)) if floor > 0 else matrix

    def cholesky(self, covariance: np.ndarray) -> np.ndarray:
        """Return the lower Cholesky factor (data, data); an error names the dataset that is singular."""
        return cholesky(self.checked_covariance(covariance), self.slices)

    def checked_covariance(self, covariance: Any) -> np.ndarray:
        """Return a covariance given by the user as a float64 array (data, data), or raise DataError."""
        matrix = np.asarray(covariance, dtype=np.float64)
        if matrix.shape != (self.n_data, self.n_data):
            msg = f"The covariance has shape {matrix.shape}, but there are {self.n_data} points."
            raise DataError(msg)
        return matrix

    def cut_report(self) -> CutReport:
        """Return how many points each cut removed, by dataset and reason."""
        rows: list[tuple[str, str, int]] = []
        for dataset in (*self.datasets, *self.dropped):
            rows += [(dataset.name, reason, n) for reason, n in dataset.cuts.items()]
            rows.append((dataset.name, "kept", dataset.n_data))
        return CutReport(*(tuple(column) for column in zip(*rows, strict=True)))

    def with_values(self, values: np.ndarray) -> Data:
        """Return the same datasets with other central values (data,), e.g. fake data of a closure test."""
        values = self._checked(values, "values")
        datasets = tuple(d.with_values(values[self.slices[d.name]]) for d in self.datasets)
        return Data(datasets, self.dropped, self.options)

    def select(self, names: str | Iterable[str]) -> Data:
        """Return only the datasets named, in the order named."""
        wanted = [names] if isinstance(names, str) else list(names)
        if not wanted:
            msg = "select() needs at least one dataset name."
            raise SettingError(msg)
        return Data(tuple(self[name] for name in wanted), options=self.options)

    @property
    def request(self) -> dict[str, Any]:
        """Plain values from which ``load_data(**request)`` makes the same datasets again.

        Central values that were replaced (:meth:`with_values`) are not part of it.
        """
        cuts = self.options.get("cuts")
        own = {} if cuts is None else {"cuts": {n: list(cuts[n]) for n in self.names if n in cuts}}
        return {"entries": [dataset.entry() for dataset in self.datasets], **self.options, **own}

    def by_dataset(self, values: np.ndarray) -> dict[str, np.ndarray]:
        """Split an array whose last axis is "data" by dataset."""
        return {name: np.asarray(values)[..., rows] for name, rows in self.slices.items()}

    def _scale(self, t0: np.ndarray | None) -> np.ndarray:
        return self.values if t0 is None else self._checked(t0, "t0 predictions")

    def _checked(self, values: Any, what: str) -> np.ndarray:
        array = np.asarray(values, dtype=np.float64)
        if array.shape != (self.n_data,):
            msg = f"The {what} have shape {array.shape}; expected ({self.n_data},), one per data point."
            raise DataError(msg)
        bad = np.flatnonzero(~np.isfinite(array))
        if len(bad):
            name, row = self.labels[int(bad[0])]
            msg = f"The {what} are not finite for dataset {name} at index {row}: {array[bad[0]]}."
            raise DataError(msg)
        return array


def collect(datasets: Sequence[Dataset], options: Mapping[str, Any] | None = None) -> Data:
    """Return the datasets as one collection, leaving out (with a warning) those without points."""
    kept = tuple(dataset for dataset in datasets if dataset.n_data)
    dropped = tuple(dataset for dataset in datasets if not dataset.n_data)
    if not kept:
        reasons = "; ".join(f"{d.name}: {', '.join(d.cuts) or 'no points'}" for d in dropped)
        msg = f"No data point is left after the cuts ({reasons}). Loosen q2min, w2min or the cuts."
        raise DataError(msg)
    for dataset in dropped:
        msg = f"Dataset {dataset.name} has no point left after the cuts and is left out."
        warnings.warn(msg, stacklevel=3)
    return Data(kept, dropped, options or {})
