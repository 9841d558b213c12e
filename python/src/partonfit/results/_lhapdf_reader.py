"""Read an LHAPDF set (``lhagrid1``) and evaluate it, without LHAPDF.

The interpolation is LHAPDF 6's default in kind: cubic in log x and log Q2 inside each subgrid
(arXiv:1412.7420, section 3.2), here with splines of SciPy, so values between knots agree with
other readers to interpolation accuracy (1e-4 and better), not to the last digit.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from partonfit._errors import SettingError, StorageError
from partonfit._vocabulary import EVOLUTION, FLAVOURS, FROM_FLAVOURS, PIDS, rotation
from partonfit.results._prediction import LEVEL


@dataclass(frozen=True)
class Subgrid:
    """Knots ``x`` (x,), ``q`` (q,) [GeV] and ``values`` (member, flavour, q, x); flavours as PDG numbers."""

    x: np.ndarray
    q: np.ndarray
    pids: tuple[int, ...]
    values: np.ndarray


@dataclass(frozen=True)
class SetPrediction:
    """x f(x, Q) of a set: arrays (flavour, x), replicas (replica, flavour, x); see ``PDFFit.predict``."""

    x: np.ndarray
    Q: float
    flavour: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    replicas: np.ndarray


@dataclass(frozen=True)
class LhapdfSet:
    """An LHAPDF set in memory.

    Attributes
    ----------
    name
        The name of the set.
    info
        The content of its ``.info`` file.
    subgrids
        Its knots and values, by rising scale.
    """

    name: str
    info: dict[str, Any]
    subgrids: tuple[Subgrid, ...] = field(repr=False)

    @property
    def n_members(self) -> int:
        """Number of members, member 0 (the central one) included."""
        return self.subgrids[0].values.shape[0]

    @property
    def q0(self) -> float:
        """Lowest scale [GeV]."""
        return float(self.subgrids[0].q[0])

    @cached_property
    def error_type(self) -> str:
        """``"replicas"``, ``"hessian"``, ``"symmhessian"`` or ``"unknown"``."""
        return str(self.info.get("ErrorType", "unknown")).split("+", maxsplit=1)[0]

    def xf(self, x: np.ndarray, Q: float) -> np.ndarray:
        """Return x f(x, Q) of every member, (member, 14, x), in the flavour basis of ``FLAVOURS``.

        Raises
        ------
        SettingError
            When x or Q [GeV] lies outside the set.
        """
        x = np.atleast_1d(np.asarray(x, dtype=float))
        grid = self._subgrid(Q)
        if x.min() < grid.x[0] * (1 - 1e-9) or x.max() > grid.x[-1] * (1 + 1e-9):
            msg = f"{self.name} covers x from {grid.x[0]:g} to {grid.x[-1]:g}, asked for {x.min():g} to {x.max():g}."
            raise SettingError(msg)
        along_q = CubicSpline(np.log(grid.q), grid.values, axis=2)(np.log(Q))
        found = CubicSpline(np.log(grid.x), along_q, axis=2)(np.log(x))
        result = np.zeros((found.shape[0], len(FLAVOURS), len(x)))
        names = {pid: i for i, pid in enumerate(PIDS.values())}
        for column, pid in enumerate(grid.pids):
            if pid in names:
                result[:, names[pid]] = found[:, column]
        return result

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the central member at the lowest scale, (14, x) in the evolution basis."""
        return FROM_FLAVOURS @ self.xf(x, self.q0)[0]

    def predict(
        self,
        x: np.ndarray,
        *,
        flavour: str | list[str] = "g",
        basis: str | None = None,
        Q: float | None = None,
    ) -> SetPrediction:
        """Return mean, spread and 68 % interval of x f(x, Q), by the rules of the set's error type.

        Replicas: member 0 and the quantiles of the others. Hessian sets: symmetric errors.
        """
        names = tuple(rotation_names(basis)) if basis else (flavour,) if isinstance(flavour, str) else tuple(flavour)
        scale = self.q0 if Q is None else float(Q)
        values = np.einsum("fe,ei,rix->rfx", rotation(names), FROM_FLAVOURS, self.xf(x, scale))
        mean, others = values[0], values[1:]
        lower, upper, sd = _spread(mean, others, self.error_type)
        replicas = others if len(others) else values
        return SetPrediction(np.asarray(x, dtype=float), scale, names, mean, sd, lower, upper, replicas)

    def _subgrid(self, Q: float) -> Subgrid:
        low, high = self.subgrids[0].q[0], self.subgrids[-1].q[-1]
        if not low * (1 - 1e-9) <= Q <= high * (1 + 1e-9):
            msg = f"{self.name} covers Q from {low:g} to {high:g} GeV, asked for {Q:g} GeV."
            raise SettingError(msg)
        # At a threshold the upper subgrid holds, as in LHAPDF.
        return next(g for g in reversed(self.subgrids) if g.q[0] * (1 - 1e-9) <= Q)


