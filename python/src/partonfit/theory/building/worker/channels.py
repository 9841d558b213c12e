"""yadism's structure functions with its quadrature replaced by product integration.

Kernels, coefficient functions, couplings, schemes and target-mass corrections are yadism's own
(arXiv:2401.15187); only ``EvaluatedStructureFunction.compute_local`` and the integrals inside the
target-mass corrections are done by :mod:`quadrature`. Scale variations are not computed.

This file runs in the environment of yadism, so it imports nothing of partonfit.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from eko import basis_rotation
from quadrature import Basis, Panels
from yadism import coefficient_functions
from yadism.esf import conv, esf

_PROBES = (0.21, 0.47)  # where a tabulated function is checked against a new one, as fractions of z_max
_LARGEST_CACHE = 400  # matrices kept: 100 points of one scale times four thresholds


class Tables:
    """Coefficient functions tabulated at one scale, and the matrices that integrate them."""

    def __init__(self) -> None:
        self._basis: Basis | None = None
        self._grid: bytes = b""
        self._panels: dict[float, Panels] = {}
        self._matrices: dict[tuple, tuple[np.ndarray, np.ndarray]] = {}
        self._tables: dict[tuple, dict[str, Any]] = {}

    def start(self, interpolator: Any) -> None:
        """Forget what belonged to another scale; keep the grid's basis."""
        grid = np.asarray(interpolator.xgrid.raw).tobytes()
        if grid != self._grid:
            areas = [np.asarray(f.areas_representation) for f in interpolator]
            self._basis, self._grid = Basis(interpolator.xgrid.raw, areas), grid
        self._panels, self._matrices, self._tables = {}, {}, {}

    def basis(self) -> Basis:
        """Return the basis functions of the current grid."""
        assert self._basis is not None
        return self._basis

    def integrate(self, rsl: Any, x: float, z_max: float, key: tuple) -> np.ndarray:
        """Return the convolution of one coefficient function with every basis function at x."""
        result = np.zeros(len(self.basis().x))
        if x >= 1 - 1e-10:
            return result
        if z_max not in self._panels:
            self._panels[z_max] = Panels(z_max)
        panels = self._panels[z_max]
        if rsl.reg is not None or rsl.sing is not None:
            regular, singular = self._matrix(panels, x)
            for part, matrix in (("reg", regular), ("sing", singular)):
                function = getattr(rsl, part)
                if function is not None:
                    args = rsl.args[part]
                    result += matrix @ self._values(function, args, panels, (*key, part), x)
        if rsl.loc is not None:
            at_x = self.basis()(np.array([x]))[0]
            if at_x.any():
                result += at_x * self._local(rsl, x, key)
        return result

    def _matrix(self, panels: Panels, x: float) -> tuple[np.ndarray, np.ndarray]:
        name = (panels.z_max, x)
        if name not in self._matrices:
            if len(self._matrices) > _LARGEST_CACHE:
                self._matrices.clear()
            self._matrices[name] = panels.matrices(x, self.basis())
        return self._matrices[name]

    def _values(self, function: Any, args: np.ndarray, panels: Panels, key: tuple, x: float) -> np.ndarray:
        """Return C at the nodes of every panel above x, zero elsewhere.

        The table of a channel serves every x when it is the same function up to a factor: massive
        initial-state functions carry a factor 1/x. Two probes decide; anything else is tabulated anew.
        Panels are filled when an x needs them, since some functions are not finite at very small z.
        """
        probes = np.array([function(p * panels.z_max, args) for p in _PROBES])
        known = self._tables.get(key)
        factor = None if known is None else _common_factor(probes, known["probes"])
        if known is None or factor is None:
            known = {"probes": probes, "values": np.zeros(len(panels.nodes)), "filled": len(panels.nodes)}
            self._tables[key], factor = known, 1.0
        needed = panels.first_node(x)
        if needed < known["filled"]:
            fresh = [function(z, args) for z in panels.nodes[needed : known["filled"]]]
            known["values"][needed : known["filled"]] = np.array(fresh) / factor
            known["filled"] = needed
        return factor * known["values"]

    def _local(self, rsl: Any, x: float, key: tuple) -> float:
        # Adler sum rule: a constant that yadism finds by quadrature at every call.
        if rsl.loc.__name__ != "Adler":
            return rsl.loc(x, rsl.args["loc"])
        name = (*key, "Adler")
        if name not in self._tables:
            self._tables[name] = {"value": rsl.loc(x, rsl.args["loc"])}
        return self._tables[name]["value"]


def _common_factor(probes: np.ndarray, known: np.ndarray) -> float | None:
    """Return the factor between two functions from their values at two places, or None."""
    if np.array_equal(probes, known):
        return 1.0
    if np.all(known != 0):
        factors = probes / known
        if factors[0] != 0 and abs(factors[0] - factors[1]) <= 1e-10 * abs(factors[0]):
            return float(factors[0])
    return None


TABLES = Tables()


def install() -> None:
    """Make yadism use :data:`TABLES` from now on."""
    esf.EvaluatedStructureFunction.compute_local = _compute_local
    conv.convolution = _convolution


def _convolution(rsl: Any, x: float, function: Any) -> tuple[float, float]:
    """Replace the scalar convolution; only target-mass corrections still call it."""
    args = tuple(float(a) for a in rsl.args["reg"])
    name = ("target mass", rsl.reg.__name__, args, x)
    known = TABLES._tables.get(name)
    if known is None:
        known = {"value": TABLES.integrate(rsl, x, 1.0, name)}
        TABLES._tables[name] = known
    return float(known["value"][function.poly_number]), 0.0


def _compute_local(self: Any) -> None:
    """Collect yadism's kernels at this point and integrate each with the shared tables."""
    if self._computed:
        return
    zero = self.zeros
    orders = {order: [zero.copy(), zero.copy()] for order in ((o, 0, 0, 0) for o in self.orders)}
    for kernel in coefficient_functions.Combiner(self).collect_elems():
        partons = np.array([kernel.partons.get(pid, 0.0) for pid in basis_rotation.flavor_basis_pids])
        for order in self.orders:
            if not kernel.has_order(order):
                continue
            rsl = kernel.coeff[order]()
            if rsl is None or (rsl.reg is None and rsl.sing is None and rsl.loc is None):
                continue
            x = kernel.coeff.convolution_point()
            key = (order, *_identity(kernel.coeff))
            values = x * TABLES.integrate(rsl, x, _threshold(kernel.coeff), key)
            orders[(order, 0, 0, 0)][0] += np.outer(partons, values)
    self.res.orders.update(orders)
    self._computed = True


def _identity(channel: Any) -> tuple:
    """Return what a coefficient function depends on: its class and its numbers, apart from x."""
    numbers_ = sorted(
        (name, float(value)) for name, value in vars(channel).items() if isinstance(value, numbers.Real) and name != "x"
    )
    kind = type(channel)
    return (kind.__module__, kind.__qualname__, channel.ESF.Q2, *numbers_)


def _threshold(channel: Any) -> float:
    """Return the largest z with room for a heavy pair: Q2 (1 - z) / z > 4 m2 (1 when massless)."""
    if hasattr(channel, "is_below_threshold"):
        q2 = channel.ESF.Q2
        return q2 / (q2 + 4 * channel.m2hq)
    return 1.0
