"""Theory cards: what yadism is asked for, by heavy-quark scheme.

The numbers are those of the NNPDF4.0 NNLO theory with alpha_s(91.2 GeV) = 0.118 and fitted charm
(arXiv:2109.02653, section 2; CKM elements and electroweak parameters in its table 2.1), in the
vocabulary of yadism (arXiv:2401.15187) and FONLL (arXiv:1001.2312).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partonfit._errors import SettingError, nearest
from partonfit.theory.evolution import EvolutionCard, default_card, lambert_grid

X_GRID_POINTS, X_GRID_MIN = 50, 2e-7
LOWEST_Q2 = 2.7
"""Points below this Q2 [GeV2] get rows of zeros: perturbation theory does not describe them."""

LOWEST_W2 = 10.0
"""So do points below this W2 [GeV2], which the standard cuts (12.5) remove."""

_SHARED = {
    "CKM": "0.97428 0.22530 0.003470 0.22520 0.97345 0.041000 0.00862 0.04030 0.999152",
    "GF": 1.1663787e-05, "MP": 0.938, "MW": 80.398, "MZ": 91.1876, "SIN2TW": 0.23126,
    "alphaqed": 0.007496252, "Qedref": 1.777, "QED": 0,
    "PTO": 2, "TMC": 1, "DAMP": 0, "IC": 1, "IB": 0, "HQ": "POLE", "ModEv": "TRN",
    "mc": 1.51, "mb": 4.92, "mt": 172.5, "Qmc": 1.51, "Qmb": 4.92, "Qmt": 172.5,
    "kcThr": 1.0, "kbThr": 1.0, "ktThr": 1.0, "kDIScThr": 1.0, "kDISbThr": 1.0, "kDIStThr": 1.0,
    "alphas": 0.118, "Qref": 91.2, "Q0": 1.65, "MaxNfAs": 5, "MaxNfPdf": 5, "nf0": None, "nfref": None,
    "XIF": 1.0, "XIR": 1.0, "fact_to_ren_scale_ratio": 1.0, "ModSV": None, "EScaleVar": 1,
    "RenScaleVar": False, "FactScaleVar": False,
    "SxOrd": "LL", "SxRes": 0, "global_nx": 0,
}  # fmt: skip


@dataclass(frozen=True)
class Scheme:
    """A heavy-quark scheme and the environment that computes it.

    Attributes
    ----------
    name, description
        What it is.
    theory
        yadism's theory card.
    requirements
        Pinned packages of the environment.
    python
        Versions of Python that can run it, preferred first.
    """

    name: str
    description: str
    theory: dict[str, Any] = field(repr=False)
    requirements: tuple[str, ...]
    python: tuple[str, ...]


SCHEMES = {
    "fonll-c": Scheme(
        "fonll-c",
        "NNLO, FONLL-C with fitted charm",
        _SHARED | {"FNS": "FONLL-C", "NfFF": 4},
        (
            "yadism==0.12.5", "eko==0.13.5", "numpy==1.24.4", "numba==0.57.1", "llvmlite==0.40.1",
            "LeProHQ==0.2.5", "pandas==1.5.3", "rich==12.6.0", "scipy>=1.11,<1.16",
        ),
        ("3.11", "3.10"),
    ),
    "zm-vfns": Scheme(
        "zm-vfns",
        "NNLO, massless quarks (ZM-VFNS)",
        _SHARED | {"FNS": "ZM-VFNS", "NfFF": 5, "n3lo_cf_variation": 0, "FONLLParts": "full"},
        ("yadism==0.13.12", "eko==0.15.7"),
        ("3.11", "3.12", "3.13", "3.10"),
    ),
}  # fmt: skip


def scheme(name: str) -> Scheme:
    """Return a scheme by name.

    Raises
    ------
    SettingError
        When there is none; the message suggests the nearest.

    Examples
    --------
    >>> scheme("zm-vfns").description
    'NNLO, massless quarks (ZM-VFNS)'
    """
    if name not in SCHEMES:
        msg = f"Unknown scheme {name!r}. {nearest(str(name), SCHEMES, what='scheme')}"
        raise SettingError(msg)
    return SCHEMES[name]


def x_grid() -> np.ndarray:
    """Return the 50 momentum fractions (x,) of the coefficient functions and of the tables."""
    return lambert_grid(X_GRID_POINTS, X_GRID_MIN)


def observable_card() -> dict[str, Any]:
    """Return the part of yadism's observable card that all groups share."""
    return {
        "interpolation_xgrid": x_grid().tolist(),
        "interpolation_is_log": True,
        "interpolation_polynomial_degree": 4,
        "NCPositivityCharge": None,
        "PolarizationDIS": 0.0,
        "PropagatorCorrection": 0.0,
        "TargetDIS": "proton",
    }


def evolution_card(theory: dict[str, Any]) -> EvolutionCard:
    """Return the evolution settings that go with a theory card."""
    return EvolutionCard(
        q0=theory["Q0"],
        order=theory["PTO"],
        alphas=theory["alphas"],
        mz=theory["Qref"],
        masses=(theory["mc"], theory["mb"], theory["mt"]),
        nf_max=theory["MaxNfPdf"],
    )


assert evolution_card(SCHEMES["fonll-c"].theory) == default_card()
