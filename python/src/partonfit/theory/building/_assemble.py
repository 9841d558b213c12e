r"""From coefficient functions to FK tables.

For a point at scale Q2 with coefficients :math:`C^{(k)}_{i,j}` (order k, flavour i, grid point j) and
the evolution operator E from Q0 to Q2,

.. math:: T_{a,l} = \sum_k a_s^k(Q^2) \sum_{i,j} C^{(k)}_{i,j} E_{ij,al}

so that the prediction is :math:`\sum T_{a,l} f_a(x_l, Q_0)` (arXiv:2302.12124, section 2).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from partonfit._vocabulary import EVOLUTION, PIDS, TO_FLAVOURS
from partonfit.theory.building import _schemes
from partonfit.theory.building._groups import Group, Point, Probe, Request
from partonfit.theory.evolution import EvolutionCard
from partonfit.theory.evolution._coupling import a_s
from partonfit.theory.evolution._operators import expand, operators

CHANNELS = {
    "g": 21, "T3": 103, "T8": 108, "T15": 115, "Sigma": 100,
    "V3": 203, "V8": 208, "V15": 215, "V": 200,
}  # fmt: skip
"""Combinations independent at Q0 with four flavours, and their numbers in PineAPPL's evolution basis."""

ISOVECTOR = ("T3", "V3")
"""Combinations that vanish in a nucleon that is half proton and half neutron."""


def to_evolution(values: np.ndarray, pids: Sequence[int]) -> np.ndarray:
    """Rotate coefficients (..., flavour, x) ordered by ``pids`` to the evolution basis (..., 14, x)."""
    names = {pid: name for name, pid in PIDS.items()}
    rows = [list(PIDS).index(names[int(pid)]) for pid in pids]
    return np.einsum("...fx,fe->...ex", values, TO_FLAVOURS[rows])


def weights(arrays: dict[str, np.ndarray], q2: float, card: EvolutionCard) -> np.ndarray:
    """Return the coefficients summed over orders in a_s (point, 14, x) at ``q2`` [GeV2]."""
    a = a_s(q2, card.flavours(q2), card)
    summed = np.tensordot(a ** arrays["orders"], arrays["values"], axes=(0, 1))
    return to_evolution(summed, arrays["pids"].tolist())


Known = dict[tuple[Probe, Point], np.ndarray]
"""Table rows (channel, x) of a proton, by probe and point."""


def rows(finished: Sequence[tuple[Group, dict[str, np.ndarray]]], card: EvolutionCard) -> Known:
    """Return the table rows (channel, x) of every point."""
    x = _schemes.x_grid()
    points = [(group.points[0][1], card.flavours(group.points[0][1])) for group, _ in finished]
    blocks = operators(x, x, points, card)
    keep = [EVOLUTION.index(name) for name in CHANNELS]
    result: Known = {}
    for (group, arrays), (q2, _), block in zip(finished, points, blocks, strict=True):
        operator = expand(block)[:, :, keep]
        table = np.tensordot(weights(arrays, q2, card), operator, axes=2)
        for point, row in zip(group.points, table, strict=True):
            result[group.probe, point] = row
    return result


def table_array(request: Request, computed: Known) -> np.ndarray:
    """Return the weights (point, channel, x) of one table; rows that were not computed are zero."""
    result = np.zeros((len(request.points), len(CHANNELS), _schemes.X_GRID_POINTS))
    for k in np.flatnonzero(request.computed):
        result[k] = computed[request.probe, request.points[k]]
    if request.target == "deuteron":  # u and d of the mean nucleon are equal, and evolution keeps them so
        result[:, [list(CHANNELS).index(name) for name in ISOVECTOR]] = 0.0
    return result


def write_table(path: Path, request: Request, values: np.ndarray, notes: dict[str, str]) -> None:
    """Write one ``.pineappl.lz4`` file, complete or not at all.

    Parameters
    ----------
    path
        The file.
    request
        Names and kinematics.
    values
        Weights (point, channel, x) on the grid of the scheme; x below all points is left out.
    notes
        Stored in the file as key and value.
    """
    from pineappl import (
        boc,  # pyright: ignore[reportAttributeAccessIssue]
        convolutions,  # pyright: ignore[reportAttributeAccessIssue]
        fk_table,  # pyright: ignore[reportAttributeAccessIssue]
        grid,  # pyright: ignore[reportAttributeAccessIssue]
        pids,  # pyright: ignore[reportAttributeAccessIssue]
        subgrid,  # pyright: ignore[reportAttributeAccessIssue]
    )

    x = _schemes.x_grid()
    first = int(np.flatnonzero(np.any(values != 0, axis=(0, 1)))[0])
    x, values = x[first:], values[..., first:]
    q02 = _schemes.SCHEMES["fonll-c"].theory["Q0"] ** 2
    edges = [boc.Bin([(q2, q2), (at, at), (y, y)], 1.0) for at, q2, y in request.points]
    table = grid.Grid(
        pid_basis=pids.PidBasis.Evol,
        channels=[boc.Channel([([pid], 1.0)]) for pid in CHANNELS.values()],
        orders=[boc.Order(0, 0, 0, 0, 0)],
        bins=boc.BinsWithFillLimits(edges, [float(k) for k in range(len(edges) + 1)]),
        convolutions=[convolutions.Conv(convolutions.ConvType(polarized=False, time_like=False), 2212)],
        interpolations=_interpolations(q02, x),
        kinematics=[boc.Kinematics.Scale(0), boc.Kinematics.X(0)],
        scale_funcs=boc.Scales(
            ren=boc.ScaleFuncForm.NoScale(0), fac=boc.ScaleFuncForm.Scale(0), frg=boc.ScaleFuncForm.NoScale(0)
        ),
    )
    for row, channels in enumerate(values):
        for channel, weight in enumerate(channels):
            if weight.any():
                nodes = [np.array([q02]), x]
                table.set_subgrid(0, row, channel, subgrid.ImportSubgridV1(weight[None], nodes).into())
    for key, value in notes.items():
        table.set_metadata(key, value)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".") as folder:
        temporary = Path(folder, path.name)
        fk_table.FkTable(table).write_lz4(str(temporary))
        temporary.replace(path)


def _interpolations(q02: float, x: np.ndarray) -> list[Any]:
    """Return PineAPPL's description of the two axes; the subgrids carry their own nodes."""
    from pineappl.interpolation import (  # pyright: ignore[reportMissingImports] (compiled module)
        Interp,
        InterpolationMethod,
        MappingMethod,
        ReweightingMethod,
    )

    plain = (ReweightingMethod.NoReweight,)
    lagrange = InterpolationMethod.Lagrange
    return [
        Interp(q02, q02 * 1.0001, 1, 0, *plain, MappingMethod.ApplGridH0, lagrange),
        Interp(float(x[0]), 1.0, len(x), 3, *plain, MappingMethod.ApplGridF2, lagrange),
    ]
