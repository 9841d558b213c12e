"""The data of :func:`train` as plain pytrees of arrays, checked before anything slow begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from partonfit._checks import real
from partonfit._errors import SettingError


@dataclass(frozen=True)
class Samples:
    """What the compiled program sees.

    Attributes
    ----------
    shared
        ``data``, ``validation`` (or ``None``) and their masks (``None``: every sample counts).
    members
        ``data`` and ``validation`` with arrays (member, sample, ...) where members have their own.
    count
        Number of training samples.
    """

    shared: dict[str, Any]
    members: dict[str, Any]
    count: int


def samples(data: Any, validation: Any, member_data: Any, members: int, precision: str, *, supervised: bool) -> Samples:
    """Return the samples of a training.

    Parameters
    ----------
    data, validation, member_data
        As :func:`train` takes them.
    members
        Number of members.
    precision
        Type that real arrays are given.
    supervised
        Whether data are (x, y, sample weight).

    Raises
    ------
    SettingError
        When arrays have different numbers of samples, or structures do not agree.
    """
    shared = _arrays(_triple(data, "data") if supervised else data, "data", precision)
    own = _own(_triple(member_data, "member_data") if supervised else member_data, shared, members, precision)
    count = _count(shared, "data")
    for array in jax.tree.leaves(own):
        if array.shape[1] != count:
            msg = f"member_data has {array.shape[1]} samples (second axis), but data has {count}."
            raise SettingError(msg)
    held, own_held = None, None
    if isinstance(validation, (int, float)) and not isinstance(validation, bool):
        fraction = real("validation", validation, above=0, most=1)
        cut = int(count * (1 - fraction))
        if not 0 < cut < count:
            msg = f"validation={validation} leaves {cut} of {count} samples for training; both parts need at least one."
            raise SettingError(msg)
        held, own_held = jax.tree.map(lambda a: a[cut:], shared), jax.tree.map(lambda a: a[:, cut:], own)
        shared, own = jax.tree.map(lambda a: a[:cut], shared), jax.tree.map(lambda a: a[:, :cut], own)
        count = cut
    elif validation is not None:
        held = _arrays(_triple(validation, "validation") if supervised else validation, "validation", precision)
        _count(held, "validation")
        # Sample weights may be there for one and not for the other.
        if jax.tree.structure(held[:2] if supervised else held) != jax.tree.structure(
            shared[:2] if supervised else shared
        ):
            msg = "validation must have the same structure (tuple, list or dict of arrays) as data."
            raise SettingError(msg)
    return Samples(
        {"data": shared, "mask": None, "validation": held, "validation_mask": None},
        {"data": own, "validation": own_held},
        count,
    )


def _triple(data: Any, name: str) -> Any:
    """Return (x, y, sample weight) with None for what is not there."""
    if data is None or not isinstance(data, tuple):
        return (data, None, None)
    if len(data) > 3:
        msg = f"{name} must be (x, y) or (x, y, sample_weight), not a tuple of {len(data)}."
        raise SettingError(msg)
    return (*data, *(None,) * (3 - len(data)))


def _arrays(tree: Any, name: str, precision: str) -> Any:
    """Return ``tree`` with plain arrays as leaves: nothing of it is ever stored on a Keras object."""

    def convert(leaf: Any) -> np.ndarray:
        array = np.asarray(leaf)
        if array.dtype.kind not in "fiub" or array.ndim == 0:
            msg = (
                f"{name} must hold arrays of numbers whose first axis is the sample, not "
                f"{type(leaf).__name__} ({array.dtype}, shape {array.shape})."
            )
            raise SettingError(msg)
        return array.astype(precision) if array.dtype.kind == "f" else array

    return jax.tree.map(convert, tree)


def _count(tree: Any, name: str) -> int:
    counts = sorted({len(leaf) for leaf in jax.tree.leaves(tree)})
    if len(counts) != 1 or counts[0] == 0:
        found = ", ".join(map(str, counts)) or "none"
        msg = f"The arrays of {name} must have the same number of samples (first axis), at least 1; found {found}."
        raise SettingError(msg)
    return counts[0]


def _own(tree: Any, shared: Any, members: int, precision: str) -> Any:
    """Return the members' own arrays in the structure of ``shared``, None where there are none."""
    arrays = _arrays(tree, "member_data", precision)
    for array in jax.tree.leaves(arrays):
        if array.shape[0] != members or array.ndim < 2:
            msg = f"Arrays of member_data must be (member, sample, ...) with {members} members, not {array.shape}."
            raise SettingError(msg)
    return arrays
