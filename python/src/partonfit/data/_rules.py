"""Kinematic cuts published for the NNPDF4.0 fits, as conditions on the points to keep.

The general cuts and the list of datasets follow arXiv:2109.02653, section 4.2, and the public filter
list of the NNPDF code, for NNLO theory in the FONLL-C scheme with fitted charm. The comparisons are
strict where theirs are: a point at exactly Q2 = 3.49 GeV2 or W2 = 12.5 GeV2 is cut.
"""

from __future__ import annotations

from dataclasses import dataclass

from partonfit.data._expressions import Condition, parse_condition


@dataclass(frozen=True)
class Rule:
    """A condition with the reason shown in cut reports."""

    condition: Condition
    reason: str


_RESUMMATION = "small transverse momentum: resummation matters"
_ELECTROWEAK = "electroweak corrections are large"
_K_FACTOR = "NNLO correction is unstable here"
_DEPENDENT = "normalised distribution: this bin follows from the others"
_THRESHOLD = "close to threshold: fixed order is not enough (arXiv:1507.01006)"

_TAU = "M2 / sqrts**2 <= 0.08 and abs(y / (0.5 * log(M2 / sqrts**2))) <= 0.663"

_BY_DATASET: dict[str, tuple[tuple[str, str], ...]] = {
    "DYE605_Z0_38P8GEV_DW_PXSEC": ((_TAU, _THRESHOLD),),
    "DYE866_Z0_800GEV_PXSEC": ((_TAU, _THRESHOLD),),
    "CMS_Z0_13TEV_AFB": (("m_ll < 86 or m_ll > 96", _ELECTROWEAK),),
    "CMS_1JET_8TEV_PTY": (("pT >= 74", "low transverse momentum: fixed order is not enough"),),
    **dict.fromkeys(
        (
            "LHCB_DY_8TEV_MUON_Y",
            "LHCB_WPWM_8TEV_MUON_Y",
            "LHCB_Z0_8TEV_MUON_Y",
            "LHCB_DY_7TEV_MUON_Y",
            "LHCB_WPWM_7TEV_MUON_Y",
            "LHCB_Z0_7TEV_MUON_Y",
        ),
        (("y >= 2.25", _K_FACTOR),),
    ),
    "LHCB_Z0_13TEV_DIELECTRON-Y": (("y >= 2.20", _K_FACTOR),),
    "LHCB_Z0_13TEV_DIMUON-Y": (("y >= 2.20", _K_FACTOR),),
    "D0_WPWM_1P96TEV_ASY": (("abs(value) >= 0.03", "small asymmetry: NNLO correction too imprecise"),),
    "H1_1JET_319GEV_290PB-1_DIF_PTQ2": (("pT**2 + Q2 > 100", "low scale (arXiv:2112.01120)"),),
    "H1_2JET_319GEV_290PB-1_DIF_PTQ2": (("pT**2 + Q2 > 100", "low scale (arXiv:2112.01120)"),),
    "ATLAS_WJ_8TEV_WP-PT": (("pT >= 30", _RESUMMATION),),
    "ATLAS_WJ_8TEV_WM-PT": (("pT >= 30", _RESUMMATION),),
    "ATLAS_Z0J_8TEV_PT-M": (("pT >= 30", _RESUMMATION),),
    "ATLAS_Z0J_8TEV_PT-Y": (("pT >= 30", _RESUMMATION), ("pT <= 150", _ELECTROWEAK)),
    "ATLAS_Z0J_13TEV_PT_LL": (("pT >= 30", _RESUMMATION), ("pT <= 150", _ELECTROWEAK)),
    "CMS_Z0J_8TEV_PT-Y": (
        ("pT >= 30", _RESUMMATION),
        ("pT <= 170", _ELECTROWEAK),
        ("abs_y <= 1.6", "last rapidity bin is not described"),
    ),
    "CMS_Z0J_13TEV_PT-M": (
        ("pT >= 30", _RESUMMATION),
        ("pT <= 170", _ELECTROWEAK),
        ("m_ll >= 76", "first mass bin is not described"),
    ),
    "ATLAS_Z0_8TEV_LOWMASS_M-Y": (("sqrt(m_Z2) <= 116", "overlaps with another dataset"),),
    "CMS_Z0_7TEV_DIMUON_2D": (("sqrt(m_Z2) <= 200 and y <= 2.2", _ELECTROWEAK),),
    "ATLAS_Z0_7TEV_49FB_HIMASS": (("m_ll <= 200", _RESUMMATION),),
}

