"""What the outputs of a model's network stand for, and how they become the combinations of a fit."""

from __future__ import annotations

import numpy as np

from partonfit._errors import SettingError, nearest
from partonfit._vocabulary import EVOLUTION, FITTED, FITTED_V15, FLAVOURS, FROM_FLAVOURS, PARTONS, PARTONS_CBAR

BASES = ("evolution", "flavour")


def checked_basis(basis: str) -> str:
    """Return ``basis``, or raise :class:`SettingError`."""
    if basis not in BASES:
        msg = f"basis must be 'evolution' or 'flavour', not {basis!r}. {nearest(str(basis), BASES, what='basis')}"
        raise SettingError(msg)
    return basis


def fitted_of(charm_asymmetry: bool) -> tuple[str, ...]:
    """Return the combinations of the evolution basis that a model gives."""
    return FITTED_V15 if charm_asymmetry else FITTED


def outputs_of(basis: str, charm_asymmetry: bool) -> tuple[str, ...]:
    """Return the names of the network's outputs.

    Examples
    --------
    >>> outputs_of("flavour", False)
    ('u', 'ubar', 'd', 'dbar', 's', 'sbar', 'c', 'g')
    """
    if checked_basis(basis) == "evolution":
        return fitted_of(charm_asymmetry)
    return PARTONS_CBAR if charm_asymmetry else PARTONS


def turn_of(basis: str, charm_asymmetry: bool) -> np.ndarray | None:
    """Return the matrix (output, fitted) from the network's outputs; ``None`` where they are the same.

    Without a charm asymmetry the output c stands for charm and anticharm alike.
    """
    if checked_basis(basis) == "evolution":
        return None
    names = outputs_of(basis, charm_asymmetry)
    rows = FROM_FLAVOURS[[EVOLUTION.index(name) for name in fitted_of(charm_asymmetry)]]
    columns = rows[:, [FLAVOURS.index(name) for name in names]]
    if not charm_asymmetry:
        columns[:, names.index("c")] += rows[:, FLAVOURS.index("cbar")]
    return np.ascontiguousarray(columns.T)
