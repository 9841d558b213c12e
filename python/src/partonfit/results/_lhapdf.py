"""Write a fit as an LHAPDF set: an ``.info`` file and one ``lhagrid1`` file for each member.

Format: LHAPDF 6 (arXiv:1412.7420, section 3 and appendix A). Member 0 is the mean of the kept
replicas. The scales are cut into subgrids at the heavy-quark thresholds, and both sides of a
threshold hold its value, each with its own number of flavours, so no subgrid has the same scale
twice (what duplicate knots do to readers is a known trouble elsewhere).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from partonfit._errors import SettingError, StorageError
from partonfit._files import new_folder
from partonfit._vocabulary import FLAVOURS, PIDS, TO_FLAVOURS

X_MIN, Q_MAX = 1e-9, 1e5
_N_X, _N_Q, _MIN_KNOTS = 197, 50, 5
_AT_ONCE = 20
"""Members evolved together: a hundred would need a gigabyte."""

_LAMBDA2 = 0.0625
"""[GeV2] Knots are even in log log(Q2 / this): denser where the coupling runs fastest."""

Evolve = Callable[..., np.ndarray]


@dataclass(frozen=True)
class Grid:
    """The knots of a set: ``x`` (x,), and for every subgrid its scales [GeV] and number of flavours."""

    x: np.ndarray
    scales: tuple[np.ndarray, ...]
    n_flavours: tuple[int, ...]

    @property
    def points(self) -> list[tuple[float, int]]:
        """(Q2 [GeV2], number of flavours) of every knot, subgrid after subgrid."""
        return [(float(q) ** 2, nf) for qs, nf in zip(self.scales, self.n_flavours, strict=True) for q in qs]

    @property
    def slices(self) -> list[slice]:
        """Where each subgrid lies in :attr:`points`."""
        ends = np.cumsum([len(qs) for qs in self.scales])
        return [slice(int(end) - len(qs), int(end)) for qs, end in zip(self.scales, ends, strict=True)]


def write_lhapdf(
    fit: Any,
    directory: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    description: str = "",
    authors: str = "",
    evolve: Evolve | None = None,
    alpha_s: Callable[..., np.ndarray] | None = None,
    card: Any = None,
    x_in: np.ndarray | None = None,
    progress: Callable[[int, int, dict[str, float]], None] | None = None,
) -> Path:
    """Evolve the kept replicas of a fit and write them as an LHAPDF set.

    Parameters
    ----------
    fit
        The fit: its ``xf(x)`` is read.
    directory
        Folder of the set; its last part is the name of the set.
    overwrite
        Replace a set that is already there.
    description, authors
        Written into the ``.info`` file.
    evolve, alpha_s, card, x_in
        Evolution from Q0, running coupling, theory, and the x (x_in,) that evolution starts from;
        those of :mod:`partonfit.theory.evolution` by default.
    progress
        Called as ``progress(member, members, {})`` while members are written.

    Returns
    -------
    pathlib.Path
        The folder. To use it, put its parent on ``LHAPDF_DATA_PATH``.

    Raises
    ------
    StorageError
        When the folder exists (and ``overwrite`` is not set) or cannot be written; before any work.
    SettingError
        When the name of the set is not a plain word.
    """
    target = _checked_target(directory, overwrite)
    if evolve is None or alpha_s is None or card is None:
        from partonfit.theory import evolution

        evolve, alpha_s = evolve or evolution.evolve, alpha_s or evolution.alpha_s
        card = evolution.default_card() if card is None else card
    x_in = _input_grid() if x_in is None else x_in
    with new_folder(target, overwrite=overwrite) as folder:
        grid = make_grid(card)
        xf0 = np.asarray(fit.xf(x_in), dtype=float)
        if len(xf0) == 0:
            msg = "No replica of this fit was kept, so there is nothing to write. See fit.statuses."
            raise SettingError(msg)
        members, at_q0 = _with_mean(xf0), _with_mean(np.asarray(fit.xf(grid.x), dtype=float))
        pids = _pids(card)
        info = _info(card, grid, pids, len(members), description, authors)
        info |= {"AlphaS_Qs": _knots(grid), "AlphaS_Vals": [float(a) for a in alpha_s(grid.points, card)]}
        (folder / f"{target.name}.info").write_text(_yaml(info), encoding="utf-8")
        for first in range(0, len(members), _AT_ONCE):
            some = members[first : first + _AT_ONCE]
            values = TO_FLAVOURS @ np.asarray(evolve(some, x_in, grid.x, grid.points, card))
            # At Q0 nothing evolves: the values come from the fit, not through the input grid.
            values[:, 0] = TO_FLAVOURS @ at_q0[first : first + _AT_ONCE]
            values[..., -1] = 0.0  # every parton vanishes at x = 1
            for k, member in enumerate(values, start=first):
                path = folder / f"{target.name}_{k:04d}.dat"
                path.write_text(_member(member, grid, pids, central=k == 0), encoding="utf-8")
                if progress is not None:
                    progress(k + 1, len(members), {})
    return target


def _with_mean(replicas: np.ndarray) -> np.ndarray:
    """Put the mean before the replicas: member 0."""
    return np.concatenate([replicas.mean(axis=0, keepdims=True), replicas])


def _input_grid() -> np.ndarray:
    from partonfit.theory.evolution import input_grid

    return input_grid()


def make_grid(card: Any, *, x_min: float = X_MIN, q_max: float = Q_MAX) -> Grid:
    """Return the knots: x from ``x_min`` to 1, scales from Q0 to ``q_max`` [GeV] cut at thresholds."""
    edges = [float(card.q0)]
    edges += [float(m) for m in _thresholds(card) if card.q0 < m < q_max]
    edges.append(q_max)
    first = 3 + sum(m <= card.q0 for m in _thresholds(card))
    ends = np.log(np.log(np.square(edges) / _LAMBDA2))
    scales = []
    for (low, high), (a, b) in zip(pairwise(edges), pairwise(ends), strict=True):
        n = max(_MIN_KNOTS, round(_N_Q * (b - a) / (ends[-1] - ends[0])) + 1)
        knots = np.sqrt(_LAMBDA2 * np.exp(np.exp(np.linspace(a, b, n))))
        knots[0], knots[-1] = low, high
        scales.append(knots)
    return Grid(_x_knots(x_min), tuple(scales), tuple(range(first, first + len(scales))))


def _thresholds(card: Any) -> list[float]:
    """Thresholds [GeV] up to the largest number of flavours."""
    return [m for nf, m in enumerate(card.thresholds, start=4) if nf <= card.nf_max]


def _x_knots(x_min: float) -> np.ndarray:
    """Return knots even in a (1 - x) - log x: logarithmic at small x, linear towards 1."""
    a = 30.0  # balances the interpolation error at small and at large x for a reader with cubic splines
    y = np.linspace(a * (1 - x_min) - np.log(x_min), 0, _N_X)
    log_x = np.zeros(_N_X)
    for _ in range(60):  # Newton's method from x = 1: the function is concave, so it falls onto the root
        x = np.exp(log_x)
        log_x += (a * (1 - x) - log_x - y) / (a * x + 1)
    x = np.exp(log_x)
    x[0], x[-1] = x_min, 1.0
    return x


def _pids(card: Any) -> list[int]:
    """PDG numbers of the partons that the set holds, in LHAPDF's usual order."""
    nf = 3 + len(_thresholds(card))
    return [*range(-nf, 0), *range(1, nf + 1), PIDS["g"]]


