"""Building the forward map of data under a theory.

All tables are put on the union of their x grids, without interpolation: a table keeps its own x
points, which are columns of the union.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from partonfit._errors import TheoryError
from partonfit._vocabulary import EVOLUTION
from partonfit.data import Data, Dataset
from partonfit.theory._forward import ForwardMap, PointGroup, QuadraticRows, columns_of, union_grid
from partonfit.theory._operations import OPERATIONS, operation
from partonfit.theory._tables import FKTable, channel_rows
from partonfit.theory._theory import Theory


def table_names(datasets: Iterable[Dataset]) -> tuple[str, ...]:
    """Return the names of all tables that the datasets need, without repetition."""
    names = (name for dataset in datasets for operand in dataset.tables for name in operand)
    return tuple(dict.fromkeys(names))


def forward_map(data: Data | Sequence[Dataset], theory: Theory) -> ForwardMap:
    """Build the forward map of data under a theory.

    Parameters
    ----------
    data
        The data after cuts (or a list of datasets, such as positivity observables).
    theory
        The theory with their tables.

    Raises
    ------
    TheoryError
        When a table is missing (all are looked for before the first is read), damaged, has another
        number of rows than the dataset, is empty for a point that passed the cuts, or belongs to
        another starting scale.
    """
    datasets = data.datasets if isinstance(data, Data) else tuple(data)
    measured = isinstance(data, Data)
    for dataset in datasets:
        if not dataset.tables:
            msg = f"Dataset {dataset.name} names no theory table, so it cannot be predicted."
            raise TheoryError(msg)
        operation(dataset.operation, len(dataset.tables), dataset.name)
    names = table_names(datasets)
    theory.check(names)
    tables = {name: theory.table(name) for name in names}
    q0 = _common_scale(tables.values())
    x = union_grid(table.x for table in tables.values())
    builder = _Builder(x, theory)
    groups, linear, start = [], [], 0
    for dataset in datasets:
        points = np.arange(start, start + dataset.n_data)
        start += dataset.n_data
        rows, is_linear = builder.add(dataset, measured)
        groups.append(PointGroup(dataset.operation, points, rows))
        linear.append(np.full(dataset.n_data, is_linear))
    return builder.finish(_merged(groups), np.concatenate(linear), q0, _hash(tables, builder.factors))


class _Builder:
    """Collects rows dataset by dataset."""

    def __init__(self, x: np.ndarray, theory: Theory) -> None:
        self.x, self.theory = x, theory
        self.n_rows = 0
        self.matrix: list[np.ndarray] = []
        self.linear_rows: list[np.ndarray] = []
        self.quadratic: list[QuadraticRows] = []
        self.factors = hashlib.sha256()

    def add(self, dataset: Dataset, measured: bool) -> tuple[np.ndarray, bool]:
        """Add the rows of a dataset; return them (operand, point) and whether its points are linear."""
        linear = OPERATIONS[dataset.operation].linear
        operands = []
        for number, names in enumerate(dataset.tables):
            tables = [self.theory.table(name) for name in names]
            linear &= all(table.linear for table in tables)
            places = _places(dataset, tables, number)
            rows = np.full(dataset.n_data, -1)
            for table, first in zip(tables, places, strict=True):
                if first is None:  # one number for all points: a normalisation
                    rows[:] = self._rows(dataset, table, np.array([0]), measured)
                    continue
                here = (dataset.kept >= first) & (dataset.kept < first + table.n_data)
                rows[here] = self._rows(dataset, table, dataset.kept[here] - first, measured)
            _check_covered(dataset, names, rows)
            operands.append(rows)
        return np.stack(operands), linear

    def _rows(self, dataset: Dataset, table: FKTable, chosen: np.ndarray, measured: bool) -> np.ndarray:
        factor = self._factor(dataset, table)
        values = table.values[chosen] * factor[chosen].reshape(-1, *[1] * (table.values.ndim - 1))
        if measured and len(empty := np.flatnonzero(~values.any(axis=tuple(range(1, values.ndim))))):
            msg = (
                f"The table {table.name} is empty in row {chosen[empty[0]]}, for a point of dataset "
                f"{dataset.name} that passed the cuts. It was built with tighter cuts: raise q2min or w2min."
            )
            raise TheoryError(msg)
        rows = np.arange(self.n_rows, self.n_rows + len(chosen))
        self.n_rows += len(chosen)
        columns = columns_of(self.x, table.x)
        if table.linear:
            full = np.zeros((len(chosen), len(EVOLUTION), len(self.x)))
            flavours = [EVOLUTION.index(name) for name in table.flavours]
            full[np.ix_(np.arange(len(chosen)), flavours, columns)] = values
            self.matrix.append(full)
            self.linear_rows.append(rows)
        else:
            first, second = channel_rows(table.flavours)
            block = QuadraticRows(rows, columns, np.array(first), np.array(second), values)
            self.quadratic.append(block)
        return rows

    def _factor(self, dataset: Dataset, table: FKTable) -> np.ndarray:
        """Return what the rows of a table are multiplied with (row,)."""
        factor = np.full(table.n_data, dataset.conversion_factor * dataset.normalization.get(table.name, 1.0))
        for name in dataset.cfac:
            numbers = self.theory.cfactor(name, table.name)
            if len(numbers) != table.n_data:
                msg = (
                    f"The C-factor '{name}' of table {table.name} has {len(numbers)} rows, "
                    f"but the table has {table.n_data}."
                )
                raise TheoryError(msg)
            factor *= numbers
            self.factors.update(numbers.tobytes())
        return factor

    def finish(self, groups: tuple[PointGroup, ...], linear: np.ndarray, q0: float, digest: str) -> ForwardMap:
        """Return the map."""
        shape = (0, len(EVOLUTION), len(self.x))
        return ForwardMap(
            x=self.x,
            matrix=np.concatenate(self.matrix) if self.matrix else np.zeros(shape),
            linear_rows=np.concatenate(self.linear_rows) if self.linear_rows else np.zeros(0, dtype=int),
            quadratic=tuple(self.quadratic),
            n_rows=self.n_rows,
            groups=groups,
            linear=linear,
            q0=q0,
            hash=digest,
        )


def _places(dataset: Dataset, tables: list[FKTable], operand: int) -> Iterator[int | None]:
    """Return at which published point each table of an operand starts; None for a single number for all."""
    total = sum(table.n_data for table in tables)
    if operand > 0 and len(tables) == 1 and (total == 1 or not tables[0].values[1:].any()):
        return iter([None])
    shifts = [dataset.shifts.get(table.name, 0) for table in tables]
    if total != dataset.n_uncut and not any(shifts):
        names = " + ".join(f"{table.name} ({table.n_data})" for table in tables)
        msg = (
            f"The theory has {total} rows for dataset {dataset.name}, but the dataset has {dataset.n_uncut} "
            f"points before cuts. Tables and rows: {names}. Use tables built for this dataset."
        )
        raise TheoryError(msg)
    places, first = [], 0
    for table, shift in zip(tables, shifts, strict=True):
        places.append(first + shift)
        first += shift + table.n_data
    return iter(places)


def _check_covered(dataset: Dataset, names: Iterable[str], rows: np.ndarray) -> None:
    missing = np.flatnonzero(rows < 0)
    if len(missing):
        msg = (
            f"The tables {', '.join(names)} have no row for index {dataset.kept[missing[0]]} of dataset "
            f"{dataset.name}. Cut the point or use complete tables."
        )
        raise TheoryError(msg)


def _common_scale(tables: Iterable[FKTable]) -> float:
    scales: dict[str, float] = {table.name: table.q0 for table in tables}
    first, q0 = next(iter(scales.items()))
    for name, other in scales.items():
        if abs(other / q0 - 1) > 1e-6:
            msg = f"Tables start at different scales: {first} at Q0 = {q0:g} GeV, {name} at {other:g} GeV."
            raise TheoryError(msg)
    return q0


def _merged(groups: list[PointGroup]) -> tuple[PointGroup, ...]:
    """Join the groups with the same operation, so that combining takes few steps."""
    result = []
    for name in dict.fromkeys(group.operation for group in groups):
        same = [group for group in groups if group.operation == name]
        points = np.concatenate([group.points for group in same])
        result.append(PointGroup(name, points, np.concatenate([group.rows for group in same], axis=1)))
    return tuple(result)


def _hash(tables: dict[str, FKTable], factors: Any) -> str:
    text = ";".join(f"{name}:{tables[name].hash}" for name in sorted(tables))
    return hashlib.sha256(f"{text};{factors.hexdigest()}".encode()).hexdigest()
