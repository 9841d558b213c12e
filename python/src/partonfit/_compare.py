"""Predictions and chi2: data, theory and a PDF laid side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import solve_triangular

from partonfit._errors import DataError, SettingError, nearest
from partonfit._seeds import checked_seed
from partonfit.data import Data, load_data, pseudodata
from partonfit.models import resolve_pdf
from partonfit.theory import ForwardMap, Theory, forward_map, load_theory

if TYPE_CHECKING:
    import pandas as pd

PDF = str | Callable[[np.ndarray], Any]
COVARIANCES = ("experimental", "t0")


@dataclass(frozen=True, eq=False)
class Chi2Table:
    """chi2 of each dataset and of all data together.

    Attributes
    ----------
    covariance
        "experimental" or "t0": which covariance the numbers refer to.
    dataset, group
        Names of the datasets and of their groups.
    n_data
        Number of points per dataset.
    chi2
        chi2 of each dataset by itself (its own block of the covariance), not divided by the points.
    logdet
        Logarithm of the determinant of each dataset's covariance block.
    total
        chi2 of all data together; correlations between datasets make it differ from the sum.
    total_logdet
        Logarithm of the determinant of the whole covariance.
    """

    covariance: str
    dataset: tuple[str, ...]
    group: tuple[str, ...]
    n_data: tuple[int, ...]
    chi2: tuple[float, ...]
    logdet: tuple[float, ...]
    total: float
    total_logdet: float

    @property
    def n_total(self) -> int:
        """Number of all points."""
        return sum(self.n_data)

    @property
    def per_point(self) -> float:
        """Total chi2 divided by the number of points."""
        return self.total / self.n_total

    def __getitem__(self, dataset: str) -> float:
        """Return the chi2 of one dataset."""
        if dataset not in self.dataset:
            msg = f"There is no dataset '{dataset}' here. {nearest(dataset, self.dataset, what='dataset')}"
            raise DataError(msg)
        return self.chi2[self.dataset.index(dataset)]

    def __str__(self) -> str:
        """Return a table for the terminal, the covariance named in its heading."""
        width = max(len(name) for name in (*self.dataset, "total"))
        lines = [
            f"chi2 with the {self.covariance} covariance",
            f"{'dataset':<{width}}      N      chi2   chi2/N",
        ]
        rows = [*zip(self.dataset, self.n_data, self.chi2, strict=True), ("total", self.n_total, self.total)]
        lines += [f"{name:<{width}}  {n:5d}  {value:8.1f}  {value / n:7.3f}" for name, n, value in rows]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns, one row per dataset and a last row "total"."""
        n, chi2 = [*self.n_data, self.n_total], [*self.chi2, self.total]
        return {
            "dataset": [*self.dataset, "total"],
            "group": [*self.group, "total"],
            "n_data": n,
            "chi2": chi2,
            "chi2_per_point": [value / points for value, points in zip(chi2, n, strict=True)],
            "logdet": [*self.logdet, self.total_logdet],
            "covariance": [self.covariance] * len(n),
        }

    def to_dataframe(self) -> pd.DataFrame:
        """Return the table for pandas, a last row "total" included."""
        import pandas as pd

        return pd.DataFrame(self.to_dict())


def predictions(data: Any, theory: Any, pdf: PDF) -> np.ndarray:
    """Return the prediction for every data point.

    Parameters
    ----------
    data
        A :class:`~partonfit.data.Data`, or what :func:`~partonfit.data.load_data` accepts.
    theory
        A :class:`~partonfit.theory.Theory`, a :class:`~partonfit.theory.ForwardMap` made for these
        data, or what :func:`~partonfit.theory.load_theory` accepts.
    pdf
        A function ``pdf(x) -> (14, x)`` of x f at Q0 = 1.65 GeV in the evolution basis (photon, Sigma,
        g, V, V3, V8, V15, V24, V35, T3, T8, T15, T24, T35), or "toy".

    Returns
    -------
    numpy.ndarray
        Predictions (data,), in the units of the data.

    Examples
    --------
    >>> predictions("hera", "hera", "toy").shape
    (1145,)
    """
    function = resolve_pdf(pdf)
    data, forward = as_forward_map(data, theory)
    return _predict(forward, function, data)


def chi2(data: Any, theory: Any, pdf: PDF, covariance: str = "experimental", t0: PDF | None = None) -> Chi2Table:
    """Return the chi2 of a PDF, per dataset and in total.

    Parameters
    ----------
    data, theory, pdf
        As in :func:`predictions`.
    covariance
        "experimental": multiplicative uncertainties are proportional to the data; "t0": they are
        proportional to the predictions of the PDF ``t0`` (arXiv:0912.2276).
    t0
        The PDF of the t0 covariance; needed for "t0" and refused otherwise.

    Returns
    -------
    Chi2Table
        chi2 and log-determinants, with the covariance they refer to.

    Examples
    --------
    >>> table = chi2("hera", "hera", "toy")
    >>> table.n_total, round(table.per_point, 2)
    (1145, 3.08)
    """
    if covariance not in COVARIANCES:
        msg = f"Unknown covariance {covariance!r}. {nearest(str(covariance), COVARIANCES, what='covariance')}"
        raise SettingError(msg)
    if (covariance == "t0") != (t0 is not None):
        msg = (
            "The t0 covariance needs a PDF: give t0='toy' or a function."
            if t0 is None
            else "t0 is given, but the covariance is experimental. Ask for covariance='t0'."
        )
        raise SettingError(msg)
    function = resolve_pdf(pdf)
    reference = None if t0 is None else resolve_pdf(t0)
    data, forward = as_forward_map(data, theory)
    scale = None if reference is None else _predict(forward, reference, data)
    return chi2_table(data, _predict(forward, function, data), scale)


