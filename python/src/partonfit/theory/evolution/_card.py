"""What evolution depends on: starting scale, coupling, thresholds, order."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from partonfit._errors import SettingError

MASSES = ("charm", "bottom", "top")

Point = tuple[float, int]
"""A scale squared [GeV2] and the number of active flavours there."""


@dataclass(frozen=True)
class EvolutionCard:
    """Settings of the evolution; the default is the NNPDF4.0 NNLO theory (arXiv:2109.02653, section 2).

    Attributes
    ----------
    q0
        Scale at which the PDF is given [GeV]. Four flavours are active there.
    order
        Number of loops beyond the first: 0, 1, 2 for LO, NLO, NNLO.
    alphas, mz
        The strong coupling at ``mz`` [GeV], with five flavours.
    masses
        Pole masses of charm, bottom and top [GeV]; matching happens at these scales.
    nf_max
        Largest number of active flavours, in the evolution of PDFs and in the coupling.
    """

    q0: float = 1.65
    order: int = 2
    alphas: float = 0.118
    mz: float = 91.2
    masses: tuple[float, float, float] = (1.51, 4.92, 172.5)
    nf_max: int = 5

    def __post_init__(self) -> None:
        if self.order not in (0, 1, 2):
            msg = f"order must be 0, 1 or 2 (LO, NLO, NNLO), not {self.order!r}."
            raise SettingError(msg)
        if self.nf_max not in (4, 5, 6):
            msg = f"nf_max must be 4, 5 or 6, not {self.nf_max!r}."
            raise SettingError(msg)
        if not self.masses[0] < self.q0 < self.masses[1] < self.mz < self.masses[2]:
            msg = (
                f"The scales must be ordered m_charm < q0 < m_bottom < mz < m_top, but they are "
                f"{self.masses[0]}, {self.q0}, {self.masses[1]}, {self.mz}, {self.masses[2]} GeV."
            )
            raise SettingError(msg)

    @property
    def thresholds(self) -> tuple[float, float, float]:
        """Scales [GeV] at which the number of flavours changes (equal to the masses)."""
        return self.masses

    @property
    def key(self) -> str:
        """Hash of the settings, for caches."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def flavours(self, q2: float) -> int:
        """Return the number of active flavours at ``q2`` [GeV2]; at a threshold the larger one."""
        return min(3 + sum(m * m <= q2 * (1 + 1e-12) for m in self.masses), self.nf_max)


def default_card() -> EvolutionCard:
    """Return the settings of the package's own tables.

    Examples
    --------
    >>> default_card().flavours(100.0)
    5
    """
    return EvolutionCard()


def checked_points(q2s: Iterable[Any], card: EvolutionCard) -> list[Point]:
    """Return (Q2, nf) pairs from numbers Q2 or pairs (Q2, nf).

    Raises
    ------
    SettingError
        When a scale is below charm threshold or not finite, or nf is out of range.
    """
    points = []
    for entry in q2s:
        pair = isinstance(entry, Sequence) or (isinstance(entry, np.ndarray) and entry.ndim == 1)
        q2 = float(entry[0] if pair else entry)  # pyright: ignore[reportArgumentType]
        lowest = card.masses[0] ** 2
        if not math.isfinite(q2) or q2 < lowest:
            msg = f"Cannot evolve to Q2 = {q2} GeV2: expected at least {lowest:g} (the charm threshold)."
            raise SettingError(msg)
        nf = int(entry[1]) if pair else card.flavours(q2)
        if not 4 <= nf <= card.nf_max:
            msg = f"{nf} flavours at Q2 = {q2} GeV2: expected 4 to {card.nf_max}."
            raise SettingError(msg)
        points.append((q2, nf))
    return points
