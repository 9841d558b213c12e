"""Sum rules as a layer: the norms that momentum and valence conservation fix.

With raw combinations r_k(x) = x f_k / A_k (NNPDF4.0, arXiv:2109.02653, eqs. 3.6 and 3.7):

    A_g  = (1 - int Sigma) / int g        momentum, integrals of x f
    A_V  = 3 / int V/x,  A_V8 = 3 / int V8/x,  A_V3 = 1 / int V3/x,  A_V15 = 3 / int V15/x  (where fitted)

The integrals run from 1e-9 to 1, as in the community's fits, by Gauss-Legendre in the variable
y = ln(1/x) + 8 (1 - x), logarithmic at small x and linear at large x. On trained networks 36 nodes
are good to 1e-6, where the trapezoid over 2000 points that they replace is good to 3e-5 (bench/sum_rules.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import keras
import numpy as np
from scipy.optimize import brentq

from partonfit._errors import SettingError
from partonfit._vocabulary import FITTED

SUM_RULES = ("all", "momentum", "valence", "off")
X_LOWEST = 1e-9
NODES = 36
VALENCE = {"V": 3.0, "V3": 1.0, "V8": 3.0, "V15": 3.0}
_STRETCH = 8.0


def _stretched(x: float) -> float:
    return -np.log(x) + _STRETCH * (1 - x)


@cache
def quadrature(nodes: int = NODES, lowest: float = X_LOWEST) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes x (node,) and weights w (node,) with sum w f(x) = int_lowest^1 f dx.

    Examples
    --------
    >>> x, w = quadrature()
    >>> round(float((w * x**2).sum()), 9)
    0.333333333
    """
    points, weights = np.polynomial.legendre.leggauss(nodes)
    top = _stretched(lowest)
    y = 0.5 * top * (points + 1)
    x = np.array([brentq(lambda v, target=t: _stretched(v) - target, lowest / 10, 1, xtol=1e-30) for t in y])
    return x, 0.5 * top * weights * x / (1 + _STRETCH * x)


@keras.saving.register_keras_serializable(package="partonfit")
class SumRules(keras.layers.Layer):
    """Norms (fitted,) from raw combinations at the quadrature nodes (node, fitted).

    Parameters
    ----------
    rules
        ``"all"``, ``"momentum"``, ``"valence"`` or ``"off"``.
    nodes
        Number of quadrature nodes.
    fitted
        Names of the combinations.
    """

    def __init__(self, rules: str = "all", nodes: int = NODES, fitted: Sequence[str] = FITTED, **keywords: Any) -> None:
        if rules not in SUM_RULES:
            msg = f"sum_rules must be one of {', '.join(SUM_RULES)}, not {rules!r}."
            raise SettingError(msg)
        super().__init__(**keywords)
        self.rules, self.nodes, self.fitted = rules, nodes, tuple(fitted)

    def call(self, raw: Any) -> Any:
        """Return the norm of each fitted combination."""
        ops = keras.ops
        weights, fixed, normed = self._tables()
        # One weighted sum over the nodes for all combinations: few and large operations.
        integrals: Any = ops.sum(ops.convert_to_tensor(weights, dtype=raw.dtype) * raw, axis=0)
        momentum = ops.convert_to_tensor(np.eye(len(self.fitted))[self.fitted.index("g")], dtype=raw.dtype)
        wanted = ops.convert_to_tensor(fixed, dtype=raw.dtype) - momentum * integrals[self.fitted.index("Sigma")]
        return ops.where(normed, wanted / ops.where(normed, integrals, 1.0), 1.0)

    def _tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return weights (node, fitted), the wanted integral and whether a norm is fixed (fitted,)."""
        x, momentum = quadrature(self.nodes)
        weights = np.repeat((momentum / x)[:, None], len(self.fitted), axis=1)
        weights[:, [self.fitted.index("Sigma"), self.fitted.index("g")]] = momentum[:, None]
        wanted = {}
        if self.rules in {"all", "momentum"}:
            wanted["g"] = 1.0  # less what Sigma carries
        if self.rules in {"all", "valence"}:
            wanted |= VALENCE
        fixed = np.array([wanted.get(name, 0.0) for name in self.fitted])
        return weights, fixed, np.array([name in wanted for name in self.fitted])

    def get_config(self) -> dict:
        """Return the arguments that rebuild the layer."""
        return super().get_config() | {
            "rules": self.rules, "nodes": self.nodes, "fitted": list(self.fitted),
        }  # fmt: skip
