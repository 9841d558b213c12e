"""PDF fits through a black box: the predictions come from an operator instead of theory tables.

The operator sees x f on a grid and returns predictions for the data. Nothing of it is compressed: a
step asks it for the predictions of every replica of a block, and for one adjoint each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import keras
import numpy as np
from scipy.linalg import cholesky, solve_triangular

from partonfit._errors import SettingError
from partonfit._precision import precision_context
from partonfit._vocabulary import EVOLUTION, FITTED, completion
from partonfit.data import Data, TheoryCovariance
from partonfit.inference._control import FitControl
from partonfit.inference._monte_carlo import Replicas, fitting_covariance, train_replicas
from partonfit.operators import wrap_operator
from partonfit.training import Evaluation, Progress, TrainResult, check_precision, my_members
from partonfit.training._keras import differs_in_training


@dataclass(frozen=True, eq=False)
class BlackBox:
    """An operator in the place of a forward map; :func:`black_box` makes it.

    Attributes
    ----------
    operator
        Wrapped, from x f (flavour * x,) to predictions (data,).
    x
        Its grid (x,).
    basis
        "evolution" or "fitted": the combinations that it takes.
    name, hash
        What it is called, and a text that identifies it.
    """

    operator: Any = field(repr=False)
    x: np.ndarray
    basis: str
    name: str
    hash: str

    @property
    def n_data(self) -> int:
        """Number of data points."""
        return self.operator.n_obs

    def predict(self, xf: np.ndarray) -> np.ndarray:
        """Return predictions (..., data) for x f (..., 14, x) in the evolution basis."""
        xf = np.asarray(xf, dtype=np.float64)
        if self.basis == "fitted":
            xf = xf[..., [EVOLUTION.index(flavour) for flavour in FITTED], :]
        with precision_context("float64"):
            return np.asarray(self.operator.forward(xf.reshape(*xf.shape[:-2], -1)))


def black_box(op: Any, grid: Any, data: Data) -> BlackBox:
    """Return ``op`` as the theory of ``data``.

    Raises
    ------
    SettingError
        When the grid is missing or not within (0, 1], or sizes do not agree.
    """
    if grid is None:
        msg = "operator= needs grid=, the values of x at which it takes x f."
        raise SettingError(msg)
    x = np.array(grid, dtype=np.float64)
    if x.ndim != 1 or not len(x) or not ((x > 0) & (x <= 1)).all():
        msg = f"grid must hold values of x in (0, 1], one axis, not shape {x.shape}."
        raise SettingError(msg)
    # A replica that diverged must not end the others.
    h = wrap_operator(op, nonfinite="nan")
    bases = {len(EVOLUTION) * len(x): "evolution", len(FITTED) * len(x): "fitted"}
    if h.n_state not in bases:
        msg = (
            f"With {len(x)} points in x the operator must take {len(EVOLUTION)} x {len(x)} numbers (x f of the "
            f"evolution basis, flattened) or {len(FITTED)} x {len(x)} (of the fitted combinations), not {h.n_state}."
        )
        raise SettingError(msg)
    if h.n_obs != data.n_data:
        msg = f"The operator gives {h.n_obs} predictions, but there are {data.n_data} data points after cuts."
        raise SettingError(msg)
    name = getattr(op, "name", type(op).__name__)
    content = getattr(op, "key", None) or name
    digest = hashlib.sha256(f"black box {content}".encode() + x.tobytes()).hexdigest()
    return BlackBox(h, x, bases[h.n_state], f"operator: {name}", digest)


class Residuals(NamedTuple):
    """Grid, pseudodata and whitening of one replica (or, stacked, of several)."""

    x: Any
    target: Any
    training: Any
    validation: Any
    validation_points: Any


def make_black_box_objective(
    model: keras.Model, box: BlackBox, threshold: float | None
) -> Callable[[Any, Any, Residuals, Any, Any], Evaluation]:
    """Return the loss of one replica: chi2 of its training points, predictions by the operator.

    Parameters
    ----------
    model
        Built Keras model from x (x, 1) to x f (x, fitted).
    box
        The operator on its grid.
    threshold
        Validation chi2 per point below which weights may count as best (``None``: always).
    """
    rotation = completion(model)
    if box.basis == "fitted":
        rotation = rotation[[EVOLUTION.index(flavour) for flavour in FITTED]]

    # Weights are judged as they will be used: without what only training does (dropout).
    apart = differs_in_training(model)

    def objective(trainable: Any, non_trainable: Any, own: Residuals, shared: Any, epoch: Any) -> Evaluation:
        called: Any = model.stateless_call(
            list(trainable), list(non_trainable), own.x, training=True, return_losses=True
        )
        xf, updated, losses = called

        def miss(xf: Any) -> Any:
            return box.operator.forward((jnp.asarray(rotation, xf.dtype) @ xf.T).reshape(-1)) - own.target

        residual = miss(xf)
        loss = chi2 = jnp.sum((own.training @ residual) ** 2)
        if apart:
            still: Any = model.stateless_call(list(trainable), list(non_trainable), own.x, training=False)
            residual = jax.lax.stop_gradient(miss(still[0]))
            chi2 = jnp.sum((own.training @ residual) ** 2)
        held = jnp.sum((own.validation @ jax.lax.stop_gradient(residual)) ** 2)
        # With nothing held out, the training points decide.
        validation = jnp.where(jnp.any(own.validation != 0), held, jax.lax.stop_gradient(chi2))
        below = True if threshold is None else validation / own.validation_points < threshold
        return Evaluation(loss + sum(losses), validation, below, tuple(updated))

    return objective


def _residuals(
    x: np.ndarray, covariance: np.ndarray, modes: np.ndarray | None, replicas: Replicas, rows: Any, precision: str
) -> Residuals:
    def whitening(mask: np.ndarray) -> np.ndarray:
        return _whitening(covariance, mask) if modes is None else modes * mask[:, None]

    each = []
    for values, training in zip(replicas.pseudodata[rows], replicas.training[rows], strict=True):
        points = int((~training).sum()) or len(training)
        parts = (x[:, None], values, whitening(training), whitening(~training), points)
        each.append(Residuals._make(np.asarray(part, dtype=precision) for part in parts))
    return jax.tree.map(lambda *leaves: np.stack(leaves), *each)


def _whitening(covariance: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return W (data, data) with |W r|^2 the chi2 of the points in ``mask``."""
    result = np.zeros_like(covariance)
    if mask.any():
        block = np.ix_(mask, mask)
        result[block] = solve_triangular(cholesky(covariance[block], lower=True), np.eye(int(mask.sum())), lower=True)
    return result


def fit_black_box(
    data: Data,
    box: BlackBox,
    t0: np.ndarray | None,
    model: keras.Model,
    replicas: Replicas,
    seed: int,
    control: FitControl,
    progress: Progress | None,
    theory: TheoryCovariance | None = None,
    **loop: Any,
) -> TrainResult:
    """Fit one replica of ``model`` to each of the drawn ``replicas`` through an operator.

    Arguments as for :func:`fit_replicas`, ``box`` in the place of the forward map.
    """
    mine, precision = my_members(len(replicas)), control.precision
    check_precision(model, precision)
    covariance, modes = fitting_covariance(data, t0, control, theory)
    members = _residuals(box.x, covariance, modes, replicas, mine, precision)
    objective = make_black_box_objective(model, box, control.threshold_chi2)
    return train_replicas(model, objective, members, None, len(replicas), seed, control, progress, **loop)