def chi2_table(data: Data, predicted: np.ndarray, t0: np.ndarray | None = None) -> Chi2Table:
    """Return the chi2 of given predictions.

    Parameters
    ----------
    data
        The data.
    predicted
        Predictions (data,).
    t0
        Predictions of the t0 PDF (data,), or None for the experimental covariance.
    """
    predicted = np.asarray(predicted, dtype=np.float64)
    if predicted.shape != (data.n_data,):
        msg = f"Predictions have shape {predicted.shape}; expected ({data.n_data},), one per data point."
        raise DataError(msg)
    matrix, difference = data.covariance(t0), data.values - predicted
    rows = []
    for dataset in data.datasets:
        part = data.slices[dataset.name]
        rows.append(_chi2(data.select(dataset.name), matrix[part, part], difference[part]))
    total, logdet = _chi2(data, matrix, difference)
    return Chi2Table(
        covariance="experimental" if t0 is None else "t0",
        dataset=data.names,
        group=tuple(dataset.group for dataset in data.datasets),
        n_data=tuple(dataset.n_data for dataset in data.datasets),
        chi2=tuple(row[0] for row in rows),
        logdet=tuple(row[1] for row in rows),
        total=total,
        total_logdet=logdet,
    )


def closure_data(data: Any, theory: Any, pdf: PDF, level: int = 0, seed: int | None = None) -> Data:
    """Return the same datasets with fake values made from a known PDF.

    Parameters
    ----------
    data, theory, pdf
        As in :func:`predictions`; the PDF is the truth of the closure test.
    level
        0: the predictions themselves. 1: plus one draw of noise from the experimental uncertainties,
        multiplicative ones proportional to the predictions.
    seed
        Seed of the noise; needed for level 1.

    Returns
    -------
    Data
        Data whose uncertainties are those of the experiments (multiplicative ones keep their percentage).

    Examples
    --------
    >>> import partonfit as pf
    >>> fake = pf.closure_data("hera", "hera", "toy", level=0)
    >>> round(pf.chi2(fake, "hera", "toy").total, 6)
    0.0
    """
    if isinstance(level, bool) or level not in (0, 1):
        msg = f"level must be 0 (exact) or 1 (with noise), not {level!r}. Pseudodata of a fit add level 2."
        raise SettingError(msg)
    if level == 1 and seed is None:
        msg = "Closure data of level 1 are random: give seed=1 or another whole number."
        raise SettingError(msg)
    number = 0 if seed is None else checked_seed(seed)
    function = resolve_pdf(pdf)
    data, forward = as_forward_map(data, theory)
    fake = data.with_values(_predict(forward, function, data))
    if level == 0:
        return fake
    from partonfit._seeds import stream

    return fake.with_values(pseudodata(fake, rng=lambda *names: stream(number, "closure", *names)))


def as_forward_map(data: Any, theory: Any) -> tuple[Data, ForwardMap]:
    """Return data and forward map from whatever names or objects the user gave."""
    data = data if isinstance(data, Data) else load_data(data)
    if not isinstance(theory, ForwardMap):
        return data, forward_map(data, theory if isinstance(theory, Theory) else load_theory(theory))
    if theory.n_data != data.n_data:
        msg = f"The forward map was made for {theory.n_data} points, but the data have {data.n_data}."
        raise DataError(msg)
    return data, theory


def _predict(forward: ForwardMap, pdf: Callable[[np.ndarray], Any], data: Data) -> np.ndarray:
    xf = np.asarray(pdf(forward.x), dtype=np.float64)
    if xf.shape != (14, len(forward.x)):
        msg = f"pdf(x) must return an array (14, {len(forward.x)}), not {xf.shape}."
        raise SettingError(msg)
    bad = np.argwhere(~np.isfinite(xf))
    if len(bad):
        msg = f"pdf(x) is not finite at x = {forward.x[bad[0][1]]:.6g}: {xf[tuple(bad[0])]}."
        raise SettingError(msg)
    result = forward.predict(xf)
    if not np.isfinite(result).all():
        name, row = data.labels[int(np.flatnonzero(~np.isfinite(result))[0])]
        msg = f"The prediction for dataset {name} at index {row} is not finite: a denominator vanishes."
        raise DataError(msg)
    return result


def _chi2(data: Data, matrix: np.ndarray, difference: np.ndarray) -> tuple[float, float]:
    factor = data.cholesky(matrix)
    whitened = solve_triangular(factor, difference, lower=True, check_finite=False)
    return float(whitened @ whitened), float(2 * np.log(np.diag(factor)).sum())