def rotation_names(basis: str) -> tuple[str, ...]:
    """Return the names of ``"evolution"`` or ``"flavour"``."""
    known = {"evolution": EVOLUTION, "flavour": FLAVOURS}
    if basis not in known:
        msg = f"basis must be 'evolution' or 'flavour', not {basis!r}."
        raise SettingError(msg)
    return known[basis]


def _spread(mean: np.ndarray, others: np.ndarray, error_type: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if error_type == "replicas" and len(others) > 1:
        lower, upper = np.percentile(others, LEVEL, axis=0)
        return lower, upper, others.std(axis=0, ddof=1)
    if error_type == "symmhessian" and len(others):
        sd = np.sqrt(((others - mean) ** 2).sum(axis=0))
        return mean - sd, mean + sd, sd
    if error_type == "hessian" and len(others) >= 2:
        sd = np.sqrt(((others[0::2] - others[1::2]) ** 2).sum(axis=0)) / 2
        return mean - sd, mean + sd, sd
    return mean, mean, np.zeros_like(mean)


def read_lhapdf(directory: str | os.PathLike[str], *, members: int | None = None) -> LhapdfSet:
    """Read the LHAPDF set in ``directory``.

    Parameters
    ----------
    directory
        Folder of the set, named like the set.
    members
        Read only this many members (the first is the central one); all by default.

    Raises
    ------
    StorageError
        When a file is missing, cut short or not in the format ``lhagrid1``.

    Examples
    --------
    >>> import partonfit as pf
    >>> known = pf.read_lhapdf("sets/my-set")  # doctest: +SKIP
    >>> known.predict([0.1], flavour="g", Q=91.2).mean.shape  # doctest: +SKIP
    (1, 1)
    """
    folder = Path(directory)
    info_file = folder / f"{folder.name}.info"
    if not info_file.is_file():
        msg = f"{folder} is not an LHAPDF set: there is no {info_file.name} in it."
        raise StorageError(msg)
    info = _read_info(info_file)
    n = int(info.get("NumMembers", 1)) if members is None else members
    read = [_read_member(folder / f"{folder.name}_{k:04d}.dat") for k in range(n)]
    grids = []
    for parts in zip(*read, strict=True):
        x, q, pids, _ = parts[0]
        grids.append(Subgrid(x, q, pids, np.stack([part[3] for part in parts])))
    return LhapdfSet(folder.name, info, tuple(grids))


def _read_info(path: Path) -> dict[str, Any]:
    from ruamel.yaml import YAML, YAMLError

    try:
        loaded = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except (YAMLError, UnicodeDecodeError) as error:
        msg = f"{path} is not readable as YAML: {error}"
        raise StorageError(msg) from error
    if not isinstance(loaded, dict):
        msg = f"{path} holds no keys: expected lines such as 'NumMembers: 101'."
        raise StorageError(msg)
    return loaded


_Block = tuple[np.ndarray, np.ndarray, tuple[int, ...], np.ndarray]


def _read_member(path: Path) -> list[_Block]:
    try:
        blocks = path.read_text(encoding="utf-8").split("---")
    except OSError as error:
        msg = f"Cannot read {path}: {error.strerror}."
        raise StorageError(msg) from error
    if len(blocks) < 3:
        msg = f"{path} holds no grid in the format lhagrid1; is it cut short?"
        raise StorageError(msg)
    return [_read_block(block, path) for block in blocks[1:] if block.strip()]


def _read_block(block: str, path: Path) -> _Block:
    first, second, third, *rest = block.strip().split("\n", maxsplit=3)
    x, q = np.array(first.split(), dtype=float), np.array(second.split(), dtype=float)
    pids = tuple(21 if int(p) == 0 else int(p) for p in third.split())
    values = np.array(rest[0].split() if rest else [], dtype=float)
    if values.size != x.size * q.size * len(pids):
        msg = f"{path}: {x.size} x {q.size} knots of {len(pids)} partons need {x.size * q.size * len(pids)} numbers, "
        msg += f"found {values.size}. The file is cut short or damaged."
        raise StorageError(msg)
    return x, q, pids, values.reshape(x.size, q.size, len(pids)).transpose(2, 1, 0)
