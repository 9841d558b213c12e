"""The tables that can be built, from the kinematics of the datasets they serve."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from partonfit._errors import TheoryError
from partonfit.data._catalogue import FIXED_TARGET, HERA, VARIANTS, find_record
from partonfit.data._commondata import data_folders, find_folder, load_yaml, read_metadata
from partonfit.data._record import Record
from partonfit.theory.building._groups import Point, Request, check_complete

_NUCLEON_MASS = 0.938
"""[GeV] As in the theory card."""


def _record(name: str) -> Record:
    return find_record(name, VARIANTS.get(name, ()))


def _points(record: Record, y: np.ndarray | None = None) -> tuple[Point, ...]:
    columns = record.kinematics["x"], record.kinematics["Q2"], np.ones(record.n_data) if y is None else y
    return tuple(zip(*(column.tolist() for column in columns), strict=True))


def hera() -> list[Request]:
    """Return the requests for the seven inclusive HERA I+II datasets (arXiv:1506.06042)."""
    requests = []
    for name in HERA:
        record = _record(name)
        ((table,),) = record.description["theory"]["tables"]
        requests.append(
            Request(
                table=table,
                dataset=name,
                current=name.split("_")[1],
                lepton="electron" if "_EM-" in name else "positron",
                points=_points(record, record.kinematics["y"]),
            )
        )
    return requests


def fixed_target() -> list[Request]:
    """Return the requests for muons and electrons on protons and deuterons: BCDMS, NMC, SLAC.

    Structure functions F2, and for NMC's proton data the reduced cross section. Every table of a dataset gets
    its own rows: BCDMS has one for each beam energy, NMC's ratio one for each target with the same rows.
    """
    requests = []
    for name in FIXED_TARGET:
        record = _record(name)
        for operand in record.description["theory"]["tables"]:
            rows = _rows(record, operand)
            check_complete(name, sum(len(r) for r in rows), record.n_data)
            reduced = operand[0].endswith("_SIGMARED")
            points = _reduced_points(name) if reduced else _points(record)
            requests += [
                Request(
                    table=table,
                    dataset=name,
                    current="NC",
                    lepton="electron",
                    points=tuple(points[i] for i in own),
                    observable="reduced" if reduced else "F2",
                    target="deuteron" if "_D_" in table else "proton",
                )
                for table, own in zip(operand, rows, strict=True)
            ]
    return requests


def _reduced_points(name: str) -> tuple[Point, ...]:
    """Return (x, Q2, y) as measured: NMC's data are described by x rounded to the values they are shown at."""
    located = find_folder(name, data_folders())
    if located is None:
        msg = f"The files of dataset {name} are not there. Install nnpdf-data."
        raise TheoryError(msg)
    meta = read_metadata(*located, VARIANTS.get(name, ()))
    rows = load_yaml(located[0] / meta["kinematics"]["file"])["bins"]
    x, q2, y = ([float(row[key]["mid"]) for row in rows] for key in ("xraw", "Q2", "y"))
    return tuple(zip(x, q2, y, strict=True))


def _rows(record: Record, tables: list[str]) -> list[list[int]]:
    """Return which points each of an operand's tables holds: all of them, or those of its beam energy."""
    if len(tables) == 1:
        return [list(range(record.n_data))]
    energies = np.array([float(table.split("_")[2].removesuffix("GEV")) for table in tables])
    kinematics = record.kinematics
    beam = kinematics["Q2"] / (2 * _NUCLEON_MASS * kinematics["x"] * kinematics["y"])
    nearest = np.abs(np.log(beam[:, None] / energies)).argmin(axis=1)
    if (np.diff(nearest) < 0).any():
        msg = f"The points of {record.name} are not ordered by beam energy, as its tables {', '.join(tables)} are."
        raise TheoryError(msg)
    return [np.flatnonzero(nearest == k).tolist() for k in range(len(tables))]


REQUESTS: dict[str, Callable[[], list[Request]]] = {
    "hera": hera,
    "fixed-target": fixed_target,
    "dis": lambda: [*hera(), *fixed_target()],
}
"""What can be built, by name."""

PARTS = {"hera": ("hera",), "fixed-target": ("fixed-target",), "dis": ("hera", "fixed-target")}
"""The folders of the package's own tables that belong to a name."""
