"""The PDF model: a network times preprocessing, normalised by sum rules.

    x f_k(x) = A_k x^(1-alpha_k) (1-x)^beta_k NN_k(x, ln x)

(NNPDF4.0, arXiv:2109.02653, eq. 3.5), for the fitted combinations at Q0. The network may see a scaled
x instead, be taken less its value at x = 1, give flavours that are then rotated, or be a function with
parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from partonfit._errors import SettingError
from partonfit._precision import keras_floatx, precision_context
from partonfit.models._bases import fitted_of, outputs_of, turn_of
from partonfit.models._forms import Form, FormLayer, Values, make_form
from partonfit.models._networks import make_network
from partonfit.models._preprocessing import Preprocessing, Ranges
from partonfit.models._scaling import InputScaling, scaling_knots
from partonfit.models._sum_rules import NODES, SumRules, quadrature


@keras.saving.register_keras_serializable(package="partonfit")
class PDFModel(keras.Model):
    """x f of the fitted combinations: (x, 1) -> (x, fitted). Made by :func:`pdf_model`.

    Attributes
    ----------
    basis, charm_asymmetry
        What the outputs of the network are, see :func:`pdf_model`.
    """

    def __init__(
        self, network: Any, preprocessing: Preprocessing | None, sum_rules: SumRules,
        scaling: InputScaling | None = None, *, basis: str = "evolution", charm_asymmetry: bool = False,
        subtract_one: bool = False, **keywords: Any,
    ) -> None:  # fmt: skip
        super().__init__(**keywords)
        self.network, self.preprocessing, self.sum_rules, self.scaling = network, preprocessing, sum_rules, scaling
        self.basis, self.charm_asymmetry, self.subtract_one = basis, charm_asymmetry, subtract_one
        self.build((None, 1))

    @property
    def fitted(self) -> tuple[str, ...]:
        """Names of what the model gives: combinations of the evolution basis."""
        return fitted_of(self.charm_asymmetry)

    @property
    def network_outputs(self) -> tuple[str, ...]:
        """Names of what the network gives: ``fitted``, or flavours."""
        return outputs_of(self.basis, self.charm_asymmetry)

    def build(self, _: Any = None) -> None:
        """Build the parts for an input of shape (x, 1)."""
        if self.preprocessing is not None and not self.preprocessing.built:
            self.preprocessing.build()
        self.sum_rules.built = True
        self.built = True

    def raw(self, x: Any, training: bool = False) -> Any:
        """Return the combinations before normalisation, (x, fitted)."""
        ops: Any = keras.ops
        inputs: Any = self._inputs(x)
        if self.subtract_one:
            inputs = ops.concatenate([inputs, self._inputs(ops.ones((1, 1), dtype=inputs.dtype))], axis=0)
        outputs: Any = self.network(inputs, training=training)
        if self.subtract_one:
            outputs = outputs[:-1] - outputs[-1:]
        if self.preprocessing is not None:
            outputs = outputs * self.preprocessing(x)
        turn = turn_of(self.basis, self.charm_asymmetry)
        return outputs if turn is None else ops.matmul(outputs, ops.convert_to_tensor(turn, dtype=outputs.dtype))

    def _inputs(self, x: Any) -> Any:
        ops: Any = keras.ops
        return ops.concatenate([x, ops.log(x)], axis=-1) if self.scaling is None else self.scaling(x)

    def call(self, x: Any, training: bool = False) -> Any:
        """Return x f (x, fitted) at momentum fractions x (x, 1)."""
        if self.sum_rules.rules == "off":
            return self.raw(x, training=training)
        nodes: Any = keras.ops.convert_to_tensor(quadrature(self.sum_rules.nodes)[0][:, None], dtype=x.dtype)
        # One pass of the network for the points asked for and for the quadrature nodes.
        raw: Any = self.raw(keras.ops.concatenate([x, nodes], axis=0), training=training)
        count = len(raw) - len(nodes)
        return raw[:count] * self.sum_rules(raw[count:])

    def describe(self) -> dict[str, Any]:
        """Return what a reader wants to know of the model, as plain values."""
        factor = self.preprocessing
        return self._described_network() | {
            "parameters": self.network.count_params(),
            "preprocessing": factor is not None,
            "trainable_exponents": factor is not None and factor.trainable_exponents,
            "sum_rules": self.sum_rules.rules,
            "basis": self.basis,
            "outputs": list(self.network_outputs),
            "scaling_knots": None if self.scaling is None else len(self.scaling.knots),
            "subtract_one": self.subtract_one,
        }

    def _described_network(self) -> dict[str, Any]:
        if isinstance(self.network, FormLayer):
            return {"form": self.network.form, "trained": list(self.network.trained)}
        layers = self.network.layers
        return {
            "layers": [type(layer).__name__ for layer in layers],
            "widths": [self.network.input_shape[-1], *(layer.units for layer in layers if hasattr(layer, "units"))],
        }

    def get_config(self) -> dict:
        """Return the parts as serialised Keras objects."""
        parts = {
            "network": self.network, "preprocessing": self.preprocessing, "sum_rules": self.sum_rules,
            "scaling": self.scaling,
        }  # fmt: skip
        plain = {name: getattr(self, name) for name in ("basis", "charm_asymmetry", "subtract_one")}
        return (
            super().get_config()
            | plain
            | {
                name: None if part is None else keras.saving.serialize_keras_object(part)
                for name, part in parts.items()
            }
        )

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> PDFModel:
        """Rebuild the model from :meth:`get_config`."""
        parts: dict[str, Any] = {
            name: None
            if config.get(name) is None
            else keras.saving.deserialize_keras_object(config[name], custom_objects)
            for name in ("network", "preprocessing", "sum_rules", "scaling")
        }
        plain = {name: config[name] for name in ("basis", "charm_asymmetry", "subtract_one") if name in config}
        return cls(**parts, **plain)


def pdf_model(
    network: keras.Model | None = None,
    *,
    nodes: tuple[int, ...] = (25, 20),
    activation: str | Sequence[str] = "tanh",
    initializer: str = "glorot_normal",
    layer_type: str = "dense",
    dropout: float = 0.0,
    form: str | Form | None = None,
    parameters: Values | None = None,
    basis: str | None = None,
    charm_asymmetry: bool = False,
    scaling: int | Sequence[float] | None = None,
    subtract_one: bool | None = None,
    preprocessing: bool | None = None,
    alpha: Ranges | None = None,
    beta: Ranges | None = None,
    trainable_exponents: bool = False,
    sum_rules: str = "all",
    precision: str = "float32",
) -> PDFModel:
    """Make a PDF model; the defaults are those of NNPDF4.0 (2-25-20-8, tanh, preprocessing).

    Parameters
    ----------
    network
        A Keras model with input (2,): x and ln x (with ``scaling``: (1,)), and output (8,): one per fitted
        combination (Sigma, g, V, V3, V8, T3, T8, T15). ``None`` makes one from the next five.
    nodes
        Widths of the hidden layers.
    activation, initializer
        Keras names for the hidden activations (one, or one per layer) and the kernel initializer.
    layer_type
        ``"dense"``, or ``"dense_per_flavour"``: a network of its own, with hidden layers of ``nodes``, for
        each output.
    dropout
        Fraction of the last hidden layer's nodes that is dropped, at random for each replica and epoch.
    form
        A function with parameters in the place of a network: ``"herapdf"`` (14 parameters, HERAPDF2.0),
        ``"les_houches"`` (9), or your own ``f(x, p)`` from x (x,) and the values of ``parameters`` by name
        to x f (x,) by name, written with ``jax.numpy``. Names it leaves out are zero. Its code is not stored
        with a fit: :func:`load_fit` finds it again once ``pdf_model()`` was called with it.
    parameters
        By name: a range (low, high), from which each replica draws its start, or a number that is held.
    basis
        What the network's outputs are: ``"evolution"``, or ``"flavour"`` for u, ubar, d, dbar, s, sbar, c
        (with cbar = c) and g, rotated before the sum rules. ``None``: flavours for a named form, else the
        evolution basis.
    charm_asymmetry
        Whether c and cbar differ: V15 is fitted (after V8; its sum rule is 3), or cbar (after c).
    scaling
        Map x to [-1, 1] by a monotone curve in ln x, and give the network that instead of x and ln x: the
        number of knots, or their x (increasing; they become equally spaced).
    subtract_one
        Whether the network's value at x = 1 is subtracted. ``None``: with ``scaling``.
    preprocessing
        Whether to multiply by x^(1-alpha) (1-x)^beta. ``None``: not for a form, and not with ``scaling``
        unless alpha or beta are given.
    alpha, beta
        Ranges (low, high) by output, overriding those of NNPDF4.0 (or, for flavours and V15, ours);
        ``fit.next_exponents()`` gives both from an earlier fit.
    trainable_exponents
        Whether alpha and beta are trained after they were drawn; they stay in their ranges.
    sum_rules
        ``"all"``, ``"momentum"``, ``"valence"`` or ``"off"``.
    precision
        ``"float32"`` or ``"float64"``; has to be the precision of the fit.

    Returns
    -------
    PDFModel
        A Keras model from x (x, 1) to x f (x, 8), dimensionless, at Q0 = 1.65 GeV; with
        ``charm_asymmetry`` (x, 9).

    Raises
    ------
    SettingError
        When the network's input or output has another size, a range is malformed, or settings do not
        fit together.

    Examples
    --------
    >>> model = pdf_model(nodes=(5,))
    >>> model.count_params()  # (2 + 1) * 5 + (5 + 1) * 8 weights and 16 exponents
    79
    >>> pdf_model(form="herapdf").count_params()
    14
    """
    if form is not None and (network is not None or scaling is not None or subtract_one):
        msg = "form= stands in the place of a network: give neither network=, scaling= nor subtract_one= with it."
        raise SettingError(msg)
    if basis is None:
        basis = "flavour" if isinstance(form, str) else "evolution"
    outputs, fitted = outputs_of(basis, charm_asymmetry), fitted_of(charm_asymmetry)
    ranged = alpha is not None or beta is not None
    factor = (form is None and scaling is None) or ranged if preprocessing is None else preprocessing
    if not factor and (ranged or trainable_exponents):
        msg = "alpha, beta and trainable_exponents need preprocessing=True."
        raise SettingError(msg)
    # Containers of layers take no dtype of their own: they get Keras' floatx.
    with precision_context(precision), keras_floatx(precision):
        if form is not None:
            network = make_form(form, parameters, basis, outputs, precision)
        elif parameters is not None:
            msg = "parameters= are those of a form: give form= too."
            raise SettingError(msg)
        elif network is None:
            network = make_network(
                2 if scaling is None else 1, len(outputs), nodes=nodes, activation=activation,
                initializer=initializer, layer_type=layer_type, dropout=dropout, precision=precision,
            )  # fmt: skip
        _check_sizes(network, 2 if scaling is None else 1, outputs)
        rules = SumRules(sum_rules, NODES, fitted, dtype=precision)
        return PDFModel(
            network,
            Preprocessing(alpha, beta, trainable_exponents, outputs, dtype=precision) if factor else None,
            rules,
            None if scaling is None else InputScaling(scaling_knots(scaling), dtype=precision),
            basis=basis,
            charm_asymmetry=bool(charm_asymmetry),
            subtract_one=scaling is not None if subtract_one is None else bool(subtract_one),
            dtype=rules.dtype_policy,
        )


def _check_sizes(network: Any, inputs: int, outputs: tuple[str, ...]) -> None:
    shapes = (getattr(network, "input_shape", None), getattr(network, "output_shape", None))
    if shapes != ((None, inputs), (None, len(outputs))):
        what = "(x, ln x)" if inputs == 2 else "(scaled x)"
        msg = (
            f"The network must take (None, {inputs}) inputs {what} and give (None, {len(outputs)}) outputs "
            f"({', '.join(outputs)}); this one takes {shapes[0]} and gives {shapes[1]}."
        )
        raise SettingError(msg)
