"""What ``predict()`` gives back: values of x f with their uncertainty, axes named."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from partonfit._vocabulary import FLAVOUR, REPLICA, X

LEVEL = (15.865525393145708, 84.1344746068543)
"""Percentiles that enclose 68.27 %, the probability of one Gaussian standard deviation."""


@dataclass(frozen=True)
class Prediction:
    """x f at one scale.

    Attributes
    ----------
    x
        Momentum fractions (x,).
    Q
        Scale [GeV].
    flavour
        Names (flavour,).
    replicas
        x f, dimensionless, (replica, flavour, x).
    """

    x: np.ndarray
    Q: float
    flavour: tuple[str, ...]
    replicas: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """Mean over replicas (flavour, x): the central member."""
        return self.replicas.mean(axis=0)

    @property
    def sd(self) -> np.ndarray:
        """Standard deviation over replicas (flavour, x); 0 for a single replica."""
        count = len(self.replicas)
        return self.replicas.std(axis=0, ddof=1) if count > 1 else np.zeros(self.replicas.shape[1:])

    @property
    def lower(self) -> np.ndarray:
        """Lower end of the central 68 % interval (flavour, x)."""
        return np.percentile(self.replicas, LEVEL[0], axis=0)

    @property
    def upper(self) -> np.ndarray:
        """Upper end of the central 68 % interval (flavour, x)."""
        return np.percentile(self.replicas, LEVEL[1], axis=0)

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per flavour and x: flavour, x, Q, mean, sd, lower, upper."""
        names, xs = np.repeat(self.flavour, len(self.x)), np.tile(self.x, len(self.flavour))
        columns = {k: getattr(self, k).ravel() for k in ("mean", "sd", "lower", "upper")}
        return pd.DataFrame({"flavour": names, "x": xs, "Q": self.Q} | columns)

    def to_xarray(self) -> xr.DataArray:
        """Return the replicas as a DataArray (replica, flavour, x)."""
        coordinates = {FLAVOUR: list(self.flavour), X: self.x}
        return xr.DataArray(
            self.replicas, dims=(REPLICA, FLAVOUR, X), coords=coordinates, name="xf",
            attrs={"Q": self.Q, "long_name": "x f(x, Q)", "units": "1"},
        )  # fmt: skip
