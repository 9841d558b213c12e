"""Two fits side by side: distances of their distributions, and chi2 by dataset.

The distances are those of the community (arXiv:1002.4407, appendix A). With mean m, variance s^2 and N
replicas of each fit,

    d^2[m]   = (m_1 - m_2)^2 / (s_1^2 / N_1 + s_2^2 / N_2)
    d^2[s^2] = (s_1^2 - s_2^2)^2 / (v_1 + v_2),   v = (m4 - (N - 3) / (N - 1) s^4) / N,

m4 being the fourth central moment: differences in units of the error of mean and variance. Two sets of
replicas from the same distribution have d^2 = 1 on average; with N = 100 replicas each, means one standard
deviation apart have d = 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from partonfit._checks import real
from partonfit._compare import chi2_table
from partonfit._errors import SettingError
from partonfit._vocabulary import rotation
from partonfit.results._fit_object import PDFFit, checked_x

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FLAVOURS = ("g", "u", "ubar", "d", "dbar", "s", "sbar", "c_plus")
_GRID = np.concatenate([np.geomspace(1e-5, 0.1, 30, endpoint=False), np.linspace(0.1, 0.9, 20)])


@dataclass(frozen=True, eq=False)
class FitComparison:
    """Distances between two fits and their chi2 side by side; made by :func:`partonfit.compare`.

    Attributes
    ----------
    labels
        Names of the two fits.
    Q
        Scale of the distances [GeV].
    x, flavours
        Momentum fractions (x,) and names (flavour,).
    central, variance
        (flavour, x) squared distance of the means and of the variances; NaN where one replica has no spread.
    replicas
        Number of kept replicas of each.
    dataset, n_data, chi2
        Datasets of either fit and a last entry "total"; number of points and chi2 per point (dataset, 2),
        experimental covariance, NaN where a fit does not have the dataset.
    fits
        The two fits themselves, for figures.
    """

    labels: tuple[str, str]
    Q: float
    x: np.ndarray
    flavours: tuple[str, ...]
    central: np.ndarray
    variance: np.ndarray
    replicas: tuple[int, int]
    dataset: tuple[str, ...]
    n_data: np.ndarray
    chi2: np.ndarray
    fits: tuple[Any, Any]

    def to_dataframe(self) -> pd.DataFrame:
        """Return the distances: flavour, x, Q, distance2_central, distance2_variance, one row each."""
        names, xs = np.repeat(self.flavours, len(self.x)), np.tile(self.x, len(self.flavours))
        columns = {"distance2_central": self.central.ravel(), "distance2_variance": self.variance.ravel()}
        return pd.DataFrame({"flavour": names, "x": xs, "Q": self.Q} | columns)

    def chi2_table(self) -> pd.DataFrame:
        """Return chi2 per point by dataset of both fits, and the difference (second minus first)."""
        found: dict[str, Any] = {"dataset": self.dataset}
        for k, word in enumerate(("first", "second")):
            found |= {f"n_data_{word}": self.n_data[:, k], f"chi2_per_point_{word}": self.chi2[:, k]}
        return pd.DataFrame(found | {"difference": self.chi2[:, 1] - self.chi2[:, 0]})

    def plot(self, type: str = "distances", **options: Any) -> Figure:
        """Draw the comparison.

        Parameters
        ----------
        type
            ``"distances"``, ``"chi2"``, or ``"ratio"`` (bands of both divided by the first).
        **options
            For ``"ratio"``: ``flavours``, ``xscale``.
        """
        from partonfit.results._plots_comparison import plot_comparison

        return plot_comparison(self, type, **options)

    def report(self, file: str | Path, *, overwrite: bool = False) -> Path:
        """Write a self-contained HTML page with tables and figures."""
        from partonfit.results._comparison_page import write_comparison

        return write_comparison(self, file, overwrite=overwrite)

    def __str__(self) -> str:
        """Return the mean distances by flavour and chi2 by dataset as text."""
        lines = [
            f"1: {self.labels[0]} ({self.replicas[0]} replicas)   2: {self.labels[1]} ({self.replicas[1]} replicas)",
            f"mean squared distance over x at Q = {self.Q:g} GeV, in units of the errors (same distribution: 1)",
            "  ".join(f"{n} {_mean(c):.2f}/{_mean(v):.2f}" for n, c, v in self._by_flavour()) + "  (centre/variance)",
        ]
        if len(self.dataset):
            width = max(len(name) for name in self.dataset)
            lines += ["chi2 per point, experimental covariance", f"{'dataset':<{width}}  {'1':>8}  {'2':>8}"]
            lines += [
                f"{name:<{width}}  {_number(a)}  {_number(b)}"
                for name, (a, b) in zip(self.dataset, self.chi2, strict=True)
            ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        found = f"centre {_mean(self.central):.2f}, variance {_mean(self.variance):.2f}"
        return f"<FitComparison: {self.labels[0]} and {self.labels[1]}, mean squared distance {found}>"

    def _by_flavour(self) -> Any:
        return zip(self.flavours, self.central, self.variance, strict=True)


def compare(
    fit: PDFFit,
    other: Any,
    *,
    flavours: str | Sequence[str] | None = None,
    x: Any = None,
    Q: float | None = None,
    labels: tuple[str, str] = ("first", "second"),
) -> FitComparison:
    """Lay two fits side by side: distances of their distributions, and chi2 by dataset.

    Parameters
    ----------
    fit
        A fit.
    other
        Another fit, an LHAPDF set (object or folder), or a pdf callable. chi2 of the latter two are those to
        the data of ``fit``; a callable has no replicas and so no distances.
    flavours
        Names as in :meth:`PDFFit.predict`; ``None``: gluon and light quarks.
    x
        Momentum fractions (x,); ``None``: fifty from 1e-5 to 0.9.
    Q
        Scale of the distances [GeV]; ``None``: Q0 = 1.65 GeV.
    labels
        Names of the two.

    Returns
    -------
    FitComparison
        Print it, or see ``to_dataframe()``, ``chi2_table()`` and ``plot()``.

    Raises
    ------
    SettingError
        For an unknown flavour, or x or Q out of range.

    Notes
    -----
    Squared distances are differences of means and variances in units of their statistical errors
    (arXiv:1002.4407, appendix A); replicas of the same distribution have 1 on average.

    Examples
    --------
    >>> import partonfit as pf
    >>> fit = pf.fit_pdf("hera", replicas=2, seed=1, control=pf.fit_control(epochs=20, threshold_chi2=None))
    >>> float(pf.compare(fit, fit).central.max())
    0.0
    """
    if isinstance(other, str | Path):
        from partonfit.results._lhapdf_reader import read_lhapdf

        other = read_lhapdf(other)
    if not callable(other):
        msg = f"other must be a fit, an LHAPDF set or a function pdf(x), not {type(other).__name__}."
        raise SettingError(msg)
    names = FLAVOURS if flavours is None else (flavours,) if isinstance(flavours, str) else tuple(flavours)
    rotation(names)
    points = _GRID if x is None else checked_x(x)
    scale = fit.q0 if Q is None else real("Q", Q, above=0)
    if not isinstance(labels, tuple | list) or len(labels) != 2:
        msg = f"labels must be two names, not {labels!r}."
        raise SettingError(msg)
    first, second = (_replicas(each, points, names, scale, fit.q0) for each in (fit, other))
    central, variance = distances(first, second)
    datasets, n_data, chi2 = _side_by_side(fit, other)
    return FitComparison(
        (str(labels[0]), str(labels[1])), scale, points, names, central, variance, (len(first), len(second)),
        datasets, n_data, chi2, (fit, other),
    )  # fmt: skip


def distances(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the squared distances of means and of variances, each (...).

    Parameters
    ----------
    first, second
        Replicas (replica, ...) of the same quantities. The same replicas have distance zero; where an error
        is undefined, because there is one replica, the distance is NaN.

    Examples
    --------
    >>> draw = np.random.default_rng(0).normal(size=(2, 400, 1000))
    >>> central, variance = distances(draw[0], draw[1])
    >>> round(float(central.mean()), 1), round(float(variance.mean()), 1)
    (1.0, 1.0)
    """
    if np.array_equal(first, second):
        return np.zeros(first.shape[1:]), np.zeros(first.shape[1:])
    mean_1, mean_2 = first.mean(axis=0), second.mean(axis=0)
    (s2_1, error_1, spread_1), (s2_2, error_2, spread_2) = _moments(first), _moments(second)
    return _over((mean_1 - mean_2) ** 2, error_1 + error_2), _over((s2_1 - s2_2) ** 2, spread_1 + spread_2)


