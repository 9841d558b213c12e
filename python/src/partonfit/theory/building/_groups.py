"""Points grouped by what yadism shares: observable, lepton and Q2."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from partonfit._errors import TheoryError
from partonfit.theory.building import _schemes
from partonfit.theory.building._schemes import Scheme

Point = tuple[float, float, float]
"""x, Q2 [GeV2] and y."""


class Probe(NamedTuple):
    """What is measured on a proton: yadism's observable, "NC" or "CC", "electron" or "positron"."""

    observable: str
    current: str
    lepton: str


@dataclass(frozen=True)
class Request:
    """One table to be built.

    Attributes
    ----------
    table, dataset
        Names of the table and of the dataset it serves.
    current, lepton
        "NC" or "CC"; "electron" or "positron".
    points
        (x, Q2, y) of every row of the table, before cuts.
    observable
        "reduced" for the reduced cross section, "F2" for the structure function (which has no y: 1).
    target
        "proton", or "deuteron": a nucleon half proton, half neutron by isospin, without nuclear corrections.
    """

    table: str
    dataset: str
    current: str
    lepton: str
    points: tuple[Point, ...]
    observable: str = "reduced"
    target: str = "proton"

    @property
    def probe(self) -> Probe:
        """What yadism is asked for."""
        name = "F2_total" if self.observable == "F2" else f"XSHERA{self.current}"
        return Probe(name, self.current, self.lepton)

    @property
    def computed(self) -> np.ndarray:
        """Whether a row is computed (point,); the others are zero."""
        x, q2, _ = np.array(self.points).T
        return (q2 >= _schemes.LOWEST_Q2) & (q2 * (1 - x) / x >= _schemes.LOWEST_W2)


@dataclass(frozen=True)
class Group:
    """Points that yadism computes together, and the file that holds the result."""

    file: Path
    probe: Probe
    points: tuple[Point, ...]

    def job(self) -> dict[str, Any]:
        """Return the description that the worker reads."""
        return {
            "file": str(self.file),
            "observable": self.probe.observable,
            "card": {"prDIS": self.probe.current, "ProjectileDIS": self.probe.lepton},
            "points": [{"x": x, "Q2": q2, "y": y} for x, q2, y in self.points],
        }


def groups(requests: Sequence[Request], scheme: Scheme, folder: Path) -> list[Group]:
    """Return the groups of several requests; a file is named by a hash of all that its content depends on.

    Targets share them: what a deuteron's nucleon gives follows from the proton by isospin.
    """
    shared: dict[tuple[Probe, float], set[Point]] = {}
    for request in requests:
        for point, computed in zip(request.points, request.computed, strict=True):
            if computed:
                shared.setdefault((request.probe, point[1]), set()).add(point)
    result = []
    for (probe, q2), points in sorted(shared.items()):
        ordered = tuple(sorted(points))
        content = [scheme.theory, scheme.requirements, _schemes.observable_card(), probe, ordered]
        key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
        result.append(Group(folder / f"{probe.observable}_{probe.lepton}_{q2:g}_{key}.npz", probe, ordered))
    return result


def read(group: Group) -> dict[str, np.ndarray] | None:
    """Return the arrays of a finished group, or None when the file is absent or damaged."""
    n = len(group.points)
    try:
        with group.file.open("rb") as stream, np.load(stream) as content:
            arrays = dict(content)
        good = (
            arrays["values"].shape[0] == n
            and arrays["values"].shape[1:] == (len(arrays["orders"]), 14, _schemes.X_GRID_POINTS)
            and np.isfinite(arrays["values"]).all()
            and np.allclose(arrays["points"], group.points, rtol=1e-12, atol=0)
        )
    except Exception:  # a damaged archive raises many kinds; any of them means: compute again
        return None
    return arrays if good else None


def check_complete(name: str, found: int, expected: int) -> None:
    """Raise when a dataset has not all its published points: its table would be too short."""
    if found != expected:
        msg = f"Dataset {name} has {found} points where {expected} are published; its table needs all of them."
        raise TheoryError(msg)
