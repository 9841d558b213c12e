"""``load_data``: from names to datasets after cuts."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from partonfit._errors import DataError, SettingError, nearest
from partonfit.data._catalogue import find_record
from partonfit.data._data import Data, collect
from partonfit.data._dataset import build_dataset
from partonfit.data._entries import Entry, read_entries
from partonfit.data._expressions import parse_condition
from partonfit.data._record import Record
from partonfit.data._rules import Rule, general_rules, published_rules

Q2MIN = 3.49
"""Default lower cut on Q2 [GeV2] of DIS data."""

W2MIN = 12.5
"""Default lower cut on W2 [GeV2] of DIS data."""


def load_data(
    entries: str | Mapping[str, Any] | Iterable[Any],
    *,
    q2min: float = Q2MIN,
    w2min: float = W2MIN,
    cuts: Mapping[str, str | Iterable[str]] | None = None,
    published_cuts: bool = True,
    data_dir: str | os.PathLike[str] | None = None,
) -> Data:
    """Load datasets and apply cuts.

    Parameters
    ----------
    entries
        A name, a mapping as in an n3fit runcard (``dataset``, ``variant``, ``frac``, ``cfac``,
        ``weight``, ``custom_group``), or a list of those. ``"hera"`` stands for the seven HERA I+II
        inclusive datasets that travel with the package. Former NNPDF names are understood.
    q2min, w2min
        DIS points are kept when Q2 > q2min and W2 > w2min [GeV2], with W2 = Q2 (1 - x) / x.
    cuts
        Further conditions on the points to keep, by dataset name: ``{"SET": "x > 0.1"}`` or a list
        of conditions. Names: ``x``, ``Q2``, ``Q``, ``W2``, ``y``, the dataset's own variables,
        ``value`` and ``index`` (from 0).
    published_cuts
        Whether the published per-dataset cuts apply too.
    data_dir
        A folder of further datasets in the layout of ``nnpdf-data``, searched first.

    Returns
    -------
    Data
        The datasets with at least one point left; :meth:`Data.cut_report` tells what was cut.

    Raises
    ------
    SettingError
        For malformed entries, numbers or conditions.
    DataError
        For unknown names and for files that are incomplete or contain numbers that are not finite.

    Examples
    --------
    >>> data = load_data("hera", q2min=10)
    >>> data.names[0], data.n_data
    ('HERA_NC_318GEV_EM-SIGMARED', 1007)
    """
    wanted = read_entries(entries)
    q2min, w2min = _limit(q2min, "q2min"), _limit(w2min, "w2min")
    own = _own_rules(cuts, wanted)
    datasets, conditions = [], {}
    for entry in wanted:
        record = _measurement(entry, data_dir)
        rules = general_rules(record.description["process"], q2min, w2min)
        if published_cuts:
            rules += published_rules(record.name, record.description["process"])
        if entry.dataset in own:
            conditions[record.name] = [rule.condition.text for rule in own[entry.dataset]]
        datasets.append(build_dataset(record, entry, rules + own.get(entry.dataset, [])))
    options = {
        "q2min": q2min,
        "w2min": w2min,
        "cuts": conditions or None,
        "published_cuts": bool(published_cuts),
        "data_dir": None if data_dir is None else str(Path(data_dir).resolve()),
    }
    return collect(datasets, options)


def _measurement(entry: Entry, data_dir: Any) -> Record:
    record = find_record(entry.dataset, entry.variant, data_dir)
    if not record.errors.any():
        msg = (
            f"'{record.name}' has no uncertainties, so it is no measurement to fit. Positivity and "
            "integrability observables are loaded with load_constraints()."
        )
        raise DataError(msg)
    return record


def _limit(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        msg = f"{name} must be a number of at least 0 [GeV2], not {value!r}."
        raise SettingError(msg)
    return float(value)


def _own_rules(cuts: Any, entries: list[Entry]) -> dict[str, list[Rule]]:
    if cuts is None:
        return {}
    if not isinstance(cuts, Mapping):
        msg = f"cuts must map dataset names to conditions, such as {{'{entries[0].dataset}': 'x > 0.1'}}."
        raise SettingError(msg)
    names = [entry.dataset for entry in entries]
    result: dict[str, list[Rule]] = {}
    for name, texts in cuts.items():
        if name not in names:
            suggestion = nearest(str(name), names, what="dataset")
            msg = f"A cut names the dataset '{name}', which is not loaded. {suggestion}"
            raise SettingError(msg)
        conditions = [texts] if isinstance(texts, str) or not isinstance(texts, Iterable) else list(texts)
        result[name] = [Rule(parse_condition(text), f"not {text}") for text in conditions]
    return result
