"""The names of the field, once: bases, flavours, axis names and the rotations between bases.

Sources: the evolution basis is that of NNPDF4.0 (arXiv:2109.02653, eq. 3.4 and appendix A); PDG
Monte Carlo numbers identify flavours.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from partonfit._errors import SettingError, nearest

REPLICA, FLAVOUR, X, DATA = "replica", "flavour", "x", "data"
"""Names of array axes, used in every docstring and in xarray output."""

Q0 = 1.65
"""Scale at which PDFs are parametrised [GeV]."""

EVOLUTION = (
    "photon", "Sigma", "g", "V", "V3", "V8", "V15", "V24", "V35", "T3", "T8", "T15", "T24", "T35",
)  # fmt: skip
"""Evolution basis; the order of every array with 14 flavours."""

FITTED = ("Sigma", "g", "V", "V3", "V8", "T3", "T8", "T15")
"""The combinations that the network parametrises at Q0, in the order of its outputs."""

FITTED_V15 = ("Sigma", "g", "V", "V3", "V8", "V15", "T3", "T8", "T15")
"""The same with V15 of its own: charm and anticharm then differ."""

PARTONS = ("u", "ubar", "d", "dbar", "s", "sbar", "c", "g")
"""What a model in the flavour basis gives at Q0, with cbar = c."""

PARTONS_CBAR = ("u", "ubar", "d", "dbar", "s", "sbar", "c", "cbar", "g")
"""The same with cbar of its own."""

PIDS = {
    "tbar": -6, "bbar": -5, "cbar": -4, "sbar": -3, "ubar": -2, "dbar": -1, "g": 21,
    "d": 1, "u": 2, "s": 3, "c": 4, "b": 5, "t": 6, "photon": 22,
}  # fmt: skip
"""PDG number of each flavour."""

FLAVOURS = tuple(PIDS)
"""Flavour basis, in the order LHAPDF writes it."""

_QUARKS = "udscbt"
# T_k = sum of the first (n-1) plus distributions - (n-1) times the n-th, and V_k the same for minus.
_LADDER = {"3": 2, "8": 3, "15": 4, "24": 5, "35": 6}


def _from_flavours() -> np.ndarray:
    """Matrix (14 evolution, 14 flavour) that takes flavours to the evolution basis."""
    column = {name: i for i, name in enumerate(FLAVOURS)}
    matrix = np.zeros((14, 14))

    def add(row: str, quark: str, weight: float, sign: float) -> None:
        matrix[EVOLUTION.index(row), column[quark]] += weight
        matrix[EVOLUTION.index(row), column[quark + "bar"]] += sign * weight

    matrix[EVOLUTION.index("photon"), column["photon"]] = 1
    matrix[EVOLUTION.index("g"), column["g"]] = 1
    for quark in _QUARKS:
        add("Sigma", quark, 1, 1)
        add("V", quark, 1, -1)
    for label, n in _LADDER.items():
        for position, quark in enumerate(_QUARKS[:n]):
            weight = 1.0 if position < n - 1 else -(n - 1.0)
            add("T" + label, quark, weight, 1)
            add("V" + label, quark, weight, -1)
    return matrix


FROM_FLAVOURS = _from_flavours()
"""(evolution, flavour) matrix from the flavour basis to the evolution basis."""

TO_FLAVOURS = np.linalg.inv(FROM_FLAVOURS)
"""(flavour, evolution) matrix from the evolution basis to the flavour basis."""


def _combinations() -> dict[str, np.ndarray]:
    rows = {name: TO_FLAVOURS[i] for i, name in enumerate(FLAVOURS)}
    named = {name: np.eye(14)[i] for i, name in enumerate(EVOLUTION)} | rows
    for q in _QUARKS:
        named[f"{q}_plus"] = rows[q] + rows[q + "bar"]
        named[f"{q}_minus"] = rows[q] - rows[q + "bar"]
    named["u_v"], named["d_v"] = named["u_minus"], named["d_minus"]
    named["sea"] = 2 * (rows["ubar"] + rows["dbar"] + rows["sbar"] + rows["cbar"])
    named["dbar_minus_ubar"] = rows["dbar"] - rows["ubar"]
    return named


_NAMED = _combinations()
NAMES = tuple(_NAMED)
"""Every name that predict() and plot() accept."""

_TEX = {
    "Sigma": r"\Sigma", "photon": r"\gamma", "u_v": "u_v", "d_v": "d_v",
    "sea": r"2(\bar{u}+\bar{d}+\bar{s}+\bar{c})", "dbar_minus_ubar": r"\bar{d}-\bar{u}",
}  # fmt: skip


def combination(name: str) -> np.ndarray:
    """Return the row (14,) that takes the evolution basis to the combination ``name``.

    Raises
    ------
    SettingError
        When the name is unknown; the message suggests the nearest one.

    Examples
    --------
    >>> float(combination("g") @ np.eye(14)[EVOLUTION.index("g")])
    1.0
    """
    if not isinstance(name, str) or name not in _NAMED:
        msg = f"Unknown flavour {name!r}. {nearest(str(name), NAMES, what='flavour')}"
        raise SettingError(msg)
    return _NAMED[name]


def rotation(names: str | tuple[str, ...] | list[str]) -> np.ndarray:
    """Return the matrix (flavour, 14) for several names, or for ``"evolution"`` / ``"flavour"``."""
    if names == "evolution":
        names = EVOLUTION
    elif names == "flavour":
        names = FLAVOURS
    elif isinstance(names, str):
        names = (names,)
    return np.stack([combination(name) for name in names])


def tex(name: str) -> str:
    """Return the symbol of ``name`` as TeX mathematics without the dollar signs.

    Examples
    --------
    >>> tex("ubar"), tex("c_plus")
    ('\\\\bar{u}', 'c^{+}')
    """
    combination(name)
    if name in _TEX:
        return _TEX[name]
    if name.endswith("bar"):
        return rf"\bar{{{name[0]}}}"
    if name.endswith(("_plus", "_minus")):
        return f"{name[0]}^{{{'+' if name.endswith('plus') else '-'}}}"
    if name[0] in "VT" and name[1:].isdigit():
        return f"{name[0]}_{{{name[1:]}}}"
    return name


def completion(model: object) -> np.ndarray:
    """Return the matrix (14, fitted) from what ``model`` gives: ``model.fitted``, or the usual eight."""
    return to_evolution(tuple(getattr(model, "fitted", FITTED)))


@cache
def to_evolution(fitted: tuple[str, ...] = FITTED) -> np.ndarray:
    """Return the matrix (14, fitted) that completes the fitted combinations at Q0.

    With four flavours at Q0 and nothing heavier: V15 = V24 = V35 = V (V15 unless it is fitted) and
    T24 = T35 = Sigma; the photon is zero.
    """
    matrix = np.zeros((14, len(fitted)))
    source = {"V15": "V", "V24": "V", "V35": "V", "T24": "Sigma", "T35": "Sigma"}
    source |= {name: name for name in fitted}
    for target, name in source.items():
        matrix[EVOLUTION.index(target), fitted.index(name)] = 1
    return matrix
