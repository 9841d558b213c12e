"""How table rows combine to what was measured.

The operations are those of the NNPDF metadata. All are written with plain arithmetic, so they accept
NumPy and JAX arrays alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from partonfit._errors import TheoryError, nearest


@dataclass(frozen=True)
class Operation:
    """One operation: its number of operands, its function, and whether it is linear in them."""

    n_operands: int
    apply: Callable[..., Any]
    linear: bool


def _total(parts: Sequence[Any]) -> Any:
    result = parts[0]
    for part in parts[1:]:
        result = result + part
    return result


OPERATIONS: dict[str, Operation] = {
    "NULL": Operation(1, lambda a: a, True),
    "ADD": Operation(2, lambda a, b: a + b, True),
    "RATIO": Operation(2, lambda a, b: a / b, False),
    "ASY": Operation(2, lambda a, b: (a - b) / (a + b), False),
    "SMN": Operation(4, lambda a, b, c, d: (a + b) / (c + d), False),
    "SMT": Operation(10, lambda *parts: _total(parts), True),
    "COM": Operation(20, lambda *parts: _total(parts[:10]) / _total(parts[10:]), False),
}
"""Operation name to definition: RATIO a/b, ASY (a-b)/(a+b), SMN (a+b)/(c+d), SMT the sum of ten, COM
the sum of the first ten over the sum of the last ten."""


def operation(name: str, n_operands: int, dataset: str) -> Operation:
    """Return an operation after checking that it exists and takes this many operands."""
    if name not in OPERATIONS:
        suggestion = nearest(name, OPERATIONS, what="operation")
        msg = f"Dataset {dataset} asks for the unknown operation '{name}'. {suggestion}"
        raise TheoryError(msg)
    found = OPERATIONS[name]
    if found.n_operands != n_operands:
        msg = f"Operation {name} of dataset {dataset} takes {found.n_operands} operands, not {n_operands}."
        raise TheoryError(msg)
    return found
