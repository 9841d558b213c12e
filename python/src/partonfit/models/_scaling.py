"""Input scaling: x mapped to [-1, 1] by a monotone curve in ln x, in the place of the inputs x and ln x.

A network with tanh learns best where its input varies by order one. The curve sends a few knots, as
dense as the points of theory tables are, to equally spaced values (the idea of the feature scaling of
Carrazza, Cruz-Martinez and Stegeman, arXiv:2111.02954); between them it is the monotone cubic of
Fritsch and Carlson (SIAM J. Numer. Anal. 17 (1980) 238).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq

from partonfit._errors import SettingError

_LOWEST, _FIRST, _STRETCH = 1e-9, 2e-7, 5.0


def scaling_knots(scaling: int | Sequence[float]) -> list[float]:
    """Return the knots (knot,) that a number of knots, or the knots themselves, stand for.

    Parameters
    ----------
    scaling
        Increasing values of x, or how many: then x = 1e-9 and the others from 2e-7 to 1, equally spaced
        in ln(1/x) + 5 (1 - x), the variable of the public tables' grids.

    Examples
    --------
    >>> [f"{x:.2g}" for x in scaling_knots(4)]
    ['1e-09', '2e-07', '0.0053', '1']
    """
    if isinstance(scaling, bool) or not isinstance(scaling, (int, np.integer)):
        return _checked(scaling)
    if not 3 <= scaling <= 1000:
        msg = f"scaling must be a number of knots from 3 to 1000, or the knots; not {scaling}."
        raise SettingError(msg)

    def y(x: float) -> float:
        return -np.log(x) + _STRETCH * (1 - x)

    inner = np.linspace(y(_FIRST), 0, int(scaling) - 1)[1:-1]
    solve: Any = brentq
    return [_LOWEST, _FIRST, *(float(solve(lambda x, t=t: y(x) - t, _FIRST, 1)) for t in inner), 1.0]


def _checked(knots: Any) -> list[float]:
    values = np.asarray(knots, dtype=float) if not isinstance(knots, (str, bytes, bool)) else np.zeros(0)
    if values.ndim != 1 or len(values) < 3 or not ((values > 0) & (values <= 1)).all() or (np.diff(values) <= 0).any():
        msg = f"scaling must be a number of knots, or at least 3 increasing values of x in (0, 1]; not {knots!r}."
        raise SettingError(msg)
    return [float(value) for value in values]


@keras.saving.register_keras_serializable(package="partonfit")
class InputScaling(keras.layers.Layer):
    """x (x, 1) to the scaled input (x, 1): -1 at the first knot and below, 1 at the last and above.

    Parameters
    ----------
    knots
        Increasing values of x (knot,); their images are equally spaced.
    """

    def __init__(self, knots: Sequence[float], **keywords: Any) -> None:
        super().__init__(**keywords)
        self.knots = tuple(scaling_knots(list(knots)))
        self.built = True

    def call(self, x: Any) -> Any:
        """Return the scaled input."""
        ops: Any = keras.ops
        points = np.log(self.knots)
        curve = PchipInterpolator(points, np.linspace(-1, 1, len(points)))
        steps = np.diff(points)
        # Each interval adds what the curve gains in it, up to where x stands: no look-up of intervals.
        cubic, square, line = (curve.c[i] * steps ** (3 - i) for i in range(3))
        u = ops.clip((ops.log(x) - self._constant(points[:-1], x)) / self._constant(steps, x), 0, 1)
        gain = ((self._constant(cubic, x) * u + self._constant(square, x)) * u + self._constant(line, x)) * u
        return ops.sum(gain, axis=-1, keepdims=True) - 1

    @staticmethod
    def _constant(values: np.ndarray, like: Any) -> Any:
        return keras.ops.convert_to_tensor(values, dtype=like.dtype)

    def get_config(self) -> dict:
        """Return the arguments that rebuild the layer."""
        return super().get_config() | {"knots": list(self.knots)}
