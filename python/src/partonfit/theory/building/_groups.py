"""Points grouped by what yadism shares: current, lepton and Q2."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from partonfit._errors import TheoryError
from partonfit.theory.building import _schemes
from partonfit.theory.building._schemes import Scheme

Point = tuple[float, float, float]
"""x, Q2 [GeV2] and y."""


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
        (x, Q2, y) of every point of the dataset before cuts.
    """

    table: str
    dataset: str
    current: str
    lepton: str
    points: tuple[Point, ...]

    @property
    def computed(self) -> np.ndarray:
        """Whether a row is computed (point,); the others are zero."""
        return np.array([point[1] >= _schemes.LOWEST_Q2 for point in self.points])


def hera_requests() -> list[Request]:
    """Return the requests for the seven inclusive HERA I+II datasets (arXiv:1506.06042)."""
    from partonfit.data import load_data

    requests = []
    for dataset in load_data("hera", q2min=0.0, w2min=0.0).datasets:
        (table,) = dataset.tables[0]
        kinematics = dataset.kinematics
        if len(kinematics["x"]) != dataset.n_uncut:
            msg = f"Dataset {dataset.name} lost points before its table was built; expected {dataset.n_uncut}."
            raise TheoryError(msg)
        points = zip(*(kinematics[k].tolist() for k in ("x", "Q2", "y")), strict=True)
        requests.append(
            Request(
                table=table,
                dataset=dataset.name,
                current=dataset.name.split("_")[1],
                lepton="electron" if "_EM-" in dataset.name else "positron",
                points=tuple(points),
            )
        )
    return requests


REQUESTS = {"hera": hera_requests}
"""What can be built, by name."""


@dataclass(frozen=True)
class Group:
    """Points that yadism computes together, and the file that holds the result."""

    file: Path
    current: str
    lepton: str
    points: tuple[Point, ...]

    def job(self) -> dict[str, Any]:
        """Return the description that the worker reads."""
        return {
            "file": str(self.file),
            "observable": f"XSHERA{self.current}",
            "card": {"prDIS": self.current, "ProjectileDIS": self.lepton},
            "points": [{"x": x, "Q2": q2, "y": y} for x, q2, y in self.points],
        }


def groups(requests: Sequence[Request], scheme: Scheme, folder: Path) -> list[Group]:
    """Return the groups of several requests; a file is named by a hash of all that its content depends on."""
    shared: dict[tuple[str, str, float], set[Point]] = {}
    for request in requests:
        for point, computed in zip(request.points, request.computed, strict=True):
            if computed:
                shared.setdefault((request.current, request.lepton, point[1]), set()).add(point)
    result = []
    for (current, lepton, q2), points in sorted(shared.items()):
        ordered = tuple(sorted(points))
        content = [scheme.theory, scheme.requirements, _schemes.observable_card(), current, lepton, ordered]
        key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
        result.append(Group(folder / f"{current}_{lepton}_{q2:g}_{key}.npz", current, lepton, ordered))
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
