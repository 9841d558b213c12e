"""The result of a fit: frozen, plain arrays inside, a pdf callable itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from partonfit._checks import real
from partonfit._compare import COVARIANCES, Chi2Table, chi2_table
from partonfit._errors import FitError, SettingError, nearest
from partonfit._vocabulary import DATA, EVOLUTION, FLAVOURS, Q0, REPLICA, rotation
from partonfit.data import Data
from partonfit.results._exponents import next_exponents
from partonfit.results._prediction import Prediction
from partonfit.results._replicas import ReplicaStatus
from partonfit.results._weights import Weights
from partonfit.theory import ForwardMap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_GRID = np.concatenate([np.geomspace(1e-5, 0.1, 50, endpoint=False), np.linspace(0.1, 0.95, 50)])


@dataclass(frozen=True)
class PDFFit:
    """Parton distributions with their uncertainty, as an ensemble of replicas.

    Made by :func:`partonfit.fit_pdf` or :func:`partonfit.load_fit`. Calling it, ``fit(x)``, gives
    the central member x f (14, x) at Q0 in the evolution basis, so that a fit can stand wherever a
    PDF is asked for.

    Attributes
    ----------
    weights
        Trained weights of every replica.
    statuses
        How each replica ended, and whether it is kept.
    history
        ``epoch`` (record,), ``training`` and ``validation`` (replica, record): chi2 per point.
    settings, provenance
        Plain values: what was asked for; versions, hashes, seeds, devices and timings.
    data_values
        (data,) central values that were fitted.
    replica_data, training_mask
        (replica, data) pseudodata and training mask of each replica.
    constraint_losses
        (replica, observable) penalty of each positivity and integrability observable of
        ``settings["constraints"]`` at the best epoch; ``None`` without constraints.
    """

    weights: Weights
    statuses: tuple[ReplicaStatus, ...]
    history: dict[str, np.ndarray]
    settings: dict[str, Any]
    provenance: dict[str, Any]
    data_values: np.ndarray
    replica_data: np.ndarray
    training_mask: np.ndarray
    sources: Callable[[], tuple[Data, ForwardMap]] = field(repr=False, compare=False)
    constraint_losses: np.ndarray | None = None

    @cached_property
    def _sources(self) -> tuple[Data, ForwardMap]:
        return self.sources()

    @property
    def data(self) -> Data:
        """The data that were fitted."""
        return self._sources[0]

    @property
    def forward(self) -> ForwardMap:
        """The theory map of the fit."""
        return self._sources[1]

    @property
    def q0(self) -> float:
        """Scale of the parametrisation [GeV]."""
        return Q0

    @property
    def n_replicas(self) -> int:
        """Number of replicas, kept or not."""
        return len(self.statuses)

    @property
    def kept(self) -> np.ndarray:
        """Which replicas enter the result (replica,)."""
        return np.array([status.kept for status in self.statuses])

    def xf(self, x: Any, kept_only: bool = True) -> np.ndarray:
        """Return x f at Q0, (replica, 14, x), in the evolution basis."""
        replicas = np.flatnonzero(self.kept) if kept_only else np.arange(self.n_replicas)
        if not len(replicas):
            msg = f"No replica was kept: {self.statuses[0].sentence}. Fit longer, or raise threshold_chi2."
            raise FitError(msg)
        return self.weights.xf(checked_x(x), replicas)

    def __call__(self, x: Any) -> np.ndarray:
        """Return the central member x f (14, x) at Q0: the mean of the kept replicas."""
        return self.xf(x).mean(axis=0)

    def next_exponents(self) -> tuple[dict[str, tuple[float, float]], dict[str, tuple[float, float]]]:
        """Return ranges of the preprocessing exponents for a next fit, ``alpha`` and ``beta`` by output.

        Twice the 68 % interval of the effective exponents of the kept replicas (arXiv:1410.8849, section 3.2.2).
        A range in which an integral would diverge is cut, with a warning.

        Raises
        ------
        SettingError
            When the model has no preprocessing.
        FitError
            When fewer than two replicas are kept.

        Examples
        --------
        >>> import partonfit as pf
        >>> fit = pf.fit_pdf("hera", replicas=3, seed=1, control=pf.fit_control(epochs=20, threshold_chi2=None))
        >>> import warnings; warnings.simplefilter("ignore")  # this fit is far from a good one
        >>> alpha, beta = fit.next_exponents()
        >>> model = pf.pdf_model(alpha=alpha, beta=beta)
        """
        return next_exponents(self)

    def predict(
        self, x: Any, *, flavour: str | Sequence[str] | None = None, basis: str | None = None, Q: float | None = None
    ) -> Prediction:
        """Return x f with its uncertainty.

        Parameters
        ----------
        x
            Momentum fractions (x,), 0 < x <= 1.
        flavour
            One name or several: flavours (``"g"``, ``"ubar"``), evolution combinations (``"Sigma"``,
            ``"T3"``) or others (``"u_v"``, ``"sea"``, ``"c_plus"``).
        basis
            ``"flavour"`` or ``"evolution"`` for all names of that basis, instead of ``flavour``.
        Q
            Scale [GeV]; ``None`` is Q0 = 1.65 GeV. Other scales are reached by NNLO DGLAP evolution.

        Returns
        -------
        Prediction
            ``mean``, ``sd``, ``lower``, ``upper`` (68 %) of shape (flavour, x) and ``replicas``
            (replica, flavour, x).

        Raises
        ------
        SettingError
            For an unknown flavour or basis, or x outside (0, 1].
        """
        names = _chosen(flavour, basis)
        matrix = rotation(names)
        points = checked_x(x)
        scale = self.q0 if Q is None else checked_scale(Q, self.q0)
        evolved = self.xf(points) if scale == self.q0 else self.evolved(points, [scale])[:, 0]
        return Prediction(points, scale, names, np.einsum("fe,rex->rfx", matrix, evolved))

    def evolved(self, x: np.ndarray, scales: Sequence[float]) -> np.ndarray:
        """Return x f (replica, Q, 14, x) of the kept replicas at ``scales`` [GeV]."""
        from partonfit.theory.evolution import evolve, input_grid

        grid = input_grid()
        return evolve(self.xf(grid), grid, checked_x(x), np.square(np.asarray(scales, dtype=float)))

    def predictions(self, kept_only: bool = True) -> np.ndarray:
        """Return theory predictions (replica, data) of each replica."""
        return self.forward.predict(self.xf(self.forward.x, kept_only))

    @property
    def has_t0(self) -> bool:
        """Whether the fit was made with a t0 covariance."""
        return self.provenance.get("t0_predictions") is not None

    def chi2(self, covariance: str = "experimental") -> Chi2Table:
        """Return chi2 by dataset and in total, of the central member.

        Parameters
        ----------
        covariance
            ``"experimental"``, or ``"t0"`` with the t0 predictions of the fit itself.
        """
        central = self.forward.predict(self(self.forward.x))
        if covariance not in COVARIANCES:
            msg = f"Unknown covariance {covariance!r}. {nearest(str(covariance), COVARIANCES, what='covariance')}"
            raise SettingError(msg)
        t0 = self.provenance["t0_predictions"] if covariance == "t0" else None
        if covariance == "t0" and t0 is None:
            msg = "This fit used the experimental covariance, so it has no t0 predictions. Use chi2()."
            raise SettingError(msg)
        return chi2_table(self.data, central, None if t0 is None else np.asarray(t0))

    def to_dataframe(self, x: Any = None, Q: float | None = None) -> pd.DataFrame:
        """Return flavour, x, Q, mean, sd, lower, upper for every parton but top, one row each."""
        names = [name for name in FLAVOURS if name not in {"t", "tbar", "photon"}]
        return self.predict(_GRID if x is None else x, flavour=names, Q=Q).to_dataframe()

    def to_xarray(self, x: Any = None) -> xr.Dataset:
        """Return a Dataset: ``xf`` (replica, flavour, x) at Q0 and ``predictions`` (replica, data)."""
        points = _GRID if x is None else checked_x(x)
        kept = np.flatnonzero(self.kept)
        xf = Prediction(points, self.q0, EVOLUTION, self.xf(points)).to_xarray()
        predictions = xr.DataArray(self.predictions(), dims=(REPLICA, DATA))
        measured = xr.DataArray(self.data.values, dims=(DATA,))
        return xr.Dataset({"xf": xf, "predictions": predictions, "data_values": measured}).assign_coords(replica=kept)

    def plot(self, flavours: str | Sequence[str] | None = None, *, type: str = "pdfs", **options: Any) -> Figure:
        """Draw the fit; types and options as in :func:`partonfit.results.plot`."""
        from partonfit.results._plots import plot

        return plot(self, flavours, type=type, **options)

    def write_lhapdf(self, folder: str | Path, **options: Any) -> Path:
        """Evolve every kept replica and write an LHAPDF set; see :func:`partonfit.results.write_lhapdf`."""
        from partonfit.results._lhapdf import write_lhapdf

        return write_lhapdf(self, folder, **options)

    def report(self, file: str | Path, **options: Any) -> Path:
        """Write a self-contained HTML page; see :func:`partonfit.results.write_report`."""
        from partonfit.results._report import write_report

        return write_report(self, file, **options)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the fit to ``folder`` (JSON and arrays only); see :func:`partonfit.load_fit`."""
        from partonfit.results._storage import save_fit

        return save_fit(self, folder, overwrite=overwrite)

    def __repr__(self) -> str:
        kept = int(self.kept.sum())
        points = self.settings.get("n_data", "?")
        return f"<PDFFit: {kept} of {self.n_replicas} replicas kept, {points} points, Q0 = {self.q0} GeV>"


