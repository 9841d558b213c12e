"""What a user may write for "data": names and mappings, checked and made uniform."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from partonfit._errors import SettingError, nearest
from partonfit.data._catalogue import EMBEDDED, VARIANTS

KEYS = ("dataset", "variant", "frac", "cfac", "weight", "custom_group")


@dataclass(frozen=True)
class Entry:
    """One checked entry of a dataset list.

    Attributes
    ----------
    dataset
        Name of the dataset.
    variant
        Variants to apply, in order.
    frac
        Fraction of the points used for training, in (0, 1]; None leaves it to the fit's settings.
    cfac
        Names of C-factors (bin-by-bin corrections of the prediction).
    weight
        The dataset's block of the covariance is divided by this number.
    group
        Name under which results are collected; None takes the experiment.
    """

    dataset: str
    variant: tuple[str, ...] = ()
    frac: float | None = None
    cfac: tuple[str, ...] = ()
    weight: float = 1.0
    group: str | None = None


def read_entries(entries: str | Mapping[str, Any] | Entry | Iterable[Any]) -> list[Entry]:
    """Return the checked list of entries; the name of an embedded group stands for its datasets.

    Raises
    ------
    SettingError
        For an empty list, a duplicate, an unknown key or a value out of range.

    Examples
    --------
    >>> read_entries({"dataset": "NMC_NC_NOTFIXED_P_EM-SIGMARED", "variant": "legacy", "frac": 0.75})
    [Entry(dataset='NMC_NC_NOTFIXED_P_EM-SIGMARED', variant=('legacy',), frac=0.75, ...)]
    """
    if isinstance(entries, str | Mapping | Entry):
        entries = [entries]
    try:
        items = list(entries)
    except TypeError:
        msg = f"data must be a dataset name or a list of entries, not {entries!r}."
        raise SettingError(msg) from None
    result: list[Entry] = []
    for item in items:
        if isinstance(item, str) and item in EMBEDDED:
            result.extend(Entry(name, VARIANTS.get(name, ())) for name in EMBEDDED[item])
        else:
            result.append(_entry(item))
    if not result:
        msg = "The list of datasets is empty. Name at least one, for instance 'hera'."
        raise SettingError(msg)
    seen: set[str] = set()
    for entry in result:
        if entry.dataset in seen:
            msg = f"Dataset '{entry.dataset}' is listed twice. Remove one of the entries."
            raise SettingError(msg)
        seen.add(entry.dataset)
    return result


def _entry(item: Any) -> Entry:
    if isinstance(item, Entry):
        return item
    if isinstance(item, str):
        if not item.strip():
            msg = "A dataset name is empty."
            raise SettingError(msg)
        return Entry(item.strip())
    if not isinstance(item, Mapping):
        msg = f"A dataset entry must be a name or a mapping with the key 'dataset', not {item!r}."
        raise SettingError(msg)
    for key in item:
        if key not in KEYS:
            hint = "Use 'variant' instead." if key == "sys" else nearest(str(key), KEYS, what="key")
            msg = f"Unknown key '{key}' in the entry of dataset '{item.get('dataset', '?')}'. {hint}"
            raise SettingError(msg)
    name = item.get("dataset")
    if not isinstance(name, str) or not name.strip():
        msg = f"The entry {dict(item)!r} lacks the key 'dataset' (a name)."
        raise SettingError(msg)
    group = item.get("custom_group")
    return Entry(
        dataset=name.strip(),
        variant=_names(item.get("variant"), "variant", name),
        frac=_fraction(item.get("frac"), name),
        cfac=_names(item.get("cfac"), "cfac", name),
        weight=_weight(item.get("weight", 1.0), name),
        group=None if group is None else str(group),
    )


def _names(value: Any, key: str, name: str) -> tuple[str, ...]:
    if value is None:
        return ()
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple) else None
    if names is None or not all(isinstance(one, str) for one in names):
        msg = f"'{key}' of dataset '{name}' must be a name or a list of names, not {value!r}."
        raise SettingError(msg)
    return names


def _real(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    return float(value)


def _fraction(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if not 0 < (fraction := _real(value)) <= 1:
        msg = f"'frac' of dataset '{name}' must be a number above 0 and at most 1, not {value!r}."
        raise SettingError(msg)
    return fraction


def _weight(value: Any, name: str) -> float:
    if not 0 < (weight := _real(value)) < math.inf:
        msg = f"'weight' of dataset '{name}' must be a number above 0, not {value!r}."
        raise SettingError(msg)
    return weight
