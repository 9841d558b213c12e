"""Evolution operators in x space, built for many scales at once and kept on disk.

Everything between the starting scale and the final one is multiplied in Mellin space, matching at
thresholds included, and inverted once: no interpolation happens in between.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from partonfit._vocabulary import EVOLUTION
from partonfit.theory.evolution import _contour, _kernels, _moments
from partonfit.theory.evolution._card import EvolutionCard, Point
from partonfit.theory.evolution._coupling import a_s

_FORMAT = 4
MEMBERS: tuple[str, ...] = ("SS", "Sg", "gS", "gg", "HS", "Hg", "HHS", "HHg", "plus", "minus", "valence", "HV", "HHV")
"""Blocks of an operator: singlet; T24 and T35 from (Sigma, g); the three non-singlets; V24 and V35 from V.

Below bottom threshold T24 evolves as Sigma and V24 as V; above it they evolve like the light plus and
minus combinations (at NNLO b and bbar then differ). T35 and V35 do the same at top threshold.
"""
_ON_SINGLET, _ON_NON_SINGLET = slice(0, 8), slice(8, 13)


def operators(x_in: np.ndarray, x_out: np.ndarray, points: Sequence[Point], card: EvolutionCard) -> np.ndarray:
    """Return operators (point, member, x_out, x_in) acting on f (not x f), from cache where possible."""
    folder = _folder(x_in, x_out, card)
    result = np.empty((len(points), len(MEMBERS), len(x_out), len(x_in)))
    missing = []
    for k, (q2, nf) in enumerate(points):
        stored = _read(folder, q2, nf, result.shape[1:])
        if stored is None:
            missing.append(k)
        else:
            result[k] = stored
    if missing:
        result[missing] = compute(x_in, x_out, [points[k] for k in missing], card)
        for k in missing:
            q2, nf = points[k]
            _write(folder, q2, nf, result[k])
    return result


def compute(x_in: np.ndarray, x_out: np.ndarray, points: Sequence[Point], card: EvolutionCard) -> np.ndarray:
    """Return operators (point, member, x_out, x_in) by Mellin inversion."""
    basis = _contour.Basis(x_in)
    groups = _contour.group(x_out)
    n_all, weight_all = _contour.nodes()
    result = np.zeros((len(points), len(MEMBERS), len(x_out), len(x_in)))
    for radius in np.unique(groups):
        n, weight = n_all[radius], weight_all[radius]
        kernel = mellin_kernels(int(radius), points, card)
        for offset, members in ((1.0, _ON_SINGLET), (0.0, _ON_NON_SINGLET)):
            some = (kernel[:, members] * weight).reshape(-1, len(n))
            flat = np.concatenate([np.real(some), -np.imag(some)], axis=1)
            for k in np.flatnonzero(groups == radius):
                if x_out[k] >= 1:
                    continue
                moments = basis.moments(n + offset, float(x_out[k]))
                inverse = flat @ np.concatenate([np.real(moments), np.imag(moments)])
                result[:, members, k] = inverse.reshape(len(points), -1, len(x_in))
    return result


def mellin_kernels(radius: int, points: Sequence[Point], card: EvolutionCard) -> np.ndarray:
    """Return the evolution kernels (point, member, node) on one contour."""
    moments = _moments.load()
    n_nodes = moments["matching_ns"].shape[1]
    result = np.empty((len(points), len(MEMBERS), n_nodes), dtype=complex)
    state = _start(n_nodes)
    scale2 = card.q0**2
    for nf in range(4, card.nf_max + 1):
        here = [k for k, point in enumerate(points) if point[1] == nf]
        a0 = a_s(scale2, nf, card)
        q2s = [points[k][0] for k in here]
        wall = card.masses[nf - 3] ** 2 if nf < card.nf_max else None
        targets = np.array([a_s(q2, nf, card) for q2 in [*q2s, *([] if wall is None else [wall])]])
        if len(targets):
            evolved = _evolve(state, radius, nf, targets, a0, card)
            result[here] = evolved[: len(here)]
            if wall is not None:
                state = _match(evolved[-1], radius, nf, a_s(wall, nf + 1, card), card)
                scale2 = wall
    return result


def _start(n_nodes: int) -> np.ndarray:
    """Return the state (member, node) at the starting scale: the identity, T24 and T35 equal Sigma."""
    start = np.zeros((len(MEMBERS), n_nodes), dtype=complex)
    for name in ("SS", "gg", "HS", "HHS", "plus", "minus", "valence", "HV", "HHV"):
        start[MEMBERS.index(name)] = 1
    return start


def _evolve(state: np.ndarray, radius: int, nf: int, targets: np.ndarray, a0: float, card: EvolutionCard) -> np.ndarray:
    """Return the state (point, member, node) at couplings ``targets`` with ``nf`` flavours."""
    orders = card.order + 1
    gamma, ns = _moments.anomalous(nf)
    gamma, ns = gamma[:orders, radius], ns[:, :orders, radius]
    singlet = _kernels.singlet(gamma, targets, a0, nf)
    on_singlet, plus, minus, valence = (_kernels.non_singlet(g, targets, a0, nf) for g in ns)
    matrix = np.moveaxis(state[:4].reshape(2, 2, -1), -1, 0)
    evolved = singlet @ matrix
    result = np.empty((len(targets), *state.shape), dtype=complex)
    result[:, :4] = np.moveaxis(evolved, 1, -1).reshape(len(targets), 4, -1)
    # A heavy combination evolves on its own once its quark is active; before, it equals Sigma.
    result[:, 4:6] = result[:, 0:2] if nf < 5 else on_singlet[:, None] * state[4:6]
    result[:, 6:8] = result[:, 0:2] if nf < 6 else on_singlet[:, None] * state[6:8]
    heavy_minus = (valence if nf < 5 else minus, valence if nf < 6 else minus)
    for k, kernel in enumerate((plus, minus, valence, *heavy_minus)):
        result[:, 8 + k] = kernel * state[8 + k]
    return result


def _match(state: np.ndarray, radius: int, nf: int, a: float, card: EvolutionCard) -> np.ndarray:
    """Return the state with ``nf`` + 1 flavours from the one with ``nf``, at the mass of the new quark.

    The coupling is that of ``nf`` + 1 flavours; at the mass itself the order ``a`` vanishes.
    """
    moments = _moments.load()
    factor = a**2 if card.order == 2 else 0.0
    ome = factor * moments["matching"][radius]  # rows g, light, heavy; columns g, light
    light = 1 + factor * moments["matching_ns"][radius]
    result = state.copy()
    s, g = state[0:2], state[2:4]
    light_sum = s * (1 + ome[:, 1, 1]) + g * ome[:, 1, 0]
    heavy = s * ome[:, 2, 1] + g * ome[:, 2, 0]
    result[0:2] = light_sum + heavy
    result[2:4] = g * (1 + ome[:, 0, 0]) + s * ome[:, 0, 1]
    new = slice(4, 6) if nf == 4 else slice(6, 8)
    result[new] = light_sum - nf * heavy
    if nf == 4:
        result[6:8] = result[0:2]
    else:  # T24 is made of light quarks now; the same two-loop element acts, on the singlet contour
        result[4:6] = state[4:6] * (1 + factor * _light_on_singlet(radius))
    result[_ON_NON_SINGLET] = state[_ON_NON_SINGLET] * light
    return result


def _light_on_singlet(radius: int) -> np.ndarray:
    """Return the light non-singlet matching element on the singlet contour.

    At two loops the pure-singlet part is carried by the heavy row alone, so it is the light diagonal.
    """
    return _moments.load()["matching"][radius][:, 1, 1]


def expand(member: np.ndarray) -> np.ndarray:
    """Return an operator (14, x_out, 14, x_in) in the evolution basis from its blocks (member, x_out, x_in)."""
    n_out, n_in = member.shape[1:]
    full = np.zeros((14, n_out, 14, n_in))
    blocks = dict(zip(MEMBERS, member, strict=True))
    index = EVOLUTION.index
    for name, row in (("SS", "Sigma"), ("gS", "g"), ("HS", "T24"), ("HHS", "T35")):
        full[index(row), :, index("Sigma")] = blocks[name]
    for name, row in (("Sg", "Sigma"), ("gg", "g"), ("Hg", "T24"), ("HHg", "T35")):
        full[index(row), :, index("g")] = blocks[name]
    for name, source, rows in (
        ("plus", None, ("T3", "T8", "T15")),
        ("minus", None, ("V3", "V8", "V15")),
        ("valence", "V", ("V",)),
        ("HV", "V", ("V24",)),
        ("HHV", "V", ("V35",)),
    ):
        for row in rows:
            full[index(row), :, index(source or row)] = blocks[name]
    return full


def apply(members: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Return f at the final scales (replica, point, 14, x_out) from f (replica, 14, x_in)."""
    index = EVOLUTION.index
    block = dict(zip(MEMBERS, np.moveaxis(members, 1, 0), strict=True))
    result = np.zeros((len(f), len(members), 14, members.shape[2]))

    def add(row: str, name: str, source: str) -> None:
        result[:, :, index(row)] += np.einsum("poi,ri->rpo", block[name], f[:, index(source)], optimize=True)

    for row, pair in (("Sigma", "SS Sg"), ("g", "gS gg"), ("T24", "HS Hg"), ("T35", "HHS HHg")):
        for name, source in zip(pair.split(), ("Sigma", "g"), strict=True):
            add(row, name, source)
    for row in ("T3", "T8", "T15"):
        add(row, "plus", row)
    for row in ("V3", "V8", "V15"):
        add(row, "minus", row)
    for row, name in (("V", "valence"), ("V24", "HV"), ("V35", "HHV")):
        add(row, name, "V")
    return result


