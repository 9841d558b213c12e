"""What an observation operator is: three functions of plain NumPy arrays and two sizes.

The protocol is what every other part builds on: the JAX wrapper, the checks, surrogates and
inversions ask for nothing else, and cannot tell a table from a black box or a network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from partonfit._checks import whole
from partonfit._errors import OperatorError, SettingError

Array = np.ndarray
KINDS = ("forward", "tangent_linear", "adjoint")
"""The three functions, by the names used in call counts, stores and messages."""


@runtime_checkable
class ObservationOperator(Protocol):
    """From a state (state,) to what is observed (observation,), with its two derivatives.

    Any object with these five attributes is an operator. The functions take and return float64
    NumPy vectors; they are handed private copies, so they may write into their arguments.

    Attributes
    ----------
    n_state, n_obs
        Sizes of the state and of the observations.

    Notes
    -----
    More attributes are used where they exist:

    * ``forward_batch``, ``tangent_linear_batch``, ``adjoint_batch``: the same functions for many
      states at once, arrays (sample, state) and (sample, observation). Without them an operator is
      called sample by sample.
    * ``thread_safe``: whether calls may overlap (else a lock lets one through at a time).
    * ``linear``: whether ``tangent_linear`` and ``adjoint`` do not depend on the state.
    * ``key``: a text that changes whenever a result could change; stored results need it.

    Examples
    --------
    >>> class Square:
    ...     n_state = n_obs = 3
    ...     def forward(self, x): return x**2
    ...     def tangent_linear(self, x, dx): return 2 * x * dx
    ...     def adjoint(self, x, dy): return 2 * x * dy
    >>> isinstance(Square(), ObservationOperator)
    True
    """

    n_state: int
    n_obs: int

    def forward(self, x: Array, /) -> Array:
        """Return the observations (observation,) of a state (state,)."""
        ...

    def tangent_linear(self, x: Array, dx: Array, /) -> Array:
        """Return H(x) dx (observation,): how the observations change when the state changes by dx."""
        ...

    def adjoint(self, x: Array, dy: Array, /) -> Array:
        """Return H(x)^T dy (state,): the gradient of dy . forward(x) with respect to x."""
        ...


def _missing(*_: Array) -> Array:
    raise AssertionError  # replaced by a message before it can be called


@dataclass(frozen=True, eq=False)
class Operator:
    """An operator made of functions; :func:`operator` and its kin make it.

    Attributes
    ----------
    n_state, n_obs
        Sizes.
    forward, tangent_linear, adjoint
        The functions. A derivative that was not given raises :class:`OperatorError`.
    forward_batch, tangent_linear_batch, adjoint_batch
        The same for arrays (sample, ...), or None.
    thread_safe, linear, key
        See :class:`ObservationOperator`.
    name
        What messages call it.
    """

    n_state: int
    n_obs: int
    forward: Callable[[Array], Any]
    tangent_linear: Callable[[Array, Array], Any] = _missing
    adjoint: Callable[[Array, Array], Any] = _missing
    forward_batch: Callable[[Array], Any] | None = None
    tangent_linear_batch: Callable[[Array, Array], Any] | None = None
    adjoint_batch: Callable[[Array, Array], Any] | None = None
    thread_safe: bool = False
    linear: bool = False
    key: str | None = None
    name: str = "operator"

    def __post_init__(self) -> None:
        """Check the sizes and put a message in the place of a missing derivative."""
        for size in ("n_state", "n_obs"):
            object.__setattr__(self, size, whole(size, getattr(self, size), least=1))
        for kind in KINDS:
            if getattr(self, kind) is _missing:
                object.__setattr__(self, kind, _Absent(self.name, kind))

    def __repr__(self) -> str:
        """Return one line: name, sizes and what it offers."""
        parts = [f"{self.n_state} -> {self.n_obs}"]
        absent = [kind.replace("_", " ") for kind in KINDS if not has(self, kind)]
        parts += [f"no {' or '.join(absent)}"] if absent else []
        parts += ["batched"] if self.forward_batch else []
        parts += ["linear"] if self.linear else []
        parts += ["thread-safe"] if self.thread_safe else []
        return f"<{self.name}: {', '.join(parts)}>"


@dataclass(frozen=True)
class _Absent:
    """Stands where an operator has no such function, and says so when called."""

    name: str
    kind: str

    def __call__(self, *_: Array) -> Array:
        raise OperatorError(self.message)

    @property
    def message(self) -> str:
        use = {
            "tangent_linear": "Forward-mode derivatives (jvp, jacfwd) need it; gradients need the adjoint only.",
            "adjoint": "Gradients (grad, vjp, jacrev) need it; jvp and jacfwd need the tangent linear only.",
        }.get(self.kind, "")
        return (
            f"The operator '{self.name}' has no {self.kind.replace('_', ' ')}. {use} Give {self.kind}=, or take "
            f"finite_difference_operator(), which is slow."
        )


def has(op: Any, kind: str) -> bool:
    """Return whether an operator has the function ``kind``."""
    return callable(getattr(op, kind, None)) and not isinstance(getattr(op, kind), _Absent)


def require(op: Any, kind: str) -> None:
    """Raise :class:`OperatorError` when an operator lacks the function ``kind``."""
    if not has(op, kind):
        found = getattr(op, kind, None)
        absent = found if isinstance(found, _Absent) else _Absent(name_of(op), kind)
        raise OperatorError(absent.message)


def name_of(op: Any) -> str:
    """Return what messages call an operator: its ``name`` or its class."""
    name = getattr(op, "name", None)
    return name if isinstance(name, str) and name else type(op).__name__


def sizes(op: Any) -> tuple[int, int]:
    """Return (n_state, n_obs) of anything that follows the protocol.

    Raises
    ------
    SettingError
        When the object is no operator; the message names what it lacks.
    """
    lacking = [name for name in ("n_state", "n_obs", "forward") if not hasattr(op, name)]
    if lacking:
        msg = (
            f"{type(op).__name__!r} is no observation operator: it has no {' and no '.join(lacking)}. Make one "
            f"from functions with operator(forward=, tangent_linear=, adjoint=, n_state=, n_obs=)."
        )
        raise SettingError(msg)
    return whole("n_state", op.n_state, least=1), whole("n_obs", op.n_obs, least=1)
