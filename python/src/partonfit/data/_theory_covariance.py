r"""Theory uncertainties of data: a covariance with labels, as a sum over sources.

The matrix is :math:`S = A A^T` with one row of :math:`A` per labelled data point and one column per
independent source. Rows are found by label (dataset and row number in the published dataset), never by
position, so neither the order of the datasets nor cuts can misalign them.
"""

from __future__ import annotations

import hashlib
import warnings
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from partonfit._errors import DataError, SettingError, StorageError
from partonfit.data._data import Data

if TYPE_CHECKING:
    import pandas as pd

Label = tuple[str, int]
"""Name of the dataset and row number in the published dataset, from 0."""

_NEGATIVE, _NEGLIGIBLE = 1e-6, 1e-13
"""Eigenvalues relative to the largest: below minus the first is an error, below the second is left out."""


@dataclass(frozen=True, eq=False)
class TheoryCovariance:
    """Covariance of theory uncertainties, made by ``scale_covariance()`` or ``load_theory_covariance()``.

    Attributes
    ----------
    labels
        For each row its dataset and its row number in the published dataset.
    sizes
        Size of each source (label, source): the covariance is ``sizes @ sizes.T``.
    sources
        A label of strings for each source; sources of different labels are independent.
    description
        Plain values: how it was made.

    Examples
    --------
    >>> one = TheoryCovariance.from_matrix([("A", 0), ("A", 1)], [[4.0, 2.0], [2.0, 1.0]])
    >>> one.matrix().round(6)
    array([[4., 2.],
           [2., 1.]])
    """

    labels: tuple[Label, ...]
    sizes: np.ndarray = field(repr=False)
    sources: tuple[tuple[str, ...], ...] = field(repr=False)
    description: Mapping[str, Any]

    @classmethod
    def from_matrix(
        cls, labels: Iterable[Label], matrix: Any, description: Mapping[str, Any] | None = None
    ) -> TheoryCovariance:
        """Return the covariance that a symmetric matrix (label, label) holds.

        Raises
        ------
        DataError
            When labels repeat, or the matrix has another shape, is not finite, not symmetric or has
            negative eigenvalues.
        """
        given = [(str(name), int(row)) for name, row in labels]
        values = _checked_matrix(given, np.asarray(matrix, dtype=np.float64))
        order = sorted(range(len(given)), key=given.__getitem__)  # eigenvectors depend on the order
        found, vectors = np.linalg.eigh(values[np.ix_(order, order)])
        largest = max(float(found[-1]), 0.0)
        if found[0] < -_NEGATIVE * largest or (largest == 0 and found[0] < 0):
            msg = (
                f"The theory covariance has a negative eigenvalue ({found[0]:.3g}; the largest is {largest:.3g}), "
                "so it is no covariance. Check how it was made."
            )
            raise DataError(msg)
        keep = found > _NEGLIGIBLE * largest
        return cls(
            tuple(given[i] for i in order),
            vectors[:, keep] * np.sqrt(found[keep]),
            tuple(("matrix", str(k)) for k in range(int(keep.sum()))),
            dict(description or {"made": "from a matrix"}),
        )

    def __len__(self) -> int:
        """Return the number of labelled points."""
        return len(self.labels)

    def __add__(self, other: TheoryCovariance) -> TheoryCovariance:
        """Return the sum of two covariances whose sources are independent of each other."""
        labels = sorted({*self.labels, *other.labels})
        parts = (self, other)
        return TheoryCovariance(
            tuple(labels),
            np.concatenate([part._rows(labels) for part in parts], axis=1),
            tuple((str(k), *source) for k, part in enumerate(parts) for source in part.sources),
            {"sum of": [dict(part.description) for part in parts]},
        )

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of the datasets that it speaks of, sorted."""
        return tuple(sorted({name for name, _ in self.labels}))

    @cached_property
    def hash(self) -> str:
        """SHA-256 of labels and matrix; the order of the labels does not matter."""
        order = sorted(range(len(self)), key=self.labels.__getitem__)
        sha = hashlib.sha256(repr([self.labels[i] for i in order]).encode())
        sha.update(np.ascontiguousarray((self.sizes @ self.sizes.T)[np.ix_(order, order)], dtype="<f4").tobytes())
        return sha.hexdigest()

    def matrix(self) -> np.ndarray:
        """Return the covariance (label, label)."""
        return self.sizes @ self.sizes.T

    def scaled(self, factor: float) -> TheoryCovariance:
        """Return the covariance times ``factor``."""
        if not factor >= 0:
            msg = f"The factor of a theory covariance must be at least 0, not {factor!r}."
            raise DataError(msg)
        return replace(self, sizes=self.sizes * np.sqrt(factor), description={**self.description, "factor": factor})

    def on(self, data: Data) -> TheoryCovariance:
        """Return the covariance of ``data``: the same labels in the same order.

        Datasets of the covariance that are not among the data (cut away whole, for instance) are left out
        with a warning; data it says nothing about get no theory uncertainty, with a warning.

        Raises
        ------
        DataError
            When it holds some points of a dataset, but not all that passed the cuts.
        """
        if self.labels == data.labels:
            return self
        known = set(self.labels)
        present, here = set(self.datasets), set(data.names)
        dropped = {dataset.name for dataset in data.dropped}
        for name in sorted(present - here):
            why = "has no point left after the cuts" if name in dropped else "is not among the data"
            warnings.warn(f"Dataset {name} {why}: its theory covariance is left out.", stacklevel=2)
        for name in sorted(here - present):
            warnings.warn(f"The theory covariance says nothing about dataset {name}.", stacklevel=2)
        for name, row in data.labels:
            if name in present and (name, row) not in known:
                msg = f"The theory covariance has no entry for dataset {name} at index {row}, which passed the cuts."
                raise DataError(msg)
        return replace(self, labels=data.labels, sizes=self._rows(data.labels))

    def _rows(self, labels: Sequence[Label]) -> np.ndarray:
        """Return the rows of the sources (label, source); zero for labels it does not know."""
        place = {label: k for k, label in enumerate(self.labels)}
        result = np.zeros((len(labels), self.sizes.shape[1]))
        for k, label in enumerate(labels):
            if label in place:
                result[k] = self.sizes[place[label]]
        return result

    def to_dataframe(self) -> pd.DataFrame:
        """Return the matrix with (dataset, index) along rows and columns."""
        import pandas as pd

        index = pd.MultiIndex.from_tuples(self.labels, names=("dataset", "index"))
        return pd.DataFrame(self.matrix(), index=index, columns=index)

    def save(self, file: str | Path) -> Path:
        """Write labels and matrix to an ``.npz`` file that :func:`load_theory_covariance` reads."""
        path = Path(file).expanduser()
        names, rows = zip(*self.labels, strict=True)
        try:
            with path.open("wb") as stream:
                np.savez_compressed(stream, dataset=np.array(names), index=np.array(rows), matrix=self.matrix())
        except OSError as error:
            msg = f"Cannot write {path}: {error.strerror}."
            raise StorageError(msg) from None
        return path


def load_theory_covariance(file: str | Path, *, factor: float = 1.0) -> TheoryCovariance:
    """Read a covariance of theory uncertainties with its labels.

    Parameters
    ----------
    file
        An ``.npz`` file with ``dataset`` (label,), ``index`` (label,) and ``matrix`` (label, label), as
        :meth:`TheoryCovariance.save` writes; or a table as n3fit takes it (``user_covmat_path``): tab or
        comma separated, three columns and three header lines with group, dataset and row number.
    factor
        Number that multiplies the matrix.

    Raises
    ------
    StorageError
        When the file cannot be read.
    DataError
        When it is no table with labels, or the matrix is no covariance.

    Examples
    --------
    >>> load_theory_covariance("/no/such.csv")
    Traceback (most recent call last):
        ...
    partonfit._errors.StorageError: Cannot read /no/such.csv: No such file or directory.
    """
    path = Path(file).expanduser()
    try:
        if path.suffix == ".npz":
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as content:
                names, rows, matrix = (content[key] for key in ("dataset", "index", "matrix"))
            labels = list(zip(names.tolist(), rows.tolist(), strict=True))
        else:
            labels, matrix = _read_table(path)
    except OSError as error:
        msg = f"Cannot read {path}: {error.strerror}."
        raise StorageError(msg) from None
    except (KeyError, ValueError, IndexError, zipfile.BadZipFile) as error:
        msg = f"{path} is no covariance with labels ({error}). See load_theory_covariance() for the two layouts."
        raise DataError(msg) from None
    result = TheoryCovariance.from_matrix(labels, matrix, {"made": "read from a file", "file": path.name})
    return result if factor == 1 else result.scaled(factor)


def _read_table(path: Path) -> tuple[list[Label], np.ndarray]:
    """Read n3fit's layout; the columns are put into the order of the rows by their own labels."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    separator = "\t" if "\t" in lines[0] else ","
    cells = [line.split(separator) for line in lines]
    head = 3
    # pandas writes one more line, with the names of the row labels, when rows and columns have names.
    body = [row for row in cells[head:] if any(cell.strip() for cell in row[head:])]
    rows = [(row[1].strip(), _whole(row[2])) for row in body]
    columns = [(name.strip(), _whole(k)) for name, k in zip(cells[1][head:], cells[2][head:], strict=True)]
    matrix = np.array([row[head:] for row in body], dtype=np.float64)
    place = {label: k for k, label in enumerate(columns)}
    if len(place) != len(columns) or set(place) != set(rows):
        msg = "rows and columns have different labels"
        raise ValueError(msg)
    return rows, matrix[:, [place[label] for label in rows]]