def _folder(x_in: np.ndarray, x_out: np.ndarray, card: EvolutionCard) -> Path | None:
    chosen = os.environ.get("PARTONFIT_CACHE")
    if chosen == "":
        return None
    with suppress(RuntimeError):
        base = Path(chosen) if chosen else _user_cache()
        sha = hashlib.sha256(f"{_FORMAT}|{card.key}".encode())
        for x in (x_in, x_out):
            sha.update(np.ascontiguousarray(x, dtype=float).tobytes() + b"|")
        return base / "evolution" / sha.hexdigest()[:24]
    return None


def _user_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "partonfit"


def _read(folder: Path | None, q2: float, nf: int, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return a stored operator, or None when it is absent or damaged (it is then computed again)."""
    if folder is None:
        return None
    with suppress(OSError, ValueError, EOFError):
        stored = np.load(folder / f"nf{nf}_{q2!r}.npy")
        if stored.shape == shape and np.isfinite(stored).all():
            return stored
    return None


def _write(folder: Path | None, q2: float, nf: int, operator: np.ndarray) -> None:
    """Store an operator; a cache that cannot be written is no error."""
    if folder is None:
        return
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".part", dir=folder)
        try:
            with os.fdopen(handle, "wb") as stream:
                np.save(stream, operator)
            Path(name).replace(folder / f"nf{nf}_{q2!r}.npy")
        finally:
            Path(name).unlink(missing_ok=True)