# The bin (counted from 0) that normalised top-pair distributions lose.
_DEPENDENT_BIN = {
    "ATLAS_TTBAR_8TEV_LJ_DIF_PTT-NORM": 7,
    "ATLAS_TTBAR_8TEV_LJ_DIF_YT-NORM": 4,
    "ATLAS_TTBAR_8TEV_LJ_DIF_YTTBAR-NORM": 4,
    "ATLAS_TTBAR_8TEV_LJ_DIF_MTTBAR-NORM": 5,
    "ATLAS_TTBAR_8TEV_2L_DIF_YTTBAR-NORM": 4,
    "ATLAS_TTBAR_8TEV_2L_DIF_MTTBAR-NORM": 5,
    "ATLAS_TTBAR_13TEV_HADR_DIF_MTTBAR-NORM": 8,
    "ATLAS_TTBAR_13TEV_HADR_DIF_YTTBAR-NORM": 11,
    "ATLAS_TTBAR_13TEV_HADR_DIF_MTTBAR-YTTBAR-NORM": 10,
    "ATLAS_TTBAR_13TEV_LJ_DIF_MTTBAR-PTT-NORM": 14,
    "ATLAS_TTBAR_13TEV_LJ_DIF_PTT-YT-NORM": 12,
    "ATLAS_TTBAR_13TEV_LJ_DIF_MTTBAR-NORM": 8,
    "ATLAS_TTBAR_13TEV_LJ_DIF_PTT-NORM": 7,
    "ATLAS_TTBAR_13TEV_LJ_DIF_YT-NORM": 4,
    "ATLAS_TTBAR_13TEV_LJ_DIF_YTTBAR-NORM": 6,
    "CMS_TTBAR_8TEV_LJ_DIF_YT-NORM": 8,
    "CMS_TTBAR_8TEV_LJ_DIF_YTTBAR-NORM": 8,
    "CMS_TTBAR_8TEV_LJ_DIF_PTT-NORM": 4,
    "CMS_TTBAR_8TEV_LJ_DIF_MTTBAR-NORM": 5,
    "CMS_TTBAR_8TEV_2L_DIF_MTTBAR-YT-NORM": 8,
    "CMS_TTBAR_8TEV_2L_DIF_PTT-YT-NORM": 8,
    "CMS_TTBAR_8TEV_2L_DIF_MTTBAR-YTTBAR-NORM": 8,
    "CMS_TTBAR_13TEV_2L_DIF_PTT-NORM": 4,
    "CMS_TTBAR_13TEV_2L_DIF_YT-NORM": 8,
    "CMS_TTBAR_13TEV_2L_DIF_YTTBAR-NORM": 8,
    "CMS_TTBAR_13TEV_2L_DIF_MTTBAR-NORM": 5,
    "CMS_TTBAR_13TEV_LJ_DIF_MTTBAR-NORM": 14,
    "CMS_TTBAR_13TEV_LJ_DIF_YTTBAR-NORM": 9,
    "CMS_TTBAR_13TEV_LJ_DIF_MTTBAR-YTTBAR-NORM": 34,
    "CMS_TTBAR_13TEV_LJ_DIF_PTT-NORM": 15,
    "CMS_TTBAR_13TEV_LJ_DIF_YT-NORM": 10,
}


def general_rules(process: str, q2min: float, w2min: float) -> list[Rule]:
    """Return the Q2 and W2 cuts of a DIS dataset (none for other processes)."""
    if not process.startswith("DIS"):
        return []
    return [
        Rule(parse_condition(f"Q2 > {q2min!r}"), f"Q2 <= {q2min:g} GeV2"),
        Rule(parse_condition(f"W2 > {w2min!r}"), f"W2 <= {w2min:g} GeV2"),
    ]


def published_rules(name: str, process: str) -> list[Rule]:
    """Return the published cuts of one dataset beyond the general ones."""
    rules = [Rule(parse_condition(text), reason) for text, reason in _BY_DATASET.get(name, ())]
    if name in _DEPENDENT_BIN:
        rules.append(Rule(parse_condition(f"index != {_DEPENDENT_BIN[name]}"), _DEPENDENT))
    if process == "DIS_NC_CHARM":
        rules.append(Rule(parse_condition("Q2 > 8"), "Q2 <= 8 GeV2: charm production with fitted charm in FONLL-C"))
    return rules
