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
from contextlib import ContextDecorator
from itertools import count
from typing import Any

import numpy as np

from partonfit._errors import OperatorError
from partonfit.operators._protocol import KINDS, Array, name_of, require, sizes
from partonfit.operators._store import ResultStore

_FLOAT64 = np.dtype(np.float64)
_every = np.logical_and.reduce  # what .all() does, without its way through Python


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
        # Re-entrant: an operator may call another wrapper of itself.
        self._lock = None if getattr(op, "thread_safe", False) else threading.RLock()
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
        if x.ndim == 1:
            return self._one(kind, x, v, x.dtype)
        shape = x.shape[:-1] if v is None else np.broadcast_shapes(x.shape[:-1], v.shape[:-1])
        rows, size = math.prod(shape), self.size_out(kind)
        if not rows:
            return np.empty((*shape, size), dtype=x.dtype)
        xs, vs = _Rows(x, shape, rows), None if v is None else _Rows(v, shape, rows)
        batch = getattr(self.operator, f"{kind}_batch", None)
        if batch is not None:
            return self._batch(kind, batch, [a.full() for a in (xs, vs) if a is not None], x.dtype).reshape(
                *shape, size
            )
        result = np.empty((rows, size), dtype=x.dtype)
        for i in range(rows):
            result[i] = self._one(kind, xs[i], None if vs is None else vs[i], x.dtype)
        return result.reshape(*shape, size)

    # ---- one sample, or many ------------------------------------------------------------------------

    def _one(self, kind: str, x: Array, v: Array | None, dtype: np.dtype) -> Array:
        """Return a result (size,) that no one else holds."""
        own = np.array(x, dtype=_FLOAT64)
        given = (own,) if v is None else (own, np.array(v, dtype=_FLOAT64))
        shape = (self.size_out(kind),)
        if not self._finite_input(kind, given):
            return np.full(shape, np.nan, dtype=dtype)
        function = getattr(self.operator, kind, None)
        if function is None:
            require(self.operator, kind)
        if self.store is None:
            return self._call(kind, function, given, shape, dtype)
        result = self._stored(kind, given)
        if result is None:
            # The operator may write into its arguments, and the store needs them as they were.
            result = self._call(kind, function, [a.copy() for a in given], shape, _FLOAT64)
            self.store.put(kind, result, *given)
        return self._lower(kind, result, dtype)

    def _batch(self, kind: str, function: Callable[..., Any], given: list[Array], dtype: np.dtype) -> Array:
        """Return results (row, size) by one call for all rows that need one."""
        rows, size = len(given[0]), self.size_out(kind)
        good = None
        if not self._finite_input(kind, given):
            good = np.logical_and.reduce([np.isfinite(a).all(axis=1) for a in given])
        if self.store is None and good is None:
            return self._call(kind, function, given, (rows, size), dtype)
        result = np.full((rows, size), np.nan)
        todo = np.arange(rows) if good is None else np.flatnonzero(good)
        if self.store is not None:
            found = {i: self._stored(kind, [a[i] for a in given]) for i in todo}
            for i, stored in found.items():
                if stored is not None:
                    result[i] = stored
            todo = np.array([i for i, stored in found.items() if stored is None], dtype=int)
        if len(todo):
            result[todo] = self._call(kind, function, [a[todo] for a in given], (len(todo), size), _FLOAT64)
        if self.store is not None:
            for i in todo:
                self.store.put(kind, result[i], *(a[i] for a in given))
        return self._lower(kind, result, dtype)

    def _call(self, kind: str, function: Any, given: Any, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        """Call the operator, alone if it must be, and return a checked copy of what it gives."""
        if self._lock is None:
            with self._counting:
                self.calls[kind] += 1
            return self._result(kind, self._asked(function, given), shape, dtype)
        with self._lock:
            self.calls[kind] += 1
            # Copied while the lock is held: the operator may use one buffer for all its results.
            return self._result(kind, self._asked(function, given), shape, dtype)

    def _asked(self, function: Any, given: Any) -> Any:
        if self.nonfinite == "raise":
            return function(*given)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # what is not finite is an answer
            return function(*given)

    def _stored(self, kind: str, given: Any) -> Array | None:
        result = self.store.get(kind, *given) if self.store is not None else None
        if result is not None:
            with self._counting:
                self.calls["stored"] += 1
        return result

    # ---- what goes in and what comes out -------------------------------------------------------------

    def _finite_input(self, kind: str, given: Any) -> bool:
        """Return whether all is finite; where that is an error (policy "raise"), raise it."""
        for place, value in enumerate(given):
            if _every(np.isfinite(value), None):
                continue
            if self.nonfinite == "nan":
                return False
            what = ("state", "direction dx" if kind == "tangent_linear" else "observation vector dy")[place]
            title = f"The {what} given to {self._title(kind)}"
            raise OperatorError(_where(title, value, "Training may have diverged."))
        return True

    def _result(self, kind: str, found: Any, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        """Return a copy of what the operator returned, of the right shape and type, or say what is wrong."""
        if type(found) is not np.ndarray or found.dtype != _FLOAT64 or found.shape != shape:
            found = as_float64(found, shape, self._title(kind))
        return self._lower(kind, found, dtype)

    def _lower(self, kind: str, result: Array, dtype: np.dtype) -> Array:
        """Return a copy in the type ``dtype`` after checking that it is finite (policy "raise")."""
        if dtype == _FLOAT64:
            small = result.copy()
        else:
            with np.errstate(over="ignore"):
                small = result.astype(dtype)
        if self.nonfinite == "raise" and not _every(np.isfinite(small), None):
            if np.isfinite(result).all():
                text = f"A result of {self._title(kind)} is {np.abs(result).max():.3g}: too large for {dtype}."
                msg = f"{text} Use float64 or scale it."
            else:
                msg = _where(f"The result of {self._title(kind)}", result, 'With nonfinite="nan" it goes on.')
            raise OperatorError(msg)
        return small

    def _title(self, kind: str) -> str:
        return f"{kind} of operator '{self.name}'"


class _Rows:
    """The samples of an array whose leading axes stretch to ``shape``, without copying what repeats."""

    def __init__(self, array: Array, shape: tuple[int, ...], rows: int) -> None:
        size = array.shape[-1]
        self.shape = (rows, size)
        if array.size == size:  # the same for all rows
            self.array, self.step = array.reshape(1, size), 0
        else:
            self.array, self.step = np.broadcast_to(array, (*shape, size)).reshape(rows, size), 1

    def __getitem__(self, i: int) -> Array:
        return self.array[i * self.step]

    def full(self) -> Array:
        """Return all rows (row, size) as a float64 array of its own."""
        result = np.empty(self.shape)
        result[:] = self.array
        return result


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
