"""The result of a closure test: what every replica of every fit predicts, beside the known law."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.linalg import solve_triangular

from partonfit._errors import SettingError, StorageError, nearest
from partonfit._files import new_folder
from partonfit._seeds import stream
from partonfit.results._closure_statistics import (
    Averages,
    FitStatistics,
    Measured,
    averages,
    directions,
    faithful,
    fit_statistics,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = 1
DESCRIPTION, ARRAYS = "closure.json", "closure.npz"


@dataclass(frozen=True)
class ClosureRow:
    """The statistics of some points (or of one flavour), over all fits.

    Attributes
    ----------
    kind, name
        ``"data"`` for all points, ``"dataset"``, ``"x"`` for a decade of x, ``"pdf"`` for x f on a grid.
    n_data
        Number of points.
    averages
        Bias, variance, ratio; ``inside`` is xi_1sigma point by point, ``expected`` what the ratio predicts.
    along
        xi_1sigma along the eigen-directions of the replicas' covariance.
    n_directions
        Their number.
    """

    kind: str
    name: str
    n_data: int
    averages: Averages
    along: Measured
    n_directions: int


@dataclass(frozen=True, eq=False)
class ClosureTest:
    """Many fits to fake data from a known law: are the uncertainties faithful?

    Made by :func:`partonfit.closure_test` or :func:`partonfit.load_closure`. It holds all predictions as plain
    arrays and needs neither data nor theory any more.

    Attributes
    ----------
    settings, provenance
        Plain values: what was asked for; versions, hashes and timings.
    datasets, sizes
        Names of the datasets and their numbers of points, in the order of the axis "data".
    statuses
        (fit, replica) how each replica ended, as words.
    kept
        (fit, replica) which replicas count.
    law_predictions
        (data,) predictions of the law.
    level1
        (fit, data) the data of each fit: the law plus one draw of noise.
    predictions
        (fit, replica, data).
    independent, correlated
        (data,) and (data, source): the uncertainties by source; the covariance is their diag(s^2) + A A^T.
    data_x
        (data,) momentum fraction of each point, NaN where it has none.
    x, flavours
        Grid and names of ``xf``.
    law_xf
        (flavour, x) x f of the law at Q0.
    xf
        (fit, replica, flavour, x).
    """

    settings: dict[str, Any]
    provenance: dict[str, Any]
    datasets: tuple[str, ...]
    sizes: tuple[int, ...]
    statuses: tuple[tuple[str, ...], ...]
    kept: np.ndarray
    law_predictions: np.ndarray
    level1: np.ndarray
    predictions: np.ndarray
    independent: np.ndarray
    correlated: np.ndarray
    data_x: np.ndarray
    x: np.ndarray
    flavours: tuple[str, ...]
    law_xf: np.ndarray
    xf: np.ndarray

    @property
    def n_fits(self) -> int:
        """Number of fits."""
        return len(self.kept)

    @property
    def n_replicas(self) -> int:
        """Number of replicas of each fit, kept or not."""
        return self.kept.shape[1]

    @property
    def n_data(self) -> int:
        """Number of points."""
        return len(self.law_predictions)

    @property
    def used(self) -> np.ndarray:
        """Which fits count (fit,): those with at least two kept replicas."""
        return self.kept.sum(axis=1) > 1

    @property
    def left_out(self) -> dict[str, int]:
        """Number of replicas left out, by how they ended."""
        counts: dict[str, int] = {}
        for words, kept in zip(self.statuses, self.kept, strict=True):
            for word, keep in zip(words, kept, strict=True):
                if not keep:
                    counts[word] = counts.get(word, 0) + 1
        return counts

    @property
    def faithful(self) -> tuple[float, float]:
        """Ratio and xi_1sigma that exact uncertainties would have with this number of replicas.

        They tend to 1 and 0.683 for many replicas; the mean and the spread of few are themselves uncertain.
        """
        return faithful(float(self.kept[self.used].sum(axis=1).mean())) if self.used.any() else (np.nan, np.nan)

    @property
    def bias(self) -> np.ndarray:
        """Bias of each fit per point, all data (fit,); NaN for a fit that does not count."""
        return self._by_fit.bias

    @property
    def variance(self) -> np.ndarray:
        """Variance of each fit per point, all data (fit,)."""
        return self._by_fit.variance

    @property
    def ratio(self) -> Measured:
        """sqrt(<bias> / <variance>) of all data, with its bootstrap error."""
        return self.rows[0].averages.ratio

    @property
    def xi(self) -> Measured:
        """xi_1sigma of all data, point by point."""
        return self.rows[0].averages.inside

    @cached_property
    def chi2(self) -> np.ndarray:
        """chi2 per point of each fit's central member to its own data (fit,); NaN for a fit without replicas."""
        factor = self._factor(np.arange(self.n_data))
        found = []
        for values, kept, goal in zip(self.predictions, self.kept, self.level1, strict=True):
            pull = solve_triangular(factor, values[kept].mean(axis=0) - goal, lower=True) if kept.any() else np.nan
            found.append(np.mean(np.square(pull)))
        return np.array(found)

    @cached_property
    def rows(self) -> tuple[ClosureRow, ...]:
        """All statistics: the whole data first, then datasets, decades of x, and x f."""
        found = [self._row(kind, name, *self._residuals(points)) for kind, name, points in self._regions()]
        return (*found, *(self._row("pdf", name, part, part) for name, part in self._pdf_residuals()))

    def row(self, kind: str, name: str = "all") -> ClosureRow:
        """Return one row of :attr:`rows`, e.g. ``row("dataset", "HERA_CC_318GEV_EM-SIGMARED")``."""
        for row in self.rows:
            if (row.kind, row.name) == (kind, name):
                return row
        known = [f"{row.kind}, {row.name}" for row in self.rows]
        msg = f"There is no row '{kind}, {name}' here. {nearest(f'{kind}, {name}', known, what='row')}"
        raise SettingError(msg)

    @cached_property
    def pulls(self) -> np.ndarray:
        """Shifts (E[g] - f) / sigma (fit, direction) of the fits that count, along the eigen-directions."""
        whitened, _ = self._residuals(np.arange(self.n_data))
        along = whitened @ directions(whitened, self.kept)
        parts = [v[k] for v, k in zip(along, self.kept, strict=True) if k.sum() > 1]
        shape = (0, along.shape[-1])
        return np.stack([v.mean(axis=0) / v.std(axis=0) for v in parts]) if parts else np.zeros(shape)

    @cached_property
    def _by_fit(self) -> FitStatistics:
        return fit_statistics(self._residuals(np.arange(self.n_data))[0], self.kept)

    def _regions(self) -> Iterator[tuple[str, str, np.ndarray]]:
        yield "data", "all", np.arange(self.n_data)
        ends = np.cumsum(self.sizes)
        for name, size, end in zip(self.datasets, self.sizes, ends, strict=True):
            yield "dataset", name, np.arange(end - size, end)
        decade = np.floor(np.log10(self.data_x))
        for power in np.unique(decade[np.isfinite(decade)]):
            yield "x", f"1e{power:.0f} to 1e{power + 1:.0f}", np.flatnonzero(decade == power)

    def _factor(self, points: np.ndarray) -> np.ndarray:
        """Return the Cholesky factor of the covariance of ``points``."""
        part = self.correlated[points]
        return np.linalg.cholesky(part @ part.T + np.diag(self.independent[points] ** 2))

    def _residuals(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return replica minus law (fit, replica, point), whitened and in units of the point's own error."""
        difference = self.predictions[..., points] - self.law_predictions[points]
        flat = difference.reshape(-1, len(points))
        whitened = solve_triangular(self._factor(points), flat.T, lower=True, check_finite=False).T
        return whitened.reshape(difference.shape), difference

    def _pdf_residuals(self) -> Iterator[tuple[str, np.ndarray]]:
        """Give x f minus law in units of the spread of the replicas, averaged over fits."""
        parts = [v[k].var(axis=0) for v, k in zip(self.xf, self.kept, strict=True) if k.sum() > 1]
        spread = np.sqrt(np.mean(parts, axis=0)) if parts else np.full(self.law_xf.shape, np.nan)
        difference = self.xf - self.law_xf
        scaled = np.divide(difference, spread, out=np.zeros_like(difference), where=spread > 0)
        yield "all", scaled.reshape(*self.kept.shape, -1)
        for i, name in enumerate(self.flavours):
            yield name, scaled[:, :, i]

    def _row(self, kind: str, name: str, whitened: np.ndarray, plain: np.ndarray) -> ClosureRow:
        found, points = fit_statistics(whitened, self.kept), fit_statistics(plain, self.kept)
        vectors = directions(whitened, self.kept)
        along = fit_statistics(whitened @ vectors, self.kept) if vectors.shape[1] else None
        seed = int(self.settings["seed"])
        means = averages(
            FitStatistics(found.bias, found.variance, points.inside), stream(seed, "bootstrap", kind, name)
        )
        nothing = Measured(np.nan, np.nan)
        inside = nothing if along is None else averages(along, stream(seed, "bootstrap", kind, name)).inside
        return ClosureRow(kind, name, whitened.shape[-1], means, inside, vectors.shape[1])

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row for all data, each dataset, each decade of x and each flavour."""
        return pd.DataFrame([_flat(row) for row in self.rows])

    def fits_table(self) -> pd.DataFrame:
        """Return one row per fit: kept replicas, bias, variance, chi2 per point to its own data."""
        return pd.DataFrame(
            {"fit": np.arange(self.n_fits), "kept": self.kept.sum(axis=1), "bias": self.bias,
             "variance": self.variance, "chi2_per_point": self.chi2}
        )  # fmt: skip

    def plot(self) -> Figure:
        """Draw ratio and xi by dataset and decade of x, and the distribution of the shifts."""
        from partonfit.results._plots_closure import plot_closure

        return plot_closure(self)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the result to ``folder`` (JSON and arrays only); see :func:`partonfit.load_closure`."""
        with new_folder(folder, overwrite=overwrite) as work:
            for name, content in closure_to_files(self).items():
                (work / name).write_bytes(content)
        return Path(folder)

    def __str__(self) -> str:
        """Return what was found, and what faithful uncertainties would give."""
        whole, pdf = self.rows[0], self.row("pdf")
        r, inside = self.faithful
        means = whole.averages
        lines = [
            f"Closure test: {self.n_fits} fits of {self.n_replicas} replicas, {self.n_data} points in "
            f"{len(self.datasets)} datasets, law {self.settings['law']}{self._left_out_words()}",
            f"sqrt(bias/variance) {means.ratio} (faithful uncertainties: {r:.3f}); "
            f"bias {means.bias.value:.3g}, variance {means.variance.value:.3g} per point",
            f"xi_1sigma: points {means.inside}, {whole.n_directions} directions {whole.along}, x f "
            f"{pdf.averages.inside} (faithful: {inside:.3f}; expected from the ratio: {means.expected})",
        ]
        if self.used.sum() < 2:
            lines.append(f"Errors are undefined with {int(self.used.sum())} usable fit(s): they come from the scatter "
                         "between fits.")  # fmt: skip
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<ClosureTest: {self.n_fits} fits of {self.n_replicas} replicas, ratio {self.ratio}, xi {self.xi}>"

    def _left_out_words(self) -> str:
        found = self.left_out
        words = f"; left out: {', '.join(f'{n} {word}' for word, n in sorted(found.items()))}" if found else ""
        lost = int((~self.used).sum())
        return words + (f"; {lost} fits with fewer than 2 replicas do not count" if lost else "")


def _flat(row: ClosureRow) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": row.kind, "name": row.name, "n_data": row.n_data}
    words = {"bias": "bias", "variance": "variance", "ratio": "ratio", "inside": "xi", "expected": "xi_expected"}
    for field, word in words.items():
        measured = getattr(row.averages, field)
        found |= {word: measured.value, f"{word}_error": measured.error}
    along = {"xi_directions": row.along.value, "xi_directions_error": row.along.error}
    return found | along | {"n_directions": row.n_directions}


_ARRAYS = (
    "kept", "law_predictions", "level1", "predictions", "independent", "correlated", "data_x", "x", "law_xf", "xf",
)  # fmt: skip


def closure_to_files(result: ClosureTest) -> dict[str, bytes]:
    """Return the files of a result as bytes by name."""
    plain = {f.name: getattr(result, f.name) for f in fields(result) if f.name not in _ARRAYS}
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **{name: getattr(result, name) for name in _ARRAYS})
    text = json.dumps({"format": FORMAT} | plain, indent=1, allow_nan=False)
    return {DESCRIPTION: text.encode(), ARRAYS: stream.getvalue()}