def _knots(grid: Grid) -> list[float]:
    return [float(q) for qs in grid.scales for q in qs]


def _info(card: Any, grid: Grid, pids: list[int], n_members: int, description: str, authors: str) -> dict[str, Any]:
    from partonfit import __version__

    text = description or f"partonfit {__version__}: mean (member 0) and {n_members - 1} Monte Carlo replicas"
    nf = 3 + len(_thresholds(card))
    mass = dict(zip(("MCharm", "MBottom", "MTop"), (float(m) for m in card.masses), strict=True))
    return {
        "SetDesc": text,
        "Authors": authors or "unnamed",
        "Reference": "none",
        "Format": "lhagrid1",
        "DataVersion": 1,
        "SetIndex": 0,
        "NumMembers": n_members,
        "Particle": 2212,
        "Flavors": pids,
        "NumFlavors": nf,
        "OrderQCD": int(card.order),
        "FlavorScheme": "variable",
        "ErrorType": "replicas",
        "XMin": float(grid.x[0]),
        "XMax": float(grid.x[-1]),
        "QMin": float(grid.scales[0][0]),
        "QMax": float(grid.scales[-1][-1]),
        "MZ": float(card.mz),
        "MUp": 0.0,
        "MDown": 0.0,
        "MStrange": 0.0,
        **mass,
        **{f"Threshold{key[1:]}": float(m) for key, m in zip(mass, card.thresholds, strict=True)},
        "AlphaS_MZ": float(card.alphas),
        "AlphaS_OrderQCD": int(card.order),
        "AlphaS_Type": "ipol",
    }


