"""The side of an operator that runs in NumPy: copies, checks, locks, batches, stored results.

Nothing here may touch JAX. These functions run inside compiled programs, on threads of the compiler's
runtime, and a JAX call there can wait for itself for ever (seen on jax 0.10.2).
"""

from __future__ import annotations

import math
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, ContextDecorator, nullcontext
from itertools import count
from typing import Any

import numpy as np

from partonfit._errors import OperatorError
from partonfit.operators._protocol import KINDS, Array, name_of, require, sizes
from partonfit.operators._store import ResultStore

_FLOAT64 = np.dtype(np.float64)


class Host:
    """Runs one operator for callers that hold arrays of any float type with any leading axes.

    A plain class, not a dataclass: it owns a lock and counters, which are not values.
    """

    def __init__(self, op: Any, store: ResultStore | None, nonfinite: str) -> None:
        self.operator, self.store, self.nonfinite = op, store, nonfinite
        self.n_state, self.n_obs = sizes(op)
        self.linear = bool(getattr(op, "linear", False))
        self.name = name_of(op)
        self.calls: dict[str, int] = dict.fromkeys((*KINDS, "stored"), 0)
        self._lock: AbstractContextManager[Any] = nullcontext()
        if not getattr(op, "thread_safe", False):
            # Re-entrant: an operator may call another wrapper of itself.
            self._lock = threading.RLock()
        self._counting = threading.Lock()

    def size_out(self, kind: str) -> int:
        """Return the size of the result of ``kind``."""
        return self.n_state if kind == "adjoint" else self.n_obs

    def run(self, kind: str, x: Array, v: Array | None = None) -> Array:
        """Return the result (..., size) in the type of the arguments.

        Parameters
        ----------
        kind
            One of :data:`KINDS`.
        x
            States (..., state).
        v
            Directions (..., state) or observation vectors (..., observation); leading axes of size
            one stretch over those of ``x``, and the other way round.
        """
        dtype = np.dtype(x.dtype)
        if x.ndim == 1 and (v is None or v.ndim == 1):
            return self._lower(kind, self._one(kind, x, v), dtype)
        shape = x.shape[:-1] if v is None else np.broadcast_shapes(x.shape[:-1], v.shape[:-1])
        rows = math.prod(shape)
        result = np.empty((rows, self.size_out(kind)))
        if rows:
            xs = _Rows(x, shape)
            vs = None if v is None else _Rows(v, shape)
            self._many(kind, xs, vs, result)
        return self._lower(kind, result, dtype).reshape(*shape, -1 if rows else self.size_out(kind))

    # ---- one sample, or many ------------------------------------------------------------------------

    def _one(self, kind: str, x: Array, v: Array | None) -> Array:
        """Return a result (size,) in float64 that no one else holds."""
        own = np.array(x, dtype=_FLOAT64)
        given = () if v is None else (np.array(v, dtype=_FLOAT64),)
        if not self._finite_input(kind, own, *given):
            return np.full(self.size_out(kind), np.nan)
        if self.store is not None:
            stored = self.store.get(kind, own, *given)
            if stored is not None:
                self._count("stored", 1)
                return stored
            # The operator may write into its arguments, and the store needs them as they were.
            result = self._call(kind, own.copy(), *(g.copy() for g in given))
            self.store.put(kind, result, own, *given)
            return result
        return self._call(kind, own, *given)

    def _call(self, kind: str, *arguments: Array) -> Array:
        function = getattr(self.operator, kind, None)
        if function is None:
            require(self.operator, kind)
        with self._lock:
            self._count(kind, 1)
            found = function(*arguments)  # type: ignore[misc]  (require has raised)
            # Copied while the lock is held: the operator may use one buffer for all its results.
            return self._checked(kind, found, (self.size_out(kind),)).copy()

    def _many(self, kind: str, x: _Rows, v: _Rows | None, result: Array) -> None:
        batch = getattr(self.operator, f"{kind}_batch", None)
        if batch is None:
            for i in range(len(result)):
                result[i] = self._one(kind, x[i], None if v is None else v[i])
            return
        todo = np.arange(len(result))
        arguments = [a.full() for a in (x, v) if a is not None]
        if not self._finite_input(kind, *arguments):
            good = np.logical_and.reduce([np.isfinite(a).all(axis=1) for a in arguments])
            result[~good], todo = np.nan, todo[good]
        if self.store is not None:
            todo = np.array([i for i in todo if not self._fill(kind, i, arguments, result)], dtype=int)
        if not len(todo):
            return
        copies = [a[todo] for a in arguments]
        with self._lock:
            self._count(kind, 1)
            found = batch(*copies)
            result[todo] = self._checked(kind, found, (len(todo), self.size_out(kind)))
        if self.store is not None:
            for i in todo:
                self.store.put(kind, result[i], *(a[i] for a in arguments))

    def _fill(self, kind: str, i: Any, arguments: list[Array], result: Array) -> bool:
        """Fill one row from the store; return whether it was there."""
        stored = self.store.get(kind, *(a[i] for a in arguments)) if self.store is not None else None
        if stored is None:
            return False
        self._count("stored", 1)
        result[i] = stored
        return True

    def _count(self, what: str, n: int) -> None:
        with self._counting:
            self.calls[what] += n

    # ---- what goes in and what comes out -------------------------------------------------------------

    def _finite_input(self, kind: str, *arguments: Array) -> bool:
        """Return whether all is finite; where that is an error (policy "raise"), raise it."""
        for place, value in enumerate(arguments):
            if np.isfinite(value).all():
                continue
            if self.nonfinite == "nan":
                return False
            what = ("state", "direction dx" if kind == "tangent_linear" else "observation vector dy")[place]
            raise OperatorError(
                _where(f"The {what} given to {self._title(kind)}", value, "Training may have diverged.")
            )
        return True

    def _checked(self, kind: str, found: Any, shape: tuple[int, ...]) -> Array:
        """Return what the operator returned as an array of the right shape, or say what is wrong with it."""
        if type(found) is not np.ndarray or found.dtype != _FLOAT64 or found.shape != shape:
            found = as_float64(found, shape, self._title(kind))
        if self.nonfinite == "raise" and not np.isfinite(found).all():
            raise OperatorError(_where(f"The result of {self._title(kind)}", found, 'With nonfinite="nan" it goes on.'))
        return found

    def _lower(self, kind: str, result: Array, dtype: np.dtype) -> Array:
        if dtype == _FLOAT64:
            return result
        with np.errstate(over="ignore"):
            small = result.astype(dtype)
        if self.nonfinite == "raise" and not np.isfinite(small).all():
            worst = np.abs(result).max()
            msg = f"A result of {self._title(kind)} is {worst:.3g}: too large for {dtype}. Use float64 or scale it."
            raise OperatorError(msg)
        return small

    def _title(self, kind: str) -> str:
        return f"{kind} of operator '{self.name}'"


