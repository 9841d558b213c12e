"""The known PDF of the tests: a smooth Les Houches-style form with exact sum rules up to rounding.

Form and numbers are those of the Les Houches benchmark (hep-ph/0204316, section 1.3), read at Q0.
"""

from __future__ import annotations

import numpy as np

from partonfit._vocabulary import FLAVOURS, FROM_FLAVOURS

_A = (5.107200, 0.8, 3.0, 3.064320, 0.8, 4.0, 1.700000, -0.1, 5.0, 0.1939875, -0.1, 6.0, 0.2)


def toy_pdf(x: np.ndarray) -> np.ndarray:
    """Return x f(x) of the known PDF at Q0 = 1.65 GeV.

    Parameters
    ----------
    x
        Momentum fractions (x,), above 0 and at most 1.

    Returns
    -------
    numpy.ndarray
        x f(x) in the evolution basis (14, x); charm and heavier quarks are zero.

    Examples
    --------
    >>> toy_pdf(np.array([0.1]))[2].round(4)  # the gluon: 1.7 x^-0.1 (1 - x)^5
    array([1.2638])
    """
    x = np.asarray(x, dtype=np.float64)
    u_v = _A[0] * x ** _A[1] * (1 - x) ** _A[2]
    d_v = _A[3] * x ** _A[4] * (1 - x) ** _A[5]
    dbar = _A[9] * x ** _A[10] * (1 - x) ** _A[11]
    ubar = dbar * (1 - x)
    strange = _A[12] * (ubar + dbar)
    flavours = np.zeros((len(FLAVOURS), *x.shape))
    for name, value in {
        "g": _A[6] * x ** _A[7] * (1 - x) ** _A[8],
        "u": u_v + ubar, "ubar": ubar, "d": d_v + dbar, "dbar": dbar, "s": strange, "sbar": strange,
    }.items():  # fmt: skip
        flavours[FLAVOURS.index(name)] = value
    return np.tensordot(FROM_FLAVOURS, flavours, axes=1)
