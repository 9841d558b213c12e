"""Networks of a surrogate as pure functions of explicit weights, in either precision."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from partonfit._checks import whole
from partonfit._errors import SettingError
from partonfit._precision import keras_floatx, precision_context

_HIDDEN = (64, 64)
_TRACING = threading.RLock()


@contextmanager
def tracing(precision: str) -> Iterator[None]:
    """Let one thread at a time trace a network: Keras' default type is global."""
    with _TRACING, precision_context(precision), keras_floatx(precision):
        yield


def default_network(
    n_state: int, n_obs: int, hidden: tuple[int, ...] = _HIDDEN, *, linear: bool = False
) -> keras.Model:
    """Return the network of a surrogate: hidden swish layers beside a linear path.

    The linear path takes what is nearly linear, the layers learn the rest. An operator that says it is
    linear gets the linear path alone.
    """
    state = keras.Input((n_state,), name="state")
    straight = keras.layers.Dense(n_obs, name="linear")(state)
    if linear:
        return keras.Model(state, straight)
    v = state
    for i, width in enumerate(hidden):
        v = keras.layers.Dense(whole("hidden", width, least=1), "swish", name=f"hidden_{i}")(v)
    bent = keras.layers.Dense(n_obs, use_bias=False, name="bent")(v)
    return keras.Model(state, keras.layers.Add(name="observations")([straight, bent]))


def checked_network(model: Any, n_state: int, n_obs: int) -> keras.Model:
    """Return ``model`` after checking that it maps (sample, state) to (sample, observation)."""
    if not isinstance(model, keras.Model):
        msg = f"model must be a Keras model, not {type(model).__name__}."
        raise SettingError(msg)
    try:
        shape = model.compute_output_shape((None, n_state)) if not model.built else _built_shape(model, n_state)
    except Exception as error:
        msg = f"The model does not take inputs (sample, {n_state}), one column per element of the state: {error}"
        raise SettingError(msg) from error
    if tuple(shape) != (n_state, n_obs):
        msg = (
            f"The model must map (sample, {n_state}) to (sample, {n_obs}), from states to observations; "
            f"its last axes are {shape[0]} and {shape[1]}."
        )
        raise SettingError(msg)
    return model


def _built_shape(model: keras.Model, n_state: int) -> tuple[Any, Any]:
    if model.inputs is not None and len(model.inputs) == 1 and model.inputs[0].shape[-1] != n_state:
        return model.inputs[0].shape[-1], model.compute_output_shape((None, model.inputs[0].shape[-1]))[-1]
    return n_state, model.compute_output_shape((None, n_state))[-1]


def serialised(model: keras.Model) -> str:
    """Return the Keras description of a model as JSON, after checking that it can be read back."""
    try:
        text = json.dumps(keras.saving.serialize_keras_object(model))
        rebuilt(text, "float32")
    except Exception as error:
        msg = (
            f"The model cannot be described and built again ({type(error).__name__}: {error}). Surrogates need a "
            f"functional or sequential model, or a subclass with get_config() registered with Keras; no lambda layers."
        )
        raise SettingError(msg) from error
    return text


@lru_cache(maxsize=16)
def rebuilt(text: str, precision: str) -> keras.Model:
    """Return the model described by ``text``, with layers that compute in ``precision``."""
    described = _retyped(json.loads(text), precision)
    with tracing(precision):
        # safe_mode refuses lambda layers: a stored surrogate can never bring code of its own.
        return keras.saving.deserialize_keras_object(described, safe_mode=True)


def _retyped(node: Any, precision: str) -> Any:
    """Return a Keras description in which every float type is ``precision``."""
    if isinstance(node, dict):
        if node.get("class_name") == "DTypePolicy":
            return precision
        return {
            k: precision if k == "dtype" and v in ("float32", "float64") else _retyped(v, precision)
            for k, v in node.items()
        }
    return [_retyped(v, precision) for v in node] if isinstance(node, list) else node


def network_function(text: str, precision: str) -> Callable[[Any, Any, Any], Any]:
    """Return ``f(trainable, non_trainable, x)`` of scaled inputs (sample, state), at inference."""
    model = rebuilt(text, precision)
    training = {"training": False} if model._call_has_training_arg else {}

    def apply(trainable: Any, non_trainable: Any, x: Any) -> Any:
        return model.stateless_call(list(trainable), list(non_trainable), x, **training)[0]

    return apply


def cast(leaves: tuple[np.ndarray, ...], precision: str) -> tuple[np.ndarray, ...]:
    """Return weights in ``precision``; counters and seeds keep their types."""
    return tuple(a.astype(precision) if a.dtype.kind == "f" else a for a in leaves)


class Evaluator:
    """A surrogate's networks and scaling as functions of physical states (sample, state).

    A plain class, not a dataclass: it holds compiled functions, which are not values.
    """

    def __init__(self, model: str, weights: Any, scaling: Any, precision: str) -> None:
        self.precision = precision
        self._apply: Any = network_function(model, precision)
        self._weights: Any = tuple(cast(group, precision) for group in weights)
        self._scaling = tuple(
            np.asarray(a, dtype=precision)
            for a in (scaling.state_mean, scaling.state_sd, scaling.obs_mean, scaling.obs_sd)
        )
        functions = {
            "members": self._members, "forward": self.traced, "tangent_linear": self._tangent, "adjoint": self._adjoint
        }  # fmt: skip
        self._jitted = {kind: jax.jit(function) for kind, function in functions.items()}
        self._compiled: dict[Any, Any] = {}

    def __call__(self, kind: str, *arguments: Any) -> np.ndarray:
        """Return the result of "members", "forward", "tangent_linear" or "adjoint" for NumPy arrays, float64."""
        given = [np.asarray(a, dtype=self.precision) for a in arguments]
        key = (kind, *(a.shape for a in given))
        found = self._compiled.get(key)
        if found is None:
            with tracing(self.precision):
                found = self._compiled[key] = self._jitted[kind].lower(*given).compile()
        with precision_context(self.precision):
            return np.asarray(found(*given), dtype=np.float64)

    def _members(self, x: Any) -> Any:
        """Return outputs (member, sample, observation)."""
        state_mean, state_sd, obs_mean, obs_sd = self._scaling
        scaled = (x - state_mean) / state_sd
        outputs = jax.vmap(self._apply, in_axes=(0, 0, None))(*self._weights, scaled)
        return obs_mean + obs_sd * outputs

    def one_by_one(self, x: Any) -> Any:
        """Return the mean as :meth:`traced`, written without a member axis: converters know plain layers best."""
        state_mean, state_sd, obs_mean, obs_sd = self._scaling
        scaled = (x - state_mean) / state_sd
        count = len(self._weights[0][0])
        own: Any = [tuple(tuple(leaf[k] for leaf in group) for group in self._weights) for k in range(count)]
        total = self._apply(*own[0], scaled)
        for each in own[1:]:
            total = total + self._apply(*each, scaled)
        return obs_mean + obs_sd / np.asarray(count, self.precision) * total

    def _tangent(self, x: Any, dx: Any) -> Any:
        return jax.jvp(self.traced, (x,), (dx,))[1]

    def _adjoint(self, x: Any, dy: Any) -> Any:
        return jax.vjp(self.traced, x)[1](dy)[0]

    def traced(self, x: Any) -> Any:
        """Return the mean of the members (sample, observation) as a plain JAX function."""
        return jnp.mean(self._members(x), axis=0)
