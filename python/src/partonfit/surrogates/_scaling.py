"""Normalisation of inputs and outputs, and what it makes of derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Scaling:
    """Means and standard deviations of states (state,) and observations (observation,)."""

    state_mean: np.ndarray
    state_sd: np.ndarray
    obs_mean: np.ndarray
    obs_sd: np.ndarray

    def inward(self, kind: str, v: np.ndarray) -> np.ndarray:
        """Return a physical direction or dy for a scaled one: dx = sd dx', dy = dy' / sd."""
        return v * self.state_sd if kind == "tangent_linear" else v / self.obs_sd

    def outward(self, kind: str, v: np.ndarray) -> np.ndarray:
        """Return the scaled derivative for a physical one: dy' = dy / sd, dx' = sd dx."""
        return v / self.obs_sd if kind == "tangent_linear" else v * self.state_sd


def scaling_of(x: np.ndarray, y: np.ndarray) -> Scaling:
    """Return the scaling of states (sample, state) and observations (sample, observation).

    An element that is the same in all samples has no spread of its own and gets the typical one.
    """
    return Scaling(x.mean(axis=0), _spread(x), y.mean(axis=0), _spread(y))


def _spread(a: np.ndarray) -> np.ndarray:
    sd = a.std(axis=0)
    typical = float(np.sqrt(np.mean(sd**2)))
    flat = sd <= 1e-6 * typical
    return np.where(flat, typical if typical > 0 else 1.0, sd)