class _Rows:
    """The samples of an array whose leading axes stretch to ``shape``, without copying what repeats."""

    def __init__(self, array: Array, shape: tuple[int, ...]) -> None:
        self.size = array.shape[-1]
        single = array.size == self.size
        self.array = array.reshape(1, self.size) if single else np.broadcast_to(array, (*shape, self.size))
        self.rows = math.prod(shape)
        if not single:
            self.array = self.array.reshape(self.rows, self.size)

    def __getitem__(self, i: int) -> Array:
        return self.array[i if len(self.array) > 1 else 0]

    def full(self) -> Array:
        """Return all rows (row, size) as a float64 array."""
        return np.array(np.broadcast_to(self.array, (self.rows, self.size)), dtype=_FLOAT64, order="C")


def as_float64(found: Any, shape: tuple[int, ...], title: str) -> Array:
    """Return a result as a float64 array of ``shape``.

    Lists, other float types, whole numbers and any memory order are converted. What can't be meant
    (no numbers, complex ones, another shape, an array of JAX) is an error that says what came.

    Raises
    ------
    OperatorError
        Names the operator, what it returned and what was expected.
    """
    if type(found).__module__.split(".")[0] in ("jax", "jaxlib"):
        msg = (
            f"{title} returned a JAX array. An operator must compute in NumPy alone: a JAX call inside it can hang "
            f"a compiled program. Leave JAX code unwrapped, JAX differentiates it by itself."
        )
        raise OperatorError(msg)
    try:
        array = np.asarray(found)
        if array.dtype.kind not in "biuf" and not array.dtype.name.startswith(("bfloat", "float")):
            raise TypeError
    except (TypeError, ValueError):
        kind = getattr(getattr(found, "dtype", None), "name", None)
        what = f"an array of {kind}" if kind else f"a {type(found).__name__} that is no array of numbers"
        msg = f"{title} returned {what}. It must return a real float64 array of shape {_shape(shape)}."
        raise OperatorError(msg) from None
    if array.shape != shape and array.size == 1 and math.prod(shape) == 1 and array.ndim <= len(shape):
        array = array.reshape(shape)  # one number may come without its axis
    if array.shape != shape:
        hint = ""
        if array.size == math.prod(shape):
            hint = " The number of elements is right: flatten or transpose it."
        elif found is None:
            hint = " Does it lack a return?"
        msg = f"{title} returned shape {_shape(array.shape)}; expected {_shape(shape)}.{hint}"
        raise OperatorError(msg)
    return array.astype(_FLOAT64)