def _yaml(info: dict[str, Any]) -> str:
    """Write the flat mapping as YAML that LHAPDF's simple parser also reads (one line for each key)."""
    lines = []
    for key, value in info.items():
        if isinstance(value, str):
            text = '"' + re.sub(r"\s+", " ", value).replace("\\", "\\\\").replace('"', "'") + '"'
        elif isinstance(value, list):
            text = "[" + ", ".join(_number(v) for v in value) + "]"
        else:
            text = _number(value)
        lines.append(f"{key}: {text}")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    # YAML 1.1 reads 1e-09 without a dot as a string.
    return str(value) if isinstance(value, int) else f"{value:.10e}" if 0 < abs(value) < 1e-4 else repr(float(value))


def _member(values: np.ndarray, grid: Grid, pids: Sequence[int], *, central: bool) -> str:
    """Return the text of one member; ``values`` is (point, flavour, x) in the flavour basis."""
    columns = [FLAVOURS.index(name) for pid in pids for name in FLAVOURS if PIDS[name] == pid]
    out = StringIO()
    out.write(f"PdfType: {'central' if central else 'replica'}\nFormat: lhagrid1\n---\n")
    for qs, part in zip(grid.scales, grid.slices, strict=True):
        out.write(" ".join(f"{x:.10e}" for x in grid.x) + "\n")
        out.write(" ".join(f"{q:.10e}" for q in qs) + "\n")
        out.write(" ".join(str(pid) for pid in pids) + "\n")
        block = np.transpose(values[part][:, columns], (2, 0, 1)).reshape(-1, len(pids))
        row = " ".join(["% .7e"] * len(pids)) + "\n"
        out.write((row * len(block)) % tuple(block.ravel()))
        out.write("---\n")
    return out.getvalue()


def checked_set_name(name: str) -> str:
    """Return ``name`` when an LHAPDF set can have it, or raise :class:`SettingError`."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", name):
        msg = (
            f"{name!r} cannot be the name of an LHAPDF set: use letters, digits, '_', '-', '+' and '.', "
            "beginning with a letter or digit."
        )
        raise SettingError(msg)
    return name


def _checked_target(directory: str | os.PathLike[str], overwrite: bool) -> Path:
    target = Path(directory).expanduser()
    checked_set_name(target.name)
    if target.exists() and not overwrite:
        msg = f"{target} exists already. Choose another name, or set overwrite to replace it."
        raise StorageError(msg)
    if target.exists() and not _is_set(target):
        msg = f"{target} is not an LHAPDF set, so it is not overwritten. Choose another name."
        raise StorageError(msg)
    return target


def _is_set(folder: Path) -> bool:
    """Tell whether a folder holds one LHAPDF set (or nothing), so that replacing it harms nothing else."""
    if not folder.is_dir():
        return False
    allowed = re.compile(rf"{re.escape(folder.name)}(\.info|_\d{{4}}\.dat)")
    return all(allowed.fullmatch(path.name) for path in folder.iterdir())
