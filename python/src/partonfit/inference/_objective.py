"""The loss of a PDF replica as a pure function, for the training engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import keras
import numpy as np

from partonfit.inference._compression import Compression, QuadraticForm
from partonfit.training import Evaluation

if TYPE_CHECKING:
    from partonfit.inference._constraints import Penalty


class ReplicaForms(NamedTuple):
    """Grid, quadratic forms and counts of one replica (or, stacked, of several).

    Every replica has the grid x for itself: were it shared, the first layer's batched product would
    come out with the replica in the middle axis, and the whole network would be transposed twice.
    """

    x: Any
    training_matrix: Any
    training_vector: Any
    training_constant: Any
    validation_matrix: Any
    validation_vector: Any
    validation_constant: Any
    validation_points: Any


class Shared(NamedTuple):
    """Arrays that every replica sees; a matrix comes with its transpose, see :func:`through`."""

    reference_xf: Any
    project: Any
    project_transposed: Any
    spread: Any
    spread_transposed: Any
    reference_rows: Any
    reference_points: Any
    constraints: Any = None


def replica_forms(
    x: np.ndarray, training: QuadraticForm, validation: QuadraticForm, points: int, precision: str
) -> ReplicaForms:
    """Return the forms of one replica in the precision of the fit."""
    parts = (x[:, None], *training, *validation, points)
    return ReplicaForms._make(np.asarray(part, dtype=precision) for part in parts)


def shared_arrays(compression: Compression, precision: str) -> Shared:
    """Return what the objective needs of the compression, in the precision of the fit."""

    def cast(array: np.ndarray | None) -> np.ndarray | None:
        return None if array is None else np.asarray(array, dtype=precision)

    def both(matrix: np.ndarray | None) -> tuple[np.ndarray | None, np.ndarray | None]:
        return cast(matrix), None if matrix is None else np.ascontiguousarray(cast(matrix).T)

    return Shared(
        cast(compression.reference_xf),
        *both(compression.project),
        *both(compression.spread),
        cast(compression.reference_rows),
        cast(compression.reference_points),
    )


@jax.custom_vjp
def through(vector: Any, matrix: Any, transposed: Any) -> Any:
    """Return vector @ matrix, whose gradient is a product with the stored transpose.

    Without it XLA transposes the matrix anew in every step, which costs more than the product.
    """
    return vector @ matrix


through.defvjp(lambda v, m, t: (v @ m, t), lambda t, cotangent: (cotangent @ t, None, None))


@jax.custom_vjp
def quadratic(features: Any, matrix: Any, vector: Any) -> Any:
    """Return f^T M f - 2 v^T f; value and gradient share one product with the symmetric M."""
    return _quadratic_forward(features, matrix, vector)[0]


def _quadratic_forward(features: Any, matrix: Any, vector: Any) -> tuple[Any, Any]:
    half_gradient = matrix @ features - vector
    return features @ (half_gradient - vector), half_gradient


def _quadratic_backward(half_gradient: Any, cotangent: Any) -> tuple[Any, None, None]:
    # Matrix and vector are data: nothing differentiates with respect to them.
    return 2 * cotangent * half_gradient, None, None


quadratic.defvjp(_quadratic_forward, _quadratic_backward)


def make_objective(
    model: keras.Model, compression: Compression, threshold: float | None, penalty: Penalty | None = None
) -> Callable[[Any, Any, ReplicaForms, Shared, Any], Evaluation]:
    """Return the loss of one replica: chi2 of its training points (not divided by their number).

    Parameters
    ----------
    model
        Built Keras model from x (x, 1) to x f (x, fitted).
    compression
        Only its structure is used here; the arrays arrive as ``shared``.
    threshold
        Validation chi2 per point below which weights may count as best (``None``: always).
    penalty
        Positivity and integrability, added to the loss; its arrays are ``shared.constraints``.
    """
    nonlinear_points = compression.forward.nonlinear_points if compression.spread is not None else None

    def objective(trainable: Any, non_trainable: Any, forms: ReplicaForms, shared: Shared, epoch: Any) -> Evaluation:
        called: Any = model.stateless_call(
            list(trainable), list(non_trainable), forms.x, training=True, return_losses=True
        )
        xf, updated, losses = called
        features = through((xf - shared.reference_xf).reshape(-1), shared.project, shared.project_transposed)
        if nonlinear_points is not None:
            rows = shared.reference_rows + through(features, shared.spread, shared.spread_transposed)
            features = jnp.concatenate([features, nonlinear_points(rows) - shared.reference_points])
        chi2 = quadratic(features, forms.training_matrix, forms.training_vector) + forms.training_constant
        held = jax.lax.stop_gradient(features)
        validation = held @ (forms.validation_matrix @ held - 2 * forms.validation_vector)
        # With nothing held out the form is zero, and the training chi2 decides.
        validation = jnp.where(
            forms.validation_constant > 0, validation + forms.validation_constant, jax.lax.stop_gradient(chi2)
        )
        below = True if threshold is None else validation / forms.validation_points < threshold
        loss = chi2 + sum(losses)
        if penalty is not None:
            extra = penalty(xf, shared.constraints, epoch)
            loss, validation, below = loss + extra.training, validation + extra.validation, below & extra.passed
        return Evaluation(loss, validation, below, tuple(updated))

    return objective