def _shape(shape: tuple[int, ...]) -> str:
    return repr(tuple(int(n) for n in shape))


def _where(what: str, value: Array, then: str) -> str:
    bad = np.argwhere(~np.isfinite(value))
    at = ", ".join(str(i) for i in bad[0])
    some = value[tuple(bad[0])]
    return f"{what} is not finite: {some} at index {at} ({len(bad)} of {value.size}). {then}"


# ---- exceptions that pass through a compiled program ---------------------------------------------------

_KEPT = 64
_failures: OrderedDict[int, BaseException] = OrderedDict()
_numbers = count(1)
_failures_lock = threading.Lock()
_MARK = re.compile(r"\[operator failure (\d+)\]")


class _PassedOn(Exception):
    """Carries the number of a failure through XLA, which keeps the text of an exception only."""


def callback(function: Callable[..., Array]) -> Callable[..., tuple[Array]]:
    """Return ``function`` as a callback of one result whose exceptions can be found again."""

    def call(*arguments: Array) -> tuple[Array]:
        try:
            return (function(*(np.asarray(a) for a in arguments)),)
        except BaseException as error:
            raise _passed_on(error) from None

    return call


def _passed_on(error: BaseException) -> _PassedOn:
    number = next(_numbers)
    with _failures_lock:
        _failures[number] = error
        while len(_failures) > _KEPT:
            _failures.popitem(last=False)
    return _PassedOn(
        f"{type(error).__name__}: {error}\n(The operator failed inside a compiled program. To catch its own exception, "
        f"run the program in `with partonfit.operators.original_errors():`.) [operator failure {number}]"
    )


class original_errors(ContextDecorator):
    """Raise an operator's own exception where a compiled program would raise XLA's.

    XLA keeps only the text of an exception that left an operator inside ``jit``. In this context (or
    in a function it decorates) the original exception comes out, with its type, attributes and
    traceback. Outside of ``jit`` no context is needed.

    Wait for results inside (``jax.block_until_ready``) where a program is left running.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, numpy as np, partonfit as pf
    >>> def forward(x):
    ...     if x.min() < 0:
    ...         raise LookupError("a negative concentration")
    ...     return np.sqrt(x)
    >>> H = pf.wrap_operator(pf.operator(forward=forward, n_state=2, n_obs=2))
    >>> with original_errors():
    ...     jax.jit(H)(jnp.array([1.0, -1.0]))
    Traceback (most recent call last):
        ...
    LookupError: a negative concentration
    """

    def __enter__(self) -> original_errors:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        """Raise the original of ``error``, if it has one."""
        found = _MARK.search(str(error)) if error is not None else None
        if found is None or isinstance(error, _PassedOn):
            return
        with _failures_lock:
            original = _failures.pop(int(found[1]), None)
        if original is not None:
            raise original from None
