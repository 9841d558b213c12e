"""What the R package calls for operators: the part of the bridge beside fits.

An operator stays here, behind a :class:`Handle` that R holds; arrays cross as float64. R runs on one
thread only, so functions of R's are guarded: a call from another thread is refused before R is touched.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import partonfit as pf
from partonfit import _columns
from partonfit._bridge_fits import data_of
from partonfit._errors import OperatorError
from partonfit._precision import precision_context
from partonfit.operators._protocol import has, name_of, sizes

_KINDS = ("forward", "tangent_linear", "adjoint")


@dataclass(frozen=True)
class Handle:
    """Something that stays in Python; R would turn a callable object into a function of its own."""

    value: Any


@dataclass(frozen=True)
class _OfR:
    """A function of R's that only R's own thread may call."""

    function: Callable[..., Any]
    what: str
    thread: threading.Thread

    def __call__(self, *arguments: np.ndarray) -> Any:
        if threading.current_thread() is not self.thread:
            msg = (
                f"{self.what} is an R function, and R runs on one thread only, so it cannot be called inside a "
                "compiled program (jit, live surrogates). Call it directly, or let fit_surrogate() ask for its "
                "design points first, which is the default."
            )
            raise OperatorError(msg)
        return self.function(*arguments)


def make_operator(recipe: Mapping[str, Any]) -> Handle:
    """Build the operator that a recipe of R's describes: its ``kind`` and the arguments of that kind."""
    arguments = {name: value for name, value in recipe.items() if name != "kind" and value is not None}
    return Handle(_MAKERS[recipe["kind"]](arguments))


def _from_functions(arguments: dict[str, Any]) -> Any:
    name = arguments.get("name") or "operator"
    thread = threading.current_thread()
    functions = {
        kind: _OfR(arguments.pop(kind), f"'{kind}' of the operator '{name}'", thread)
        for kind in _KINDS
        if kind in arguments
    }
    if arguments.pop("differences", False):
        for unused in ("batched", "linear"):
            arguments.pop(unused, None)
        return pf.finite_difference_operator(functions["forward"], **arguments)
    return pf.operator(**functions, **arguments)


def _from_matrix(arguments: dict[str, Any]) -> Any:
    options = {name: arguments[name] for name in ("offset", "key", "name") if name in arguments}
    return pf.matrix_operator(np.ascontiguousarray(arguments["matrix"], dtype=float), **options)


def _from_theory(arguments: dict[str, Any]) -> Any:
    data = data_of(arguments["data"], arguments.get("cuts"))
    return pf.theory_operator(data, pf.load_theory(arguments["theory"]), basis=arguments["basis"])


_MAKERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "functions": _from_functions,
    "matrix": _from_matrix,
    "theory": _from_theory,
    "transport": lambda arguments: pf.transport_model(**arguments),
}


def operator_facts(handle: Handle) -> dict[str, Any]:
    """Return sizes, name and what an operator offers as plain values."""
    op = handle.value
    n_state, n_obs = sizes(op)
    return {
        "n_state": n_state, "n_obs": n_obs, "name": name_of(op), "linear": bool(getattr(op, "linear", False)),
        "batched": has(op, "forward_batch"), "lacks": [kind for kind in _KINDS if not has(op, kind)],
    }  # fmt: skip


def check_operator(handle: Handle, x: np.ndarray | None, samples: int, tolerance: float, seed: int) -> dict[str, Any]:
    """Return what :func:`partonfit.check_operator` found, as text and as columns."""
    found = pf.check_operator(handle.value, x, samples=samples, tolerance=tolerance, seed=seed)
    return {
        "passed": found.passed,
        "text": str(found),
        "problems": {
            "test": [p.test for p in found.problems],
            "problem": [p.text for p in found.problems],
            "serious": [bool(p.serious) for p in found.problems],
        },
        "measured": {"test": list(found.measured), "value": _columns.column(found.measured.values(), "number")},
    }


def wrap_operator(handle: Handle, mode: str, at: Any, reload_results: Any, nonfinite: str) -> Handle:
    """Return the operator as a function of JAX arrays, behind a handle."""
    with precision_context("float64"):
        return Handle(
            pf.wrap_operator(handle.value, mode=mode, at=at, reload_results=reload_results, nonfinite=nonfinite)
        )


def apply_operator(handle: Handle, kind: str, *arguments: np.ndarray) -> np.ndarray:
    """Return ``kind`` of a wrapped operator ("call" for the mode's own) in float64, in the calling thread."""
    function = handle.value if kind == "call" else getattr(handle.value, kind)
    with precision_context("float64"):
        return np.asarray(function(*(np.ascontiguousarray(a, dtype=float) for a in arguments)), dtype=float)


def operator_calls(handle: Handle) -> dict[str, int]:
    """Return how often the operator was called, by function."""
    return {kind: int(count) for kind, count in handle.value.calls.items()}
