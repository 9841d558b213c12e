"""Moments of splitting functions and of matching conditions on the nodes of the contour.

The functions are ekore's (distributed with eko, arXiv:2202.02338): anomalous dimensions to three loops
(hep-ph/0403192, hep-ph/0404111) and operator matrix elements to two loops (hep-ph/9612398). Compiling
them takes minutes, calling them uncompiled a millisecond each; as the nodes are fixed they are computed
once, uncompiled and in a process of their own, and travel with the package.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from partonfit._errors import MissingDependencyError, TheoryError
from partonfit.theory.evolution import _contour

NF = (4, 5)
"""Numbers of flavours whose moments travel with the package; others are computed when asked for."""

FILE = Path(__file__).with_name("moments.npz")

_SCRIPT = """
import sys
import numpy as np
import ekore.anomalous_dimensions.unpolarized.space_like as ad
import ekore.operator_matrix_elements.unpolarized.space_like as ome

source, target, *rest = sys.argv[1:]
NF = [int(nf) for nf in rest]
n = np.load(source)
variation = (0, 0, 0, 0, 0, 0, 0)
order = (3, 0)
plus, minus, valence = 10101, 10201, 10200
result = {"n": n}
for nf in NF:
    s, ns = [], []
    for value in n.ravel():
        s.append(ad.gamma_singlet(order, value + 1, nf, variation, True))
        ns.append([ad.gamma_ns(order, plus, value + 1, nf, variation, True)]
                  + [ad.gamma_ns(order, m, value, nf, variation, True) for m in (plus, minus, valence)])
    result[f"singlet{nf}"] = np.moveaxis(np.array(s), 1, 0).reshape(3, *n.shape, 2, 2)
    result[f"ns{nf}"] = np.transpose(np.array(ns), (1, 2, 0)).reshape(4, 3, *n.shape)
heavy = np.array([ome.A_singlet((2, 0), value + 1, 4, 0.0, False)[1] for value in n.ravel()])
result["matching"] = heavy[:, :, :2].reshape(*n.shape, 3, 2)
light = np.array([ome.A_non_singlet((2, 0), value, 4, 0.0)[1, 0, 0] for value in n.ravel()])
result["matching_ns"] = light.reshape(n.shape)
np.savez(target, **result)
"""


def compute(n: np.ndarray, nf: tuple[int, ...] = NF) -> dict[str, np.ndarray]:
    """Return the moments at the nodes ``n`` (measured from the offset of the contour).

    Raises
    ------
    MissingDependencyError
        When eko is not installed.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "nodes.npy"), Path(folder, "moments.npz")
        np.save(source, n)
        environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT, str(source), str(target), *map(str, nf)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            reason = done.stderr.strip().splitlines()[-1:] or ["no message"]
            msg = f"Computing moments of the splitting functions failed: {reason[0]}"
            if "ModuleNotFoundError" in reason[0]:
                raise MissingDependencyError(msg + ". Install eko: pip install 'eko>=0.15.7'.")
            raise TheoryError(msg)
        with np.load(target) as content:
            return dict(content)


@cache
def load() -> dict[str, np.ndarray]:
    """Return the moments on the nodes of :mod:`_contour`.

    ``singlet<nf>`` (order, radius, node, 2, 2); ``ns<nf>`` (4, order, radius, node): plus on the
    singlet contour, then plus, minus, valence on the non-singlet one; ``matching``
    (radius, node, 3, 2): rows g, light singlet, heavy, columns g, light singlet;
    ``matching_ns`` (radius, node).
    """
    n, _ = _contour.nodes()
    if FILE.exists():
        with np.load(FILE) as content:
            stored = dict(content)
        if stored["n"].shape == n.shape and np.allclose(stored["n"], n, rtol=1e-13, atol=0):
            return stored
    return compute(n)


@cache
def anomalous(nf: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``singlet<nf>`` and ``ns<nf>`` of :func:`load`, computed first (seconds) if they are not stored."""
    moments = load()
    if f"singlet{nf}" not in moments:
        n, _ = _contour.nodes()
        moments = compute(n, (nf,))
    return moments[f"singlet{nf}"], moments[f"ns{nf}"]


def store() -> Path:
    """Compute the moments and write the file that travels with the package."""
    n, _ = _contour.nodes()
    np.savez_compressed(FILE, **compute(n))  # pyright: ignore[reportArgumentType] (names are our own)
    load.cache_clear()
    anomalous.cache_clear()
    return FILE