def _whole(text: str) -> int:
    number = float(text)
    if number != int(number):
        msg = f"{text!r} is no row number"
        raise ValueError(msg)
    return int(number)


def _checked_matrix(labels: Sequence[Label], matrix: np.ndarray) -> np.ndarray:
    if matrix.shape != (len(labels), len(labels)) or not len(labels):
        msg = f"The theory covariance has the shape {matrix.shape}, but there are {len(labels)} labels."
        raise DataError(msg)
    if len(set(labels)) != len(labels):
        seen: set[Label] = set()
        name, row = next(label for label in labels if label in seen or seen.add(label))
        msg = f"The theory covariance has dataset {name}, index {row} twice."
        raise DataError(msg)
    bad = np.argwhere(~np.isfinite(matrix))
    if len(bad):
        (name, row), (other, column) = (labels[k] for k in bad[0])
        msg = f"The theory covariance of {name}, index {row}, with {other}, index {column}, is not finite."
        raise DataError(msg)
    sigma = np.sqrt(np.maximum(np.diag(matrix), 0))
    off = np.abs(matrix - matrix.T) > 1e-5 * (np.outer(sigma, sigma) + np.abs(matrix))
    if off.any():
        (name, row), (other, column) = (labels[k] for k in np.argwhere(off)[0])
        msg = f"The theory covariance is not symmetric between {name}, index {row}, and {other}, index {column}."
        raise DataError(msg)
    return (matrix + matrix.T) / 2


def checked_theory_covariance(given: Any) -> TheoryCovariance:
    """Return what a user gave as ``theory_covariance=``: the covariance itself, or the file that holds it."""
    if isinstance(given, TheoryCovariance):
        return given
    if isinstance(given, str | Path):
        return load_theory_covariance(given)
    msg = (
        "theory_covariance must come from scale_covariance() or load_theory_covariance(), or be a file, not "
        f"{type(given).__name__}."
    )
    raise SettingError(msg)
