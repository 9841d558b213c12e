"""The proof that a table is the theory it claims to be.

A table times the known PDF must equal what yadism itself predicts with that PDF evolved to the scale of
each point. yadism's prediction is its coefficients times f on its grid, times powers of the coupling.
The PDF is evolved from a finer grid than the table's, so the comparison includes the error of
interpolating the PDF on the 50 points of the table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from partonfit._errors import TheoryError
from partonfit._vocabulary import EVOLUTION
from partonfit.models._toy import toy_pdf
from partonfit.theory.building import _schemes
from partonfit.theory.building._assemble import CHANNELS, ISOVECTOR, weights
from partonfit.theory.building._groups import Group, Point, Probe, Request
from partonfit.theory.evolution import EvolutionCard, evolve, lambert_grid

LARGEST = 1e-3
"""A table that differs more than this from yadism's own prediction is an error, not an approximation."""

_FINE = 200


Predictions = dict[tuple[str, Probe, Point], float]
"""By target, probe and point."""


def direct(
    finished: Sequence[tuple[Group, dict[str, np.ndarray]]], card: EvolutionCard, x_in: np.ndarray
) -> Predictions:
    """Return yadism's prediction for the known PDF, evolved from the grid ``x_in``, at every point.

    For a deuteron the PDF is that of its mean nucleon, in which u and d are equal.
    """
    x = _schemes.x_grid()
    scales = [group.points[0][1] for group, _ in finished]
    targets = _targets(toy_pdf(x_in))
    evolved = evolve(np.stack([*targets.values()]), x_in, x, scales, card) / x
    result: Predictions = {}
    for k, ((group, arrays), q2) in enumerate(zip(finished, scales, strict=True)):
        predictions = np.einsum("pex,tex->tp", weights(arrays, q2, card), evolved[:, k])
        for target, values in zip(targets, predictions, strict=True):
            result |= {(target, group.probe, p): float(v) for p, v in zip(group.points, values, strict=True)}
    return result


def _targets(xf: np.ndarray) -> dict[str, np.ndarray]:
    mean = xf.copy()
    mean[[EVOLUTION.index(name) for name in ISOVECTOR]] = 0.0
    return {"proton": xf, "deuteron": mean}


def chain(
    requests: Sequence[Request],
    values: dict[str, np.ndarray],
    finished: Sequence[tuple[Group, dict[str, np.ndarray]]],
    card: EvolutionCard,
) -> dict[str, dict[str, float]]:
    """Return, by table, the largest and median relative difference from yadism's predictions.

    ``same_grid``: the PDF evolved from the table's own 50 points, which tests the chain alone;
    ``fine_grid``: from 200 points, which adds the table's interpolation error.

    Raises
    ------
    TheoryError
        When a table differs by more than :data:`LARGEST`.
    """
    x = _schemes.x_grid()
    rows = [EVOLUTION.index(name) for name in CHANNELS]
    f0 = toy_pdf(x)[rows] / x
    exact = {
        "same_grid": direct(finished, card, x),
        "fine_grid": direct(finished, card, lambert_grid(_FINE, _schemes.X_GRID_MIN)),
    }
    result = {}
    for request in requests:
        ours = np.einsum("pcx,cx->p", values[request.table], f0)
        numbers: dict[str, float] = {}
        for label, known in exact.items():
            keys = [(request.target, request.probe, point) for point in request.points]
            theirs = np.array([known.get(key, np.nan) for key in keys])
            difference = np.abs(ours / theirs - 1)[request.computed]
            numbers |= {f"{label}_max": float(difference.max()), f"{label}_median": float(np.median(difference))}
        if max(numbers.values()) > LARGEST:
            msg = f"Table {request.table} differs by {max(numbers.values()):.1e} from yadism's prediction."
            raise TheoryError(msg)
        result[request.table] = numbers
    return result
