"""Functions with parameters in the place of a network: HERAPDF, Les Houches, or a user's own.

A form takes x (x,) and its parameters by name, and returns x f (x,) by name. A parameter with a range
starts anywhere in it, drawn for each replica, and is trained; one with a number is held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import keras
import numpy as np

from partonfit._errors import SettingError, StorageError, nearest
from partonfit.models._limits import EDGE, Within
from partonfit.models._preprocessing import UniformRange

Form = Callable[[Any, dict[str, Any]], Mapping[str, Any]]
Values = dict[str, "float | tuple[float, float]"]


class _Known(NamedTuple):
    form: Form
    basis: str
    parameters: Values
    limits: dict[str, tuple[float, float]]


def power(x: Any, b: Any, c: Any) -> Any:
    """Return x^b (1-x)^c, which at x = 1 is zero with finite slopes."""
    return jnp.exp(b * jnp.log(x) + c * jnp.maximum(jnp.log1p(-x), EDGE))


def _valence(x: Any, total: float, b: Any, c: Any, square: Any = 0.0) -> Any:
    """Return A x^b (1-x)^c (1 + square x^2) with A such that its integral of dx/x is ``total``."""
    beta = jax.scipy.special.betaln
    whole = jnp.exp(beta(b, c + 1)) + square * jnp.exp(beta(b + 2, c + 1))
    return total / whole * power(x, b, c) * (1 + square * x * x)


def herapdf(x: Any, p: dict[str, Any]) -> dict[str, Any]:
    """The form of HERAPDF2.0 (arXiv:1506.06042, eqs. 27 to 31), with charm c = cbar = f_c xUbar.

    A_g is left to the momentum sum rule (A2_g is in units of it), and the valence sum rules fix A_uv
    and A_dv. The sea is symmetric at small x: B_Ubar = B_Dbar and A_Ubar = A_Dbar (1 - f_s).
    """
    up, down = _valence(x, 2.0, p["B_uv"], p["C_uv"], p["E_uv"]), _valence(x, 1.0, p["B_dv"], p["C_dv"])
    sea_d = p["A_Dbar"] * power(x, p["B_Dbar"], p["C_Dbar"])
    sea_u = p["A_Dbar"] * (1 - p["f_s"]) * power(x, p["B_Dbar"], p["C_Ubar"]) * (1 + p["D_Ubar"] * x)
    ubar, dbar, strange, charm = (
        (1 - p["f_c"]) * sea_u, (1 - p["f_s"]) * sea_d, p["f_s"] * sea_d, p["f_c"] * sea_u,
    )  # fmt: skip
    gluon = power(x, p["B_g"], p["C_g"]) - p["A2_g"] * power(x, p["B2_g"], p["C2_g"])
    return {
        "g": gluon, "u": up + ubar, "ubar": ubar, "d": down + dbar, "dbar": dbar, "s": strange, "sbar": strange,
        "c": charm,
    }  # fmt: skip


def les_houches(x: Any, p: dict[str, Any]) -> dict[str, Any]:
    """The form of the Les Houches benchmark (hep-ph/0204316, section 1.3); A_g, A_uv, A_dv from sum rules."""
    up, down = _valence(x, 2.0, p["B_uv"], p["C_uv"]), _valence(x, 1.0, p["B_dv"], p["C_dv"])
    dbar = p["A_dbar"] * power(x, p["B_dbar"], p["C_dbar"])
    ubar = (1 - x) * dbar
    strange = p["f_s"] * (ubar + dbar)
    return {
        "g": power(x, p["B_g"], p["C_g"]), "u": up + ubar, "ubar": ubar, "d": down + dbar, "dbar": dbar,
        "s": strange, "sbar": strange,
    }  # fmt: skip


_VALENCE = {"B_uv": (0.02, 5.0), "C_uv": (0.5, 15.0), "B_dv": (0.02, 5.0), "C_dv": (0.5, 15.0)}
_KNOWN: dict[str, _Known] = {
    "herapdf": _Known(
        herapdf, "flavour",
        {
            "B_g": (-0.15, 0.05), "C_g": (4.0, 7.0), "A2_g": (0.02, 0.1), "B2_g": (-0.4, -0.2), "C2_g": 25.0,
            "B_uv": (0.6, 0.8), "C_uv": (3.5, 5.0), "E_uv": (2.0, 8.0), "B_dv": (0.6, 0.9), "C_dv": (3.5, 5.0),
            "A_Dbar": (0.12, 0.25), "B_Dbar": (-0.2, -0.1), "C_Dbar": (4.0, 8.0), "C_Ubar": (4.0, 9.0),
            "D_Ubar": (0.0, 4.0), "f_s": 0.4, "f_c": 0.0,
        },
        {**_VALENCE, "E_uv": (0.0, 100.0), "B_g": (-0.9, 3.0), "C_g": (0.5, 30.0), "B2_g": (-0.9, 3.0),
         "B_Dbar": (-0.9, 3.0), "C_Dbar": (0.5, 30.0), "C_Ubar": (0.5, 30.0)},
    ),
    "les_houches": _Known(
        les_houches, "flavour",
        {
            "B_g": (-0.2, 0.0), "C_g": (4.0, 6.0), "B_uv": (0.7, 0.9), "C_uv": (2.5, 3.5), "B_dv": (0.7, 0.9),
            "C_dv": (3.5, 4.5), "A_dbar": (0.15, 0.25), "B_dbar": (-0.2, 0.0), "C_dbar": (5.0, 7.0), "f_s": 0.2,
        },
        {**_VALENCE, "B_g": (-0.9, 3.0), "C_g": (0.5, 30.0), "B_dbar": (-0.9, 3.0), "C_dbar": (0.5, 30.0)},
    ),
}  # fmt: skip
FORMS = tuple(_KNOWN)
_OWN: dict[str, Form] = {}


def make_form(form: str | Form, parameters: Values | None, basis: str, outputs: tuple[str, ...], precision: str) -> Any:
    """Return the layer (x, 2) -> (x, outputs) of a form.

    Parameters
    ----------
    form
        Name of a known form, or a function.
    parameters
        Range or number by name; for a known form, where it differs from the form's own.
    basis, outputs
        What the network's outputs are.
    """
    if callable(form):
        name = f"{getattr(form, '__module__', '')}.{getattr(form, '__qualname__', type(form).__name__)}"
        _OWN[name] = form
        return FormLayer(name, checked_parameters(parameters, None), outputs, dtype=precision)
    if form not in _KNOWN:
        msg = f"form must be a function or one of {', '.join(FORMS)}, not {form!r}. {nearest(str(form), FORMS)}"
        raise SettingError(msg)
    known = _KNOWN[form]
    if basis != known.basis:
        msg = f"form={form!r} gives flavours: basis must be {known.basis!r}."
        raise SettingError(msg)
    return FormLayer(form, checked_parameters(parameters, known.parameters), outputs, dtype=precision)


def checked_parameters(given: Values | None, default: Values | None) -> Values:
    """Return ranges and numbers by name, laid over those of a known form."""
    if default is None and not given:
        msg = "A function as form needs parameters=, a range (low, high) or a number for each by name."
        raise SettingError(msg)
    merged: Values = dict(default or {})
    for name, value in (given or {}).items():
        if default is not None and name not in default:
            msg = f"parameters: unknown parameter {name!r}. {nearest(str(name), default, what='parameter')}"
            raise SettingError(msg)
        numbers = np.asarray(value, dtype=float)
        if numbers.shape not in ((), (2,)) or not np.isfinite(numbers).all() or (np.diff(np.ravel(numbers)) < 0).any():
            msg = f"parameters: {name} must be a number or a range (low, high) with low <= high, not {value!r}."
            raise SettingError(msg)
        merged[name] = float(numbers) if numbers.shape == () else (float(numbers[0]), float(numbers[1]))
    if not any(isinstance(value, tuple) for value in merged.values()):
        msg = "parameters: at least one must have a range, or there is nothing to fit."
        raise SettingError(msg)
    return merged


@keras.saving.register_keras_serializable(package="partonfit")
class FormLayer(keras.layers.Layer):
    """A form as a layer: (x, 2), of x and ln x, to x f (x, output).

    Parameters
    ----------
    form
        Name of a known form, or of a function that ``pdf_model()`` was given in this session.
    parameters
        Range (trained) or number (held) by name.
    outputs
        Names of the outputs.
    """

    def __init__(self, form: str, parameters: Values, outputs: tuple[str, ...], **keywords: Any) -> None:
        super().__init__(**keywords)
        self.form, self.outputs = form, tuple(outputs)
        ranges = {name: value for name, value in parameters.items() if isinstance(value, (tuple, list))}
        self.trained = tuple(ranges)
        self.held = tuple((name, float(value)) for name, value in parameters.items() if isinstance(value, (float, int)))
        low, high = zip(*ranges.values(), strict=True)
        self.parameters_initializer = UniformRange(list(low), list(high))
        self.build()

    @property
    def input_shape(self) -> tuple[None, int]:
        """(None, 2)."""
        return (None, 2)

    @property
    def output_shape(self) -> tuple[None, int]:
        """(None, output)."""
        return (None, len(self.outputs))

    def build(self, _: Any = None) -> None:
        """Make the vector of the trained parameters (parameter,)."""
        if self.built:
            return
        limits = _KNOWN[self.form].limits if self.form in _KNOWN else {}
        pairs = [limits.get(name, (-np.inf, np.inf)) for name in self.trained]
        self.parameters = self.add_weight(
            shape=(len(self.trained),), initializer=self.parameters_initializer, name="parameters",
            constraint=Within([low for low, _ in pairs], [high for _, high in pairs]) if limits else None,
        )  # fmt: skip
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Return x f (x, output)."""
        x = inputs[:, 0]
        values = {name: self.parameters[i] for i, name in enumerate(self.trained)} | dict(self.held)
        found = _function(self.form)(x, values)
        if not isinstance(found, Mapping):
            msg = f"The form {self.form} must return x f by name, such as {{'g': ...}}, not {type(found).__name__}."
            raise SettingError(msg)
        for name in found:
            if name not in self.outputs:
                msg = f"The form {self.form} returned {name!r}. {nearest(str(name), self.outputs, what='output')}"
                raise SettingError(msg)
        zero = jnp.zeros_like(x)
        return jnp.stack([jnp.asarray(found.get(name, zero), x.dtype) + zero for name in self.outputs], axis=-1)

    def get_config(self) -> dict:
        """Return the arguments that rebuild the layer: names and numbers, never code."""
        low, high = self.parameters_initializer.low, self.parameters_initializer.high
        ranges = {name: [low[i], high[i]] for i, name in enumerate(self.trained)}
        return super().get_config() | {
            "form": self.form, "parameters": ranges | dict(self.held), "outputs": list(self.outputs),
        }  # fmt: skip


def _function(name: str) -> Form:
    if name in _KNOWN:
        return _KNOWN[name].form
    if name not in _OWN:
        msg = (
            f"The model of this fit is the function {name}, which is not stored with it. Call pdf_model(form=...) with "
            "that function once in this session, and try again."
        )
        raise StorageError(msg)
    return _OWN[name]
