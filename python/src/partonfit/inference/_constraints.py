"""Positivity and integrability in the loss of a fit.

With O the points of an observable and lambda its multiplier (NNPDF4.0, arXiv:2109.02653, sections 3.1.3 and 3.1.4)::

    positivity      sum elu(-lambda O),     elu(t) = t for t > 0, else 1e-7 (exp(t) - 1)
    integrability   sum (lambda x q)^2      at the smallest x

As in the published code, the multiplier stands inside: for negative O this is lambda |O|, as in the paper, and
for positive O it stays between -1e-7 and 0 however large lambda grows. Multipliers start small and grow every
100 epochs by the factor that reaches their maximum at the last epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from partonfit._checks import real
from partonfit._vocabulary import to_evolution
from partonfit.data import Constraint
from partonfit.inference._products import through
from partonfit.theory import ForwardMap

ALPHA = 1e-7
"""Depth of the elu function for positive observables."""

GROW_EVERY = 100
"""Epochs between two steps of the multipliers."""


@dataclass(frozen=True)
class Multipliers:
    """How the multipliers of one kind of constraint grow.

    Attributes
    ----------
    initial
        At the first epoch; ``None``: what reaches the maximum with ``growth``, or 1.
    growth
        Factor every 100 epochs; ``None``: what reaches the maximum at the last epoch.
    """

    initial: float | None
    growth: float | None = None

    def schedule(self, maximum: float, epochs: int) -> tuple[float, float]:
        """Return the initial multiplier and its factor per step for an observable.

        Examples
        --------
        >>> Multipliers(10.0).schedule(1000.0, 200)
        (10.0, 10.0)
        >>> Multipliers(None, 2.0).schedule(1000.0, 200)
        (250.0, 2.0)
        """
        steps = max(epochs // GROW_EVERY, 1)
        if maximum == 0:
            return 0.0, 1.0
        if self.growth is None:
            initial = 1.0 if self.initial is None else self.initial
            return initial, (maximum / initial) ** (1 / steps)
        initial = maximum / self.growth**steps if self.initial is None else self.initial
        return initial, self.growth


class PenaltyArrays(NamedTuple):
    """What the penalty needs in the precision of the fit; all replicas share it.

    ``linear`` (x * fitted, point) gives the linear points from the flattened x f (x, fitted), and
    ``features`` (part of x * fitted, feature) what the others are made of, each with its transpose;
    the last three are (point,), linear points first, and (point, positivity observable).
    """

    linear: Any
    linear_transposed: Any
    features: Any
    features_transposed: Any
    initial: Any
    log_growth: Any
    members: Any


class PenaltyValue(NamedTuple):
    """The penalty of one replica: in the training and in the validation loss, and whether positivity holds."""

    training: Any
    validation: Any
    passed: Any


@dataclass(frozen=True, eq=False)
class Penalty:
    """Positivity and integrability of a PDF as pure functions; made by :func:`make_penalty`.

    Attributes
    ----------
    names, kinds
        Of the observables, in the order given.
    forward
        Their theory map on the grid of the network, with its quadratic rows reduced.
    observable
        For each point, in the order of the map, its observable (point,).
    initial, growth
        Multipliers at the start and their factor per step (observable,).
    threshold
        Largest loss of a positivity observable at which it counts as satisfied.
    completion
        (14, fitted) from what the network gives to the evolution basis.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    forward: ForwardMap
    observable: np.ndarray = field(repr=False)
    initial: np.ndarray = field(repr=False)
    growth: np.ndarray = field(repr=False)
    threshold: float
    completion: np.ndarray = field(default_factory=to_evolution, repr=False)

    @cached_property
    def positive(self) -> np.ndarray:
        """Which observables are positivity observables (observable,)."""
        return np.array([kind == "positivity" for kind in self.kinds])

    def arrays(self, precision: str) -> PenaltyArrays:
        """Return the arrays that :meth:`__call__` takes."""
        completion = self.completion
        points = self._order
        owner = self.observable[points]
        linear = np.einsum("pkx,kf->xfp", self.forward.linear_matrix()[self.forward.linear], completion)
        features = np.zeros((0, 0))
        if not self.forward.linear.all():
            features = np.einsum("pkx,kf->xfp", self.forward.nonlinear_matrix(), completion)
            features = features.reshape(-1, features.shape[2])[self._first * completion.shape[1] :]
        members = (owner[:, None] == np.flatnonzero(self.positive)).astype(float)
        linear = linear.reshape(-1, linear.shape[2])
        parts = (
            linear,
            linear.T,
            features,
            features.T,
            self.initial[owner],
            np.log(self.growth)[owner],
            members,
        )
        return PenaltyArrays._make(np.ascontiguousarray(part, dtype=precision) for part in parts)

    def __call__(self, xf: Any, arrays: PenaltyArrays, epoch: Any) -> PenaltyValue:
        """Return the penalty of one replica.

        Parameters
        ----------
        xf
            x f of the fitted combinations on the network's grid (x, fitted).
        arrays
            From :meth:`arrays`.
        epoch
            Number of the epoch, from 0 (scalar).
        """
        flat = xf.reshape(-1)
        points = through(flat, arrays.linear, arrays.linear_transposed)
        if not self.forward.linear.all():
            upper = flat[self._first * xf.shape[-1] :]
            legs = through(upper, arrays.features, arrays.features_transposed)
            points = jnp.concatenate([points, self.forward.nonlinear_points(legs)])
        steps = (epoch // GROW_EVERY).astype(points.dtype)
        scaled = arrays.initial * jnp.exp(arrays.log_growth * steps) * points
        positive = self._positive_points
        losses = jnp.where(positive, elu(-scaled), scaled * scaled)
        observables = jax.lax.stop_gradient(losses) @ arrays.members
        return PenaltyValue(jnp.sum(losses), jnp.sum(observables), jnp.all(observables < self.threshold))

    def losses(self, xf: np.ndarray, epoch: np.ndarray) -> np.ndarray:
        """Return the loss (replica, observable) of every observable with the whole tables, in float64.

        Parameters
        ----------
        xf
            x f (replica, 14, x) on the grid of the map.
        epoch
            Epoch that fixes the multipliers of each replica (replica,).
        """
        points = self.forward.predict(xf)
        steps = np.asarray(epoch)[:, None] // GROW_EVERY
        scaled = (self.initial * self.growth**steps)[:, self.observable] * points
        positive = self.positive[self.observable]
        each = np.where(positive, np.where(scaled < 0, -scaled, ALPHA * np.expm1(-np.maximum(scaled, 0))), scaled**2)
        return np.stack([each[:, self.observable == i].sum(axis=1) for i in range(len(self.names))], axis=1)

    def error(self, xf: np.ndarray) -> float:
        """Return the largest error of a reduced point, relative to the whole tables.

        Parameters
        ----------
        xf
            x f (replica, 14, x) of a fit.
        """
        if self.forward.linear.all() or not len(xf):
            return 0.0
        exact = self.forward.predict(xf)[:, ~self.forward.linear]
        features = np.einsum("pkx,rkx->rp", self.forward.nonlinear_matrix(), xf, optimize=True)
        short = self.forward.nonlinear_points(features)
        return float(np.max(np.abs(short - exact) / np.maximum(np.abs(exact), np.finfo(np.float64).tiny)))

    @cached_property
    def _order(self) -> np.ndarray:
        return np.concatenate([np.flatnonzero(self.forward.linear), np.flatnonzero(~self.forward.linear)])

    @cached_property
    def _positive_points(self) -> np.ndarray:
        return self.positive[self.observable[self._order]]

    @cached_property
    def _first(self) -> int:
        """First x point that a nonlinear point depends on."""
        return int(np.flatnonzero(self.forward.nonlinear_matrix().any(axis=(0, 1)))[0])


def elu(t: Any) -> Any:
    """Return t above zero and ``ALPHA (exp(t) - 1)`` below.

    Examples
    --------
    >>> [f"{elu(jnp.asarray(t)):.4g}" for t in (2.0, -0.5)]
    ['2', '-3.935e-08']
    """
    # The exponent is kept from overflowing where the other branch counts: its gradient would be NaN.
    return jnp.where(t > 0, t, ALPHA * jnp.expm1(jnp.minimum(t, 0)))


def make_penalty(
    constraints: Sequence[Constraint],
    forward: ForwardMap,
    reference: Any,
    *,
    epochs: int,
    positivity: Multipliers,
    integrability: Multipliers,
    threshold: float,
    tolerance: float,
    completion: np.ndarray | None = None,
) -> Penalty:
    """Prepare the penalty of a fit.

    Parameters
    ----------
    constraints
        The observables, by :func:`partonfit.data.load_constraints`.
    forward
        The theory map of their datasets on the grid of the network.
    reference
        A pdf callable of typical size, for reducing quadratic rows.
    epochs
        Largest number of epochs, at which the multipliers reach their maxima.
    positivity, integrability
        How multipliers grow.
    threshold
        Largest loss of a positivity observable that counts as satisfied.
    tolerance
        Of the reduction; see :meth:`partonfit.theory.ForwardMap.reduced`.
    completion
        (14, fitted) from what the network gives to the evolution basis; ``None``: the usual eight combinations.

    Examples
    --------
    >>> from partonfit.data import load_constraints
    >>> from partonfit.theory import forward_map, load_theory
    >>> constraints = load_constraints()
    >>> forward = forward_map([c.dataset for c in constraints], load_theory("tables"))  # doctest: +SKIP
    >>> penalty = make_penalty(constraints, forward, ...)  # doctest: +SKIP
    """
    completion = to_evolution() if completion is None else completion
    both = {"positivity": positivity, "integrability": integrability}
    schedules = [both[c.kind].schedule(c.max_lambda, epochs) for c in constraints]
    initial, growth = (np.array(column) for column in zip(*schedules, strict=True))
    return Penalty(
        names=tuple(c.dataset.name for c in constraints),
        kinds=tuple(c.kind for c in constraints),
        forward=forward.reduced(np.asarray(reference(forward.x)), completion, tolerance),
        observable=np.repeat(np.arange(len(constraints)), [c.dataset.n_data for c in constraints]),
        initial=initial,
        growth=growth,
        threshold=real("positivity_threshold", threshold, above=0),
        completion=completion,
    )