def _moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the variance, the squared error of the mean and the squared error of the variance."""
    count = len(values)
    if count < 2:
        nothing = np.full(values.shape[1:], np.nan)
        return nothing, nothing, nothing
    s2 = values.var(axis=0, ddof=1)
    fourth = np.mean((values - values.mean(axis=0)) ** 4, axis=0)
    # With two or three replicas the estimate can come out negative: then there is none.
    error = (fourth - (count - 3) / (count - 1) * s2**2) / count
    return s2, s2 / count, np.where(error > 0, error, np.nan)


def _over(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    result = np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0)
    return np.where(top == 0, 0.0, result)


def _replicas(source: Any, x: np.ndarray, names: tuple[str, ...], scale: float, q0: float) -> np.ndarray:
    """Return x f (replica, flavour, x) of a fit, a set or a callable."""
    if hasattr(source, "predict"):
        found = source.predict(x, flavour=list(names), Q=scale)
        return np.reshape(found.replicas, (-1, len(names), len(x)))
    if scale != q0:
        msg = f"A function gives its PDF at Q0 = {q0:g} GeV only; leave out Q."
        raise SettingError(msg)
    return (rotation(names) @ np.asarray(source(x), dtype=np.float64))[None]


def _side_by_side(fit: PDFFit, other: Any) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Return datasets of either fit and "total", points and chi2 per point (dataset, 2) of both."""
    first = fit.chi2()
    second = (
        other.chi2()
        if hasattr(other, "chi2")
        else chi2_table(fit.data, fit.forward.predict(np.asarray(other(fit.forward.x), dtype=np.float64)))
    )
    names = tuple(dict.fromkeys((*first.dataset, *second.dataset)))
    found = [dict(zip(t.dataset, zip(t.n_data, t.chi2, strict=True), strict=True)) for t in (first, second)]
    pairs = [[each.get(name, (0, np.nan)) for each in found] for name in names]
    pairs.append([(table.n_total, table.total) for table in (first, second)])
    n_data = np.array([[n for n, _ in pair] for pair in pairs])
    chi2 = np.array([[value / n if n else np.nan for n, value in pair] for pair in pairs])
    return (*names, "total"), n_data, chi2


def _mean(values: np.ndarray) -> float:
    good = values[np.isfinite(values)]
    return float(good.mean()) if good.size else np.nan


def _number(value: float) -> str:
    return f"{value:8.3f}" if np.isfinite(value) else f"{'-':>8}"
