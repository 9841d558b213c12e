"""A theory: a folder of FK tables at one starting scale."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from partonfit._errors import SettingError, TheoryError, nearest
from partonfit.theory._tables import SUFFIX, FKTable, read_table

EMBEDDED = {"hera": ("hera",)}
"""Theories that travel with the package, by name: the folders they consist of."""


@dataclass(frozen=True, eq=False)
class Theory:
    """FK tables by name, read when first used.

    Attributes
    ----------
    name
        The embedded name or the absolute folder; :func:`load_theory` takes it again.
    folders
        Where tables are looked for, in order.

    Examples
    --------
    >>> theory = load_theory("hera")
    >>> theory.table("HERA_CC_318GEV_EM_SIGMARED").values.shape
    (42, 9, 29)
    """

    name: str
    folders: tuple[Path, ...]
    _tables: dict[str, FKTable] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        """Return one line: name and number of tables."""
        return f"<Theory {self.name}: {len(self.names)} tables>"

    @cached_property
    def paths(self) -> dict[str, Path]:
        """Table name to file."""
        found: dict[str, Path] = {}
        for folder in self.folders:
            for path in sorted(folder.glob(f"*{SUFFIX}")):
                found.setdefault(path.name.removesuffix(SUFFIX), path)
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tables, sorted."""
        return tuple(sorted(self.paths))

    def check(self, names: Iterable[str]) -> None:
        """Raise :class:`TheoryError` when a table is missing; the message suggests the nearest name."""
        for name in names:
            if name not in self.paths:
                suggestion = nearest(name, self.names, what="table")
                msg = f"The theory {self.name} has no table '{name}'. {suggestion}"
                raise TheoryError(msg)

    def table(self, name: str) -> FKTable:
        """Return one table, reading it at its first use."""
        if name not in self._tables:
            self.check([name])
            self._tables[name] = read_table(self.paths[name])
        return self._tables[name]

    @cached_property
    def q0(self) -> float:
        """Starting scale of the PDF [GeV]."""
        return self.table(self.names[0]).q0

    def info(self, name: str) -> dict[str, Any]:
        """Return a plain description of one table: shape, x range, scale, hash, and its own notes."""
        table = self.table(name)
        return {
            "name": table.name,
            "kind": "linear" if table.linear else "quadratic",
            "n_data": table.n_data,
            "n_channels": len(table.flavours),
            "n_x": len(table.x),
            "x_min": float(table.x[0]),
            "q0": table.q0,
            "sha256": table.hash,
            "notes": dict(table.info),
        }

    def hash(self, names: Iterable[str] | None = None) -> str:
        """Return the SHA-256 over the files of the named tables (all by default)."""
        sha = hashlib.sha256()
        for name in sorted(self.names if names is None else names):
            self.check([name])
            known = self._tables.get(name)
            digest = known.hash if known else hashlib.sha256(self.paths[name].read_bytes()).hexdigest()
            sha.update(f"{name}:{digest};".encode())
        return sha.hexdigest()

    def cfactor(self, name: str, table: str) -> np.ndarray:
        """Return the C-factor ``name`` of a table: one number per row (data,).

        Looked for as ``CF_<name>_<table>.dat`` beside the tables, in a neighbouring ``cfactor`` folder
        and among the C-factors of nnpdf-data.
        """
        file = f"CF_{name}_{table}.dat"
        places = [place for folder in self.folders for place in (folder, folder.parent / "cfactor")]
        for place in (*places, *_published_cfactors()):
            if (place / file).is_file():
                return _read_cfactor(place / file)
        msg = f"There is no C-factor '{name}' for the table '{table}': add {file} or remove it from 'cfac'."
        raise TheoryError(msg)


def load_theory(source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Theory:
    """Open a theory.

    Parameters
    ----------
    source
        ``"hera"`` for the tables that travel with the package, a folder of ``*.pineappl.lz4`` files,
        a folder ``theory_<id>`` with those files in ``fastkernel/``, a folder whose subfolders hold
        such files, or several folders searched in order (a list, or one text with the separator of
        search paths).

    Raises
    ------
    TheoryError
        When the folder is missing or holds no table.

    Examples
    --------
    >>> load_theory("/no/such/folder")
    Traceback (most recent call last):
        ...
    partonfit._errors.TheoryError: The theory folder /no/such/folder does not exist. ...
    """
    if isinstance(source, str) and source in EMBEDDED:
        return _open(source, [Path(__file__).parent / "embedded" / part for part in EMBEDDED[source]])
    if isinstance(source, str | os.PathLike):
        text = os.fspath(source)
        source = [text] if Path(text).expanduser().is_dir() else text.split(os.pathsep)
    try:
        places = [Path(one).expanduser() for one in source]
    except TypeError:
        msg = f"theory must be a name or a folder, not {source!r}."
        raise SettingError(msg) from None
    if not places:
        msg = "theory is an empty list. Give 'hera' or a folder of tables."
        raise SettingError(msg)
    folders = [folder for place in places for folder in _table_folders(place)]
    return _open(os.pathsep.join(str(place.resolve()) for place in places), folders)


def _table_folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        hint = nearest(str(folder), EMBEDDED, what="theory") if len(folder.parts) == 1 else ""
        msg = f"The theory folder {folder} does not exist. {hint or 'Give a folder of .pineappl.lz4 files.'}"
        raise TheoryError(msg)
    if (folder / "fastkernel").is_dir():
        return [folder / "fastkernel"]
    if any(folder.glob(f"*{SUFFIX}")):
        return [folder]
    return sorted({path.parent for path in folder.glob(f"*/*{SUFFIX}")}) or [folder]


def _open(name: str, folders: list[Path]) -> Theory:
    theory = Theory(name, tuple(folders))
    if not theory.paths:
        where = ", ".join(str(folder) for folder in folders)
        msg = f"The theory {name} holds no table (*{SUFFIX}) in {where}."
        raise TheoryError(msg)
    return theory


def _published_cfactors() -> list[Path]:
    import importlib.util

    spec = importlib.util.find_spec("nnpdf_data")
    if spec is None or not spec.submodule_search_locations:
        return []
    return [Path(spec.submodule_search_locations[0]) / "cfactors"]


def _read_cfactor(path: Path) -> np.ndarray:
    """Read a C-factor file: a header between lines of asterisks, then value and uncertainty per row."""
    lines = path.read_text(encoding="utf-8").splitlines()
    stars = [i for i, line in enumerate(lines) if line.startswith("*")]
    body = lines[stars[-1] + 1 :] if stars else lines
    try:
        values = np.array([float(line.split()[0]) for line in body if line.strip()])
    except (ValueError, IndexError):
        msg = f"The C-factor file {path} contains a line that is not two numbers."
        raise TheoryError(msg) from None
    if not np.isfinite(values).all():
        msg = f"The C-factor file {path} contains a number that is not finite."
        raise TheoryError(msg)
    return values
