"""Positivity and integrability of a fit: from what the user asked for to the penalty, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from partonfit._errors import SettingError
from partonfit._vocabulary import completion
from partonfit.data import Constraint, load_constraints
from partonfit.inference import FitControl, Penalty, make_penalty
from partonfit.models import resolve_pdf
from partonfit.results._weights import Weights
from partonfit.theory import ForwardMap, Theory, forward_map, union_grid


def checked_constraints(constraints: Any) -> tuple[Constraint, ...]:
    """Return what ``fit_pdf(constraints=)`` stands for: a known set, entries, or loaded observables."""
    if constraints is None:
        return ()
    if not isinstance(constraints, str | dict) and isinstance(constraints, Iterable):
        items = list(constraints)
        if items and all(isinstance(item, Constraint) for item in items):
            return tuple(items)
        return load_constraints(items) if items else ()
    if not isinstance(constraints, str | dict):
        msg = f"constraints must be None, 'nnpdf40', or come from load_constraints(), not {constraints!r}."
        raise SettingError(msg)
    return load_constraints(constraints)


def constrained_maps(
    constraints: tuple[Constraint, ...], forward: ForwardMap, theory: Theory, control: FitControl, model: Any = None
) -> tuple[ForwardMap, Penalty | None]:
    """Return the map of the data as a fit needs it, and the penalty on the same grid.

    Rows quadratic in the PDF get their short form, and the grid grows by the x points of the
    constraints. What ``model`` gives decides which PDFs there are.
    """
    reference, complete = resolve_pdf("toy"), completion(model)
    penalty = None
    if constraints:
        own = forward_map([constraint.dataset for constraint in constraints], theory)
        grid = union_grid([forward.x, own.x])
        forward = forward.on(grid)
        penalty = make_penalty(
            constraints, own.on(grid), reference, epochs=control.epochs,
            positivity=control.multipliers("positivity"), integrability=control.multipliers("integrability"),
            threshold=control.positivity_threshold, tolerance=control.positivity_tolerance, completion=complete,
        )  # fmt: skip
    return forward.reduced(np.asarray(reference(forward.x)), complete, control.quadratic_tolerance), penalty


def constraint_settings(constraints: tuple[Constraint, ...]) -> list[dict[str, Any]] | None:
    """Return the constraints of a fit as plain values, with kind and number of points."""
    found = [c.entry() | {"kind": c.kind, "n_data": c.dataset.n_data} for c in constraints]
    return found or None


def final_losses(penalty: Penalty | None, weights: Weights, best_epoch: np.ndarray) -> np.ndarray | None:
    """Return the loss (replica, observable) of every constraint at the best epochs, with the whole tables."""
    if penalty is None:
        return None
    xf = weights.xf(penalty.forward.x, np.arange(len(weights)))
    return penalty.losses(xf, np.maximum(best_epoch, 0))
