"""What the R package calls for derivatives with respect to inputs, and for random keys."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

import partonfit as pf
from partonfit._bridge_fits import recall
from partonfit._bridge_operators import Handle
from partonfit._errors import SettingError
from partonfit._precision import keras_floatx, precision_context
from partonfit._vocabulary import FITTED, rotation, to_evolution

# --- value and gradient ------------------------------------------------------------------------------


def value_and_grad(function: Callable[[Any], Any], x: Any, precision: str = "float64") -> dict[str, Any]:
    """Return ``value`` and ``gradient`` of a function of one JAX array, or of a list or dictionary of them."""
    with precision_context(precision), keras_floatx(precision):
        at = jax.tree.map(lambda leaf: jnp.asarray(np.ascontiguousarray(leaf), dtype=precision), x)
        value, gradient = jax.value_and_grad(lambda v: jnp.reshape(jnp.asarray(function(v)), ()))(at)
        return {"value": float(value), "gradient": jax.tree.map(lambda g: np.asarray(g, dtype=float), gradient)}


def model_weights(model: Any) -> list[np.ndarray]:
    """Return the trainable weights of a Keras model as arrays, in Keras' order."""
    return [np.asarray(variable.value, dtype=float) for variable in model.trainable_variables]


def call_model(model: Any, weights: Sequence[Any], x: Any) -> Any:
    """Return a model's outputs at given trainable weights, JAX arrays in and out."""
    states = [variable.value for variable in model.non_trainable_variables]
    return model.stateless_call(list(weights), states, x, training=False)[0]


# --- derivatives with respect to inputs ---------------------------------------------------------------


def pdf_slopes(name: str, x: np.ndarray, flavour: Sequence[str]) -> np.ndarray:
    """Return d(x f)/dx at Q0 for rows of (x, flavour) and every kept replica (row, kept replica)."""
    fit = recall(name)
    weights = fit.weights
    network = keras.saving.deserialize_keras_object(json.loads(weights.model), safe_mode=True)
    points, at = np.unique(np.asarray(x, dtype=float), return_inverse=True)
    names, which = np.unique(np.asarray(flavour, dtype=str), return_inverse=True)
    kept = np.flatnonzero(fit.kept)

    def one(trainable: Any, non_trainable: Any, v: Any) -> Any:
        def evaluated(v: Any) -> Any:
            return network.stateless_call(list(trainable), list(non_trainable), v, training=False)[0]

        # Each row depends on its own x only: one direction of ones gives all slopes.
        return jax.jvp(evaluated, (v,), (jnp.ones_like(v),))[1]

    with precision_context(weights.precision), keras_floatx(weights.precision):
        v = jnp.asarray(points[:, None], dtype=weights.precision)
        chosen = tuple(tuple(leaf[kept] for leaf in group) for group in (weights.trainable, weights.non_trainable))
        slopes = np.asarray(jax.jit(jax.vmap(one, in_axes=(0, 0, None)))(*chosen, v), dtype=float)
    turn = rotation(tuple(str(n) for n in names)) @ to_evolution()
    values = np.einsum("fk,rxk->rfx", turn, slopes)
    return np.ascontiguousarray(values[:, which, at].T)


def prediction_slopes(name: str, points: Sequence[int]) -> dict[str, Any]:
    """Return how predictions change with x f on the grid of the theory, at the fit's central PDF.

    Parameters
    ----------
    name
        Id of a fit that is loaded.
    points
        Numbers of data points, from 0.

    Returns
    -------
    dict
        ``x`` and ``flavour`` of the grid, and ``slopes`` (point, flavour * x).
    """
    fit = recall(name)
    forward = fit.forward
    if not hasattr(forward, "points") and not hasattr(forward, "nonlinear_matrix"):
        msg = "This fit was made through an operator: ask the operator for its adjoint."
        raise SettingError(msg)
    op = pf.theory_operator(forward, basis="fitted")
    central = np.linalg.lstsq(to_evolution(), np.asarray(fit(forward.x), dtype=float), rcond=None)[0]
    chosen = np.zeros((len(points), op.n_obs))
    chosen[np.arange(len(points)), np.asarray(points, dtype=int)] = 1.0
    state = np.ascontiguousarray(central.reshape(-1))
    adjoint: Any = op.adjoint
    slopes = np.array([np.asarray(adjoint(state, row), dtype=float) for row in chosen])
    return {
        "flavour": np.repeat(FITTED, len(forward.x)).tolist(),
        "x": np.tile(np.asarray(forward.x, dtype=float), len(FITTED)),
        "slopes": np.ascontiguousarray(slopes),
    }


def model_slopes(source: Any, x: np.ndarray, output: int) -> np.ndarray:
    """Return d(output)/d(input) for every sample and member (member, sample, ...).

    ``source`` is the handle of a training, of a surrogate (as an operator), or a Keras model.
    """
    thing = source.value if isinstance(source, Handle) else source
    x = np.ascontiguousarray(x, dtype=float)
    if isinstance(thing, keras.Model):
        precision, models = keras.backend.standardize_dtype(thing.trainable_variables[0].dtype), [None]
        values: Any = [([v.value for v in thing.trainable_variables], [v.value for v in thing.non_trainable_variables])]
        network = thing
    else:
        precision, models, network = thing.precision, thing.status, thing._model
        values = [thing.values(member) for member in range(len(models))]

    with precision_context(precision), keras_floatx(precision):
        at = jnp.asarray(x, dtype=precision)

        def total(trainable: Any, non_trainable: Any, v: Any) -> Any:
            answer = network.stateless_call(list(trainable), list(non_trainable), v, training=False)[0]
            if not 0 <= output < answer.shape[-1]:
                msg = f"output is {output + 1}, but the model has {answer.shape[-1]} outputs."
                raise SettingError(msg)
            # Samples do not mix outside of training, so the gradient of the sum is that of each.
            return jnp.sum(answer[..., output])

        slopes = jax.jit(jax.grad(total, argnums=2))
        return np.ascontiguousarray(np.stack([np.asarray(slopes(*v, at), dtype=float) for v in values]))


# --- random keys -------------------------------------------------------------------------------------


def _key(words: Sequence[float]) -> Any:
    return jax.random.wrap_key_data(jnp.asarray(np.asarray(words, dtype=np.uint32)))


def _words(key: Any) -> np.ndarray:
    return np.ascontiguousarray(np.asarray(jax.random.key_data(key)), dtype=float)


def key_of(seed: int) -> np.ndarray:
    """Return the two words of the JAX key of a seed (R keeps them as numbers)."""
    return _words(jax.random.key(int(seed)))


def split_key(words: Sequence[float], count: int) -> np.ndarray:
    """Return the words of ``count`` keys (key, 2)."""
    return _words(jax.random.split(_key(words), int(count)))


def fold_in(words: Sequence[float], number: int) -> np.ndarray:
    """Return the words of the key for one number, of a member or a step."""
    return _words(jax.random.fold_in(_key(words), int(number)))


def draw(words: Sequence[float], kind: str, shape: Sequence[int]) -> np.ndarray:
    """Return float64 numbers drawn with a key: ``"normal"`` or ``"uniform"``."""
    with precision_context("float64"):
        drawn = getattr(jax.random, kind)(_key(words), tuple(int(n) for n in shape), dtype="float64")
        return np.ascontiguousarray(np.asarray(drawn))


def jax_key(words: Sequence[float]) -> Any:
    """Return the key itself, for functions of JAX."""
    return _key(words)
