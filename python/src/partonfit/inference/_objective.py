"""The loss of a PDF replica as a pure function, for the training engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import keras
import numpy as np

from partonfit.inference._compression import Compression, QuadraticForm
from partonfit.inference._constraints import Penalty
from partonfit.inference._products import picked, quadratic, through
from partonfit.training import Evaluation
from partonfit.training._keras import differs_in_training


class ReplicaForms(NamedTuple):
    """Grid, quadratic forms and counts of one replica (or, stacked, of several).

    Every replica has the grid x for itself: were it shared, the first layer's batched product would
    come out with the replica in the middle axis, and the whole network would be transposed twice.

    A form's features are the linear ones and those nonlinear points that its set of points holds: for
    the others its rows would be zero. ``training_picks`` and ``validation_picks`` say which they are,
    ``training_places`` where each nonlinear point went (one past the end: nowhere).
    """

    x: Any
    training_matrix: Any
    training_vector: Any
    training_constant: Any
    training_picks: Any
    training_places: Any
    validation_matrix: Any
    validation_vector: Any
    validation_constant: Any
    validation_picks: Any
    validation_points: Any


class Shared(NamedTuple):
    """Arrays that every replica sees; a matrix comes with its transpose, for ``through``."""

    reference_xf: Any
    project: Any
    project_transposed: Any
    spread: Any
    spread_transposed: Any
    reference_rows: Any
    reference_points: Any
    constraints: Any = None


def replica_forms(
    compression: Compression, values: np.ndarray, training: np.ndarray, sizes: tuple[int, int], precision: str
) -> ReplicaForms:
    """Return the forms of one replica in the precision of the fit.

    Parameters
    ----------
    values, training
        Pseudodata and mask of the training points, or modes (data,).
    sizes
        Largest number of nonlinear points that any replica has in its training and validation set.
    """

    def cast(*parts: Any) -> list[np.ndarray]:
        return [np.asarray(part, dtype=precision) for part in parts]

    inside, validation = compression.forms(values, training)
    sets = compression.nonlinear_sets(training)
    picks = np.flatnonzero(sets[0]), np.flatnonzero(sets[1])
    places = np.full(len(sets[0]), sizes[0])
    places[picks[0]] = np.arange(len(picks[0]))
    # With nothing held out, the training points decide.
    points = int((~training).sum()) or len(training)
    parts = [
        *cast(compression.forward.x[:, None]),
        *cast(*_restricted(inside, compression.rank, picks[0], sizes[0])),
        _padded(picks[0], sizes[0]),
        places.astype(np.int32),
        *cast(*_restricted(validation, compression.rank, picks[1], sizes[1])),
        _padded(picks[1], sizes[1]),
        *cast(points),
    ]
    return ReplicaForms._make(parts)


def _restricted(form: QuadraticForm, rank: int, picks: np.ndarray, size: int) -> QuadraticForm:
    """Return a form of the linear features and the picked nonlinear points, zero rows up to ``size``."""
    chosen = np.concatenate([np.arange(rank), rank + picks])
    extra = size - len(picks)
    return QuadraticForm(
        np.pad(form.matrix[np.ix_(chosen, chosen)], (0, extra)), np.pad(form.vector[chosen], (0, extra)), form.constant
    )


def _padded(picks: np.ndarray, size: int) -> np.ndarray:
    return np.pad(picks, (0, size - len(picks))).astype(np.int32)


def shared_arrays(compression: Compression, precision: str) -> Shared:
    """Return what the objective needs of the compression, in the precision of the fit."""

    def cast(array: np.ndarray | None) -> np.ndarray | None:
        return None if array is None else np.asarray(array, dtype=precision)

    def both(matrix: np.ndarray | None) -> tuple[np.ndarray | None, np.ndarray | None]:
        return cast(matrix), None if matrix is None else np.ascontiguousarray(matrix.T, dtype=precision)

    return Shared(
        cast(compression.reference_xf),
        *both(compression.project),
        *both(compression.spread),
        cast(compression.reference_rows),
        cast(compression.reference_points),
    )


class Held(NamedTuple):
    """What the validation chi2 of one epoch is made from: see :func:`make_judge`."""

    features: Any
    chi2: Any
    extra: Any


def make_objective(
    model: keras.Model, compression: Compression, penalty: Penalty | None = None
) -> Callable[[Any, Any, ReplicaForms, Shared, Any], Evaluation]:
    """Return the loss of one replica: chi2 of its training points (not divided by their number).

    Parameters
    ----------
    model
        Built Keras model from x (x, 1) to x f (x, fitted).
    compression
        Only its structure is used here; the arrays arrive as ``shared``.
    penalty
        Positivity and integrability, added to the loss; its arrays are ``shared.constraints``.
    """
    nonlinear_points = compression.forward.nonlinear_points if compression.spread is not None else None
    # Weights are judged as they will be used: without what only training does (dropout).
    apart = differs_in_training(model)

    def seen(xf: Any, shared: Shared) -> tuple[Any, Any]:
        features = through((xf - shared.reference_xf).reshape(-1), shared.project, shared.project_transposed)
        if nonlinear_points is None:
            return features, None
        rows = shared.reference_rows + through(features, shared.spread, shared.spread_transposed)
        return features, nonlinear_points(rows) - shared.reference_points

    def training_chi2(features: Any, points: Any, forms: ReplicaForms) -> Any:
        if points is not None:
            features = jnp.concatenate([features, picked(points, forms.training_picks, forms.training_places)])
        return quadratic(features, forms.training_matrix, forms.training_vector) + forms.training_constant

    def objective(trainable: Any, non_trainable: Any, forms: ReplicaForms, shared: Shared, epoch: Any) -> Evaluation:
        called: Any = model.stateless_call(
            list(trainable), list(non_trainable), forms.x, training=True, return_losses=True
        )
        xf, updated, losses = called
        features, points = seen(xf, shared)
        chi2 = training_chi2(features, points, forms)
        loss, found = chi2 + sum(losses), None
        if penalty is not None:
            found = penalty(xf, shared.constraints, epoch)
            loss = loss + found.training
        if apart:
            still: Any = model.stateless_call(list(trainable), list(non_trainable), forms.x, training=False)
            features, points = seen(still[0], shared)
            chi2 = training_chi2(features, points, forms)
            found = None if penalty is None else penalty(still[0], shared.constraints, epoch)
        held = features if points is None else jnp.concatenate([features, points[forms.validation_picks]])
        extra, passed = (0.0, True) if found is None else (found.validation, found.passed)
        return Evaluation(loss, Held(held, chi2, extra), passed, tuple(updated))

    return objective


def make_judge(threshold: float | None) -> Callable[[Evaluation, ReplicaForms, Shared], tuple[Any, Any]]:
    """Return the judge of :func:`make_objective`: (validation chi2 and penalties, whether they pass).

    Parameters
    ----------
    threshold
        Validation chi2 per point below which weights may count as best (``None``: always).
    """

    def judge(evaluation: Evaluation, forms: ReplicaForms, shared: Shared) -> tuple[Any, Any]:
        held: Held = evaluation.validation
        chi2 = (held.features @ forms.validation_matrix - 2 * forms.validation_vector) @ held.features
        # With nothing held out the form is zero, and the training chi2 decides.
        chi2 = jnp.where(forms.validation_constant > 0, chi2 + forms.validation_constant, held.chi2)
        below = True if threshold is None else chi2 / forms.validation_points < threshold
        return chi2 + held.extra, evaluation.passed & below

    return judge
