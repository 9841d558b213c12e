"""A dataset after cuts, with its uncertainties sorted by how they act."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from partonfit._errors import DataError
from partonfit.data._entries import Entry
from partonfit.data._record import INDEPENDENT, WITHIN, Record
from partonfit.data._rules import Rule


@dataclass(frozen=True, eq=False)
class Systematics:
    """The systematic uncertainties of a dataset.

    Attributes
    ----------
    additive
        Absolute sizes (data, source), in the units of the data.
    additive_types
        For each additive source "UNCORR", "CORR", "THEORYUNCORR", "THEORYCORR", or the name under
        which the source is shared with other datasets.
    percent
        Sizes of the multiplicative sources in percent of the value (data, source).
    percent_types
        The types of the multiplicative sources.
    """

    additive: np.ndarray
    additive_types: tuple[str, ...]
    percent: np.ndarray
    percent_types: tuple[str, ...]

    @property
    def types(self) -> tuple[str, ...]:
        """Types of all sources, additive ones first."""
        return self.additive_types + self.percent_types

    def absolute(self, values: np.ndarray) -> np.ndarray:
        """Return all sources as absolute sizes (data, source); ``values`` scale the multiplicative ones."""
        return np.concatenate([self.additive, self.percent * values[:, None] / 100], axis=1)


@dataclass(frozen=True, eq=False)
class Dataset:
    """One measured dataset after cuts.

    Attributes
    ----------
    name, variant, process, experiment, label, title, units
        What it is; ``units`` are those of the values.
    values
        Central values (data,).
    stat
        Statistical uncertainties (data,).
    systematics
        All other uncertainties.
    kinematics
        Variable name to array (data,); for DIS ``x``, ``Q2`` [GeV2], ``Q`` [GeV], ``W2`` [GeV2], ``y``.
    kept
        Row numbers of the points in the published dataset (data,), counted from 0.
    n_uncut
        Number of published points: the number of rows a theory table must have.
    operation, tables, conversion_factor, normalization, shifts
        How predictions follow from theory tables: one tuple of table names per operand.
    cfac
        Names of the C-factors to apply.
    frac
        Fraction of the points for training, or None.
    weight
        The covariance is divided by it.
    group
        Name under which results are collected.
    cuts
        Reason to number of points cut.
    variables
        For each variable its "label" (TeX), "units" and "description".
    plotting
        Hints for figures: "plot_x", "x_scale", "y_scale", "line_by", "figure_by", "y_label".
    """

    name: str
    variant: tuple[str, ...]
    process: str
    experiment: str
    label: str
    title: str
    units: str
    values: np.ndarray
    stat: np.ndarray
    systematics: Systematics
    kinematics: Mapping[str, np.ndarray]
    kept: np.ndarray
    n_uncut: int
    operation: str
    tables: tuple[tuple[str, ...], ...]
    conversion_factor: float
    normalization: Mapping[str, float]
    shifts: Mapping[str, int]
    cfac: tuple[str, ...]
    frac: float | None
    weight: float
    group: str
    cuts: Mapping[str, int]
    variables: Mapping[str, Mapping[str, str]] = field(repr=False)
    plotting: Mapping[str, Any] = field(repr=False)

    def __repr__(self) -> str:
        """Return one line: name, variant, points."""
        variant = f" ({'+'.join(self.variant)})" if self.variant else ""
        return f"<Dataset {self.name}{variant}: {self.n_data} of {self.n_uncut} points, {self.process}>"

    @property
    def n_data(self) -> int:
        """Number of points after cuts."""
        return len(self.values)

    @property
    def total_error(self) -> np.ndarray:
        """Square root of the sum of squares of all uncertainties (data,)."""
        return np.sqrt(self.stat**2 + (self.systematics.absolute(self.values) ** 2).sum(axis=1))

    @property
    def uncorrelated_error(self) -> np.ndarray:
        """Square root of the sum of squares of the point-to-point independent uncertainties (data,)."""
        sizes = self.systematics.absolute(self.values)
        independent = np.array([t in INDEPENDENT for t in self.systematics.types], dtype=bool)
        return np.sqrt(self.stat**2 + (sizes[:, independent] ** 2).sum(axis=1))

    def with_values(self, values: np.ndarray) -> Dataset:
        """Return the same dataset with other central values; multiplicative sources keep their percentage."""
        values = np.array(values, dtype=np.float64)
        if values.shape != self.values.shape:
            msg = f"Dataset {self.name} has {self.n_data} points, but {values.shape} values were given."
            raise DataError(msg)
        _refuse_non_finite(values, self.name)
        values.setflags(write=False)
        return replace(self, values=values)

    def entry(self) -> dict[str, Any]:
        """Return the entry for :func:`load_data` that gives this dataset, as plain values."""
        own = {"variant": list(self.variant), "frac": self.frac, "cfac": list(self.cfac)}
        result = {"dataset": self.name} | {key: value for key, value in own.items() if value}
        if self.weight != 1:
            result["weight"] = self.weight
        if self.group != self.experiment:
            result["custom_group"] = self.group
        return result

    def digest(self) -> str:
        """Return the SHA-256 of everything that influences a fit."""
        header = [
            self.name, self.operation, self.tables, self.conversion_factor, dict(self.normalization),
            dict(self.shifts), self.cfac, self.weight, self.n_uncut, self.systematics.types,
        ]  # fmt: skip
        sha = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
        for array in (self.values, self.stat, self.systematics.additive, self.systematics.percent):
            sha.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
        sha.update(np.ascontiguousarray(self.kept, dtype="<i8").tobytes())
        return sha.hexdigest()


def build_dataset(record: Record, entry: Entry, rules: Sequence[Rule]) -> Dataset:
    """Return the dataset of a record after cuts (possibly with no points left)."""
    kinematics = _variables(record)
    kept, cuts = apply_rules(record, kinematics, rules)
    about, theory = record.description, record.description["theory"]
    stat, systematics = _uncertainties(record, kept)
    return Dataset(
        name=record.name,
        variant=record.variant or entry.variant,
        process=about["process"],
        experiment=about["experiment"],
        label=about["label"],
        title=about["title"],
        units=about["units"],
        values=_frozen(record.values[kept]),
        stat=stat,
        systematics=systematics,
        kinematics={name: _frozen(array[kept]) for name, array in kinematics.items()},
        kept=_frozen(kept),
        n_uncut=record.n_data,
        operation=theory["operation"],
        tables=tuple(tuple(operand) for operand in theory["tables"]),
        conversion_factor=theory["conversion_factor"],
        normalization=theory["normalization"],
        shifts=theory["shifts"],
        cfac=entry.cfac,
        frac=entry.frac,
        weight=entry.weight,
        group=entry.group or about["experiment"],
        cuts=cuts,
        variables=about["variables"],
        plotting=about["plotting"],
    )


def apply_rules(
    record: Record, kinematics: Mapping[str, np.ndarray], rules: Sequence[Rule]
) -> tuple[np.ndarray, dict[str, int]]:
    """Return the row numbers kept and, per reason, how many points the rule was the first to cut."""
    keep = np.ones(record.n_data, dtype=bool)
    cuts: dict[str, int] = {}
    variables = {**kinematics, "value": record.values, "index": np.arange(record.n_data, dtype=np.float64)}
    for rule in rules:
        try:
            passed = np.broadcast_to(rule.condition(variables), keep.shape)
        except DataError as error:
            msg = f"Dataset {record.name}: {error}"
            raise DataError(msg) from None
        lost = int((keep & ~passed).sum())
        if lost:
            cuts[rule.reason] = cuts.get(rule.reason, 0) + lost
        keep &= passed
    return np.flatnonzero(keep), cuts


def _variables(record: Record) -> dict[str, np.ndarray]:
    """Return the published variables plus, for DIS, Q and W2 = Q2 (1 - x) / x (massless, as in the cuts)."""
    found = {name: np.asarray(array, dtype=np.float64) for name, array in record.kinematics.items()}
    if record.description["process"].startswith("DIS"):
        if "Q" in found and "Q2" not in found:
            found["Q2"] = found["Q"] ** 2
        if "Q2" in found:
            found.setdefault("Q", np.sqrt(found["Q2"]))
        if "x" in found and "Q2" in found:
            found["W2"] = found["Q2"] * (1 - found["x"]) / found["x"]
    return found


def _uncertainties(record: Record, kept: np.ndarray) -> tuple[np.ndarray, Systematics]:
    stat = np.zeros(len(kept))
    groups: dict[str, list[int]] = {"ADD": [], "MULT": []}
    for j, (name, treatment, kind) in enumerate(zip(record.error_names, record.treatments, record.types, strict=True)):
        if name.casefold() == "stat" and treatment == "ADD" and kind == "UNCORR":
            stat = np.array(record.errors[kept, j])
        elif kind != "SKIP":
            groups[treatment].append(j)
    types = [tuple(record.types[j] for j in groups[treatment]) for treatment in ("ADD", "MULT")]
    for kind in {t for t in types[0] + types[1] if t not in INDEPENDENT + WITHIN}:
        if (types[0] + types[1]).count(kind) > 1:
            msg = f"Dataset {record.name} lists the shared source '{kind}' twice."
            raise DataError(msg)
    multiplicative = record.errors[np.ix_(kept, groups["MULT"])]
    return _frozen(stat), Systematics(
        additive=_frozen(record.errors[np.ix_(kept, groups["ADD"])]),
        additive_types=types[0],
        percent=_frozen(_percent(multiplicative, record, kept)),
        percent_types=types[1],
    )


def _percent(sizes: np.ndarray, record: Record, kept: np.ndarray) -> np.ndarray:
    """Return absolute sizes as percentages of the central values."""
    values = record.values[kept]
    undefined = np.argwhere((values == 0)[:, None] & (sizes != 0))
    if len(undefined):
        msg = (
            f"Dataset {record.name} has a multiplicative uncertainty on a value of zero at index "
            f"{kept[undefined[0][0]]}: its percentage is undefined. Cut the point."
        )
        raise DataError(msg)
    return sizes * (100 / np.where(values == 0, 1.0, values))[:, None]


def _frozen(array: np.ndarray) -> np.ndarray:
    result = np.array(array)
    result.setflags(write=False)
    return result


def _refuse_non_finite(values: np.ndarray, name: str) -> None:
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        msg = f"The value given for dataset {name} at index {bad[0]} is not finite: {values[bad[0]]}."
        raise DataError(msg)