def checked_x(x: Any) -> np.ndarray:
    """Return ``x`` as float64 (x,), or raise when a value lies outside (0, 1]."""
    points = np.atleast_1d(np.asarray(x, dtype=np.float64))
    if points.ndim != 1 or not len(points):
        msg = f"x must be one number or a list of numbers, not an array of shape {points.shape}."
        raise SettingError(msg)
    wrong = np.flatnonzero(~((points > 0) & (points <= 1)))
    if len(wrong):
        msg = f"x must lie in (0, 1]; x[{wrong[0]}] is {points[wrong[0]]:g}."
        raise SettingError(msg)
    return points


def checked_scale(scale: Any, lowest: float) -> float:
    """Return ``scale`` [GeV] as a float, or raise when it lies outside [Q0, 1e5]."""
    value = real("Q", scale, above=0, most=1e5)
    if value < lowest:
        msg = f"Q must be at least Q0 = {lowest} GeV, not {value:g}: nothing was fitted below."
        raise SettingError(msg)
    return value


def _chosen(flavour: str | Sequence[str] | None, basis: str | None) -> tuple[str, ...]:
    if flavour is not None and basis is not None:
        msg = "Give flavour or basis, not both."
        raise SettingError(msg)
    if basis is not None:
        known = {"flavour": FLAVOURS, "evolution": EVOLUTION}
        if basis not in known:
            msg = f"basis must be 'flavour' or 'evolution', not {basis!r}."
            raise SettingError(msg)
        return known[basis]
    if flavour is None:
        return ("g",)
    return (flavour,) if isinstance(flavour, str) else tuple(flavour)
