"""The PDF model: a network times preprocessing, normalised by sum rules.

    x f_k(x) = A_k x^(1-alpha_k) (1-x)^beta_k NN_k(x, ln x)

(NNPDF4.0, arXiv:2109.02653, eq. 3.5), for the eight fitted combinations at Q0.
"""

from __future__ import annotations

from typing import Any

import keras

from partonfit._errors import SettingError
from partonfit._precision import keras_floatx, precision_context
from partonfit._vocabulary import FITTED
from partonfit.models._preprocessing import Preprocessing, Ranges
from partonfit.models._sum_rules import NODES, SumRules, quadrature


@keras.saving.register_keras_serializable(package="partonfit")
class PDFModel(keras.Model):
    """x f of the fitted combinations: (x, 1) -> (x, fitted). Made by :func:`pdf_model`."""

    def __init__(
        self, network: keras.Model, preprocessing: Preprocessing | None, sum_rules: SumRules, **keywords: Any
    ) -> None:
        super().__init__(**keywords)
        self.network, self.preprocessing, self.sum_rules = network, preprocessing, sum_rules
        self.build((None, 1))

    def build(self, _: Any = None) -> None:
        """Build the parts for an input of shape (x, 1)."""
        if self.preprocessing is not None and not self.preprocessing.built:
            self.preprocessing.build()
        self.sum_rules.built = True
        self.built = True

    def raw(self, x: Any, training: bool = False) -> Any:
        """Return the combinations before normalisation, (x, fitted)."""
        ops: Any = keras.ops
        outputs: Any = self.network(ops.concatenate([x, ops.log(x)], axis=-1), training=training)
        return outputs if self.preprocessing is None else outputs * self.preprocessing(x)

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
        return {
            "layers": [type(layer).__name__ for layer in self.network.layers],
            "widths": [2, *(layer.units for layer in self.network.layers if hasattr(layer, "units"))],
            "parameters": self.network.count_params(),
            "preprocessing": factor is not None,
            "trainable_exponents": factor is not None and factor.trainable_exponents,
            "sum_rules": self.sum_rules.rules,
        }

    def get_config(self) -> dict:
        """Return the parts as serialised Keras objects."""
        parts = {"network": self.network, "preprocessing": self.preprocessing, "sum_rules": self.sum_rules}
        return super().get_config() | {
            name: None if part is None else keras.saving.serialize_keras_object(part) for name, part in parts.items()
        }

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> PDFModel:
        """Rebuild the model from :meth:`get_config`."""
        parts: dict[str, Any] = {
            name: None if config[name] is None else keras.saving.deserialize_keras_object(config[name], custom_objects)
            for name in ("network", "preprocessing", "sum_rules")
        }
        return cls(**parts)


def pdf_model(
    network: keras.Model | None = None,
    *,
    nodes: tuple[int, ...] = (25, 20),
    activation: str = "tanh",
    initializer: str = "glorot_normal",
    preprocessing: bool = True,
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
        A Keras model with input (2,): x and ln x, and output (8,): one per fitted combination
        (Sigma, g, V, V3, V8, T3, T8, T15). ``None`` makes a dense one from the next three.
    nodes
        Widths of the hidden layers.
    activation, initializer
        Keras names for the hidden activations and the kernel initializer.
    preprocessing
        Whether to multiply by x^(1-alpha) (1-x)^beta.
    alpha, beta
        Ranges (low, high) by combination, overriding the NNPDF4.0 ones.
    trainable_exponents
        Whether alpha and beta are trained after they were drawn.
    sum_rules
        ``"all"``, ``"momentum"``, ``"valence"`` or ``"off"``.
    precision
        ``"float32"`` or ``"float64"``; has to be the precision of the fit.

    Returns
    -------
    PDFModel
        A Keras model from x (x, 1) to x f (x, 8), dimensionless, at Q0 = 1.65 GeV.

    Raises
    ------
    SettingError
        When the network's input or output has another size, or a range is malformed.

    Examples
    --------
    >>> model = pdf_model(nodes=(5,))
    >>> model.count_params()  # (2 + 1) * 5 + (5 + 1) * 8 weights and 16 exponents
    79
    """
    # Containers of layers take no dtype of their own: they get Keras' floatx.
    with precision_context(precision), keras_floatx(precision):
        return _assembled(
            _dense(nodes, activation, initializer, precision) if network is None else network,
            Preprocessing(alpha, beta, trainable_exponents, dtype=precision) if preprocessing else None,
            SumRules(sum_rules, NODES, dtype=precision),
        )


def _dense(nodes: tuple[int, ...], activation: str, initializer: str, precision: str) -> keras.Model:
    widths = [*nodes, len(FITTED)]
    maker: Any = keras.initializers.get(initializer)
    layers = [
        keras.layers.Dense(
            width, activation=activation if i < len(nodes) else "linear", kernel_initializer=maker, dtype=precision
        )
        for i, width in enumerate(widths)
    ]
    return keras.Sequential([keras.Input((2,), dtype=precision), *layers], name="network")


def _assembled(network: keras.Model, factor: Preprocessing | None, rules: SumRules) -> PDFModel:
    shapes = (getattr(network, "input_shape", None), getattr(network, "output_shape", None))
    if shapes != ((None, 2), (None, len(FITTED))):
        msg = (
            f"The network must take (None, 2) inputs (x, ln x) and give (None, {len(FITTED)}) outputs "
            f"({', '.join(FITTED)}); this one takes {shapes[0]} and gives {shapes[1]}."
        )
        raise SettingError(msg)
    return PDFModel(network, factor, rules, dtype=rules.dtype_policy)
