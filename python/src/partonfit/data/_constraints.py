"""Positivity and integrability observables: conditions on the PDF that are no measurements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from partonfit._errors import SettingError, nearest
from partonfit.data._catalogue import dataset_names, find_record
from partonfit.data._data import collect
from partonfit.data._dataset import Dataset, build_dataset
from partonfit.data._entries import Entry
from partonfit.data._expressions import parse_condition
from partonfit.data._rules import Rule

POSITIVITY, INTEGRABILITY = "NNPDF_POS", "NNPDF_INTEG"

_POSITIVITY_MAX, _DRELL_YAN_MAX, _INTEGRABILITY_MAX = 1e6, 1e10, 1e2

_NNPDF40: dict[str, str | None] = {
    **dict.fromkeys((f"NNPDF_POS_2P24GEV_{name}" for name in ("F2U", "F2D", "F2S")), None),
    "NNPDF_POS_2P24GEV_FLL": "x > 5.0e-7",
    **dict.fromkeys((f"NNPDF_POS_2P24GEV_{name}" for name in ("DYU", "DYD", "DYS")), None),
    "NNPDF_POS_2P24GEV_F2C": "x < 0.74",
    **{f"NNPDF_POS_2P24GEV_{n}": "x > 0.1" for n in ("XUQ", "XUB", "XDQ", "XDB", "XSQ", "XSB", "XGL")},
    "NNPDF_INTEG_3GEV_XT8": None,
    "NNPDF_INTEG_3GEV_XT3": None,
}


@dataclass(frozen=True, eq=False)
class Constraint:
    """One positivity or integrability observable.

    Attributes
    ----------
    dataset
        Its points and theory tables; the values are zero.
    kind
        "positivity" or "integrability".
    max_lambda
        The multiplier of its penalty at the end of training.
    condition
        The points kept, e.g. ``"x > 0.1"``; ``None``: all.
    """

    dataset: Dataset
    kind: str
    max_lambda: float
    condition: str | None = None

    def entry(self) -> dict[str, Any]:
        """Return the entry for :func:`load_constraints` that gives this observable, as plain values."""
        result = {"dataset": self.dataset.name, "maxlambda": self.max_lambda}
        return result if self.condition is None else result | {"rule": self.condition}


def load_constraints(
    entries: str | Mapping[str, Any] | Iterable[Any] = "nnpdf40",
    *,
    cuts: Mapping[str, str] | None = None,
    data_dir: Any = None,
) -> tuple[Constraint, ...]:
    """Load positivity and integrability observables.

    Parameters
    ----------
    entries
        ``"nnpdf40"`` for the set of the NNPDF4.0 fits with its cuts (arXiv:2109.02653, sections 3.1.3
        and 3.1.4), or names and mappings ``{dataset, maxlambda}`` as in an n3fit runcard; the key
        ``rule`` is a condition on the points to keep.
    cuts
        Conditions on the points to keep, by name (the runcard's ``added_filter_rules``).
    data_dir
        As in :func:`load_data`.

    Returns
    -------
    tuple of Constraint
        In the order given.

    Examples
    --------
    >>> constraints = load_constraints()
    >>> len(constraints), constraints[0].dataset.name, constraints[0].max_lambda
    (17, 'NNPDF_POS_2P24GEV_F2U', 1000000.0)
    """
    items: list[Any]
    own = dict(cuts or {})
    if isinstance(entries, str) and entries == "nnpdf40":
        items = list(_NNPDF40)
        own = {name: text for name, text in _NNPDF40.items() if text} | own
    else:
        items = [entries] if isinstance(entries, str | Mapping) else list(entries)
    read = [_entry(item) for item in items]
    names = [name for name, _, _ in read]
    _refuse_repeats(names)
    for name in own:
        if name not in names:
            msg = f"A cut names '{name}', which is not among the constraints. {nearest(name, names)}"
            raise SettingError(msg)
    own = {name: text for name, _, text in read if text is not None} | own
    rules = {name: [Rule(parse_condition(text), f"not {text}")] for name, text in own.items()}
    result = []
    for name, maximum, _ in read:
        record = find_record(name, (), data_dir)
        dataset = build_dataset(record, Entry(name), rules.get(name, []))
        collect([dataset])  # refuses an empty one
        most = _default(name) if maximum is None else maximum
        result.append(Constraint(dataset, _kind(name), most, own.get(name)))
    return tuple(result)


def _refuse_repeats(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            msg = f"The constraint '{name}' is listed {names.count(name)} times. Keep one."
            raise SettingError(msg)


def _kind(name: str) -> str:
    return "positivity" if name.startswith(POSITIVITY) else "integrability"


def _default(name: str) -> float:
    if name.startswith(INTEGRABILITY):
        return _INTEGRABILITY_MAX
    return _DRELL_YAN_MAX if name.rpartition("_")[2].startswith("DY") else _POSITIVITY_MAX


def _entry(item: Any) -> tuple[str, float | None, str | None]:
    """Return name, maximum and condition of an entry."""
    keys = ("dataset", "maxlambda", "rule")
    if isinstance(item, str):
        item = {"dataset": item}
    if not isinstance(item, Mapping) or not isinstance(item.get("dataset"), str):
        msg = f"A constraint must be a name or a mapping with the key 'dataset', not {item!r}."
        raise SettingError(msg)
    for key in item:
        if key not in keys:
            suggestion = nearest(str(key), keys, what="key")
            msg = f"Unknown key '{key}' in the constraint '{item['dataset']}'. {suggestion}"
            raise SettingError(msg)
    name, maximum = item["dataset"], item.get("maxlambda")
    if not name.startswith((POSITIVITY, INTEGRABILITY)):
        known = [n for n in dataset_names() if n.startswith((POSITIVITY, INTEGRABILITY))]
        suggestion = nearest(name, known, what="constraint")
        msg = f"'{name}' is no positivity or integrability observable. {suggestion}"
        raise SettingError(msg)
    rule = item.get("rule")
    if rule is not None and not isinstance(rule, str):
        msg = f"'rule' of '{name}' must be a condition such as 'x > 0.1', not {rule!r}."
        raise SettingError(msg)
    if maximum is None:
        return name, None, rule
    if isinstance(maximum, bool) or not isinstance(maximum, int | float) or not 0 <= maximum < math.inf:
        msg = f"'maxlambda' of '{name}' must be a number of at least 0, not {maximum!r}."
        raise SettingError(msg)
    return name, float(maximum), rule