def load_closure(folder: str | Path) -> ClosureTest:
    """Read a closure test that :meth:`ClosureTest.save` wrote.

    Parameters
    ----------
    folder
        Where it was written.

    Raises
    ------
    StorageError
        When the folder holds no complete closure test.

    Examples
    --------
    >>> import partonfit as pf
    >>> pf.load_closure("no-such-folder")
    Traceback (most recent call last):
        ...
    partonfit._errors.StorageError: There is no closure test in no-such-folder: closure.json is missing.
    """
    path = Path(folder).expanduser()
    for name in (DESCRIPTION, ARRAYS):
        if not (path / name).is_file():
            msg = f"There is no closure test in {path}: {name} is missing."
            raise StorageError(msg)
    try:
        plain = json.loads((path / DESCRIPTION).read_text())
        version = plain.pop("format")
        if version != FORMAT:
            msg = f"{path} has format {version!r}; this version of partonfit reads format {FORMAT}."
            raise StorageError(msg)
        with np.load(path / ARRAYS, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in _ARRAYS}
        for name in ("datasets", "sizes", "flavours"):
            plain[name] = tuple(plain[name])
        plain["statuses"] = tuple(tuple(words) for words in plain["statuses"])
        return ClosureTest(**plain, **arrays)
    except (KeyError, TypeError, ValueError, zipfile.BadZipFile, EOFError) as error:
        if isinstance(error, StorageError):
            raise
        msg = f"{path} holds no complete closure test ({type(error).__name__}: {error})."
        raise StorageError(msg) from error
