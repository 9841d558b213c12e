"""Operators from what people have: functions, an object, a matrix, or a forward model alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from partonfit._checks import real
from partonfit._errors import SettingError, nearest
from partonfit.operators._protocol import Array, Operator, sizes


def operator(
    instance: Any = None,
    /,
    *,
    forward: Callable[[Array], Any] | str | None = None,
    tangent_linear: Callable[[Array, Array], Any] | str | None = None,
    adjoint: Callable[[Array, Array], Any] | str | None = None,
    n_state: int | None = None,
    n_obs: int | None = None,
    batched: bool = False,
    thread_safe: bool | None = None,
    linear: bool | None = None,
    key: str | None = None,
    name: str | None = None,
) -> Operator:
    """Make an observation operator from plain functions or from an object.

    Parameters
    ----------
    instance
        An object with the methods, instead of functions. The arguments below then replace what it
        has: a method of another name is named by a string, ``forward="apply"``.
    forward
        ``forward(x) -> y``, from a state (state,) to observations (observation,), NumPy float64.
    tangent_linear
        ``tangent_linear(x, dx) -> dy`` (observation,). May be left out: gradients do not need it.
    adjoint
        ``adjoint(x, dy) -> dx`` (state,). May be left out: jvp does not need it.
    n_state, n_obs
        Sizes.
    batched
        Whether the functions also take a leading sample axis: (sample, state) and (sample,
        observation). One call then does what would be one call per sample.
    thread_safe
        Whether calls may overlap. If not (default), one call runs at a time.
    linear
        Whether the derivatives do not depend on the state. Second derivatives are then zero, and
        exist; otherwise asking for them is an error.
    key
        A text that identifies the operator and all its settings; needed to store results.
    name
        What messages call it.

    Returns
    -------
    Operator
        Follows :class:`ObservationOperator`. :func:`check_operator` says whether the derivatives
        are right.

    Raises
    ------
    SettingError
        When the forward function or a size is missing, or what was given is no function.

    Examples
    --------
    >>> import numpy as np
    >>> op = operator(
    ...     forward=lambda x: x[:2] ** 2,
    ...     tangent_linear=lambda x, dx: 2 * x[:2] * dx[:2],
    ...     adjoint=lambda x, dy: np.append(2 * x[:2] * dy, 0.0),
    ...     n_state=3, n_obs=2, name="first two squared",
    ... )
    >>> op
    <first two squared: 3 -> 2>
    >>> op.adjoint(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0]))
    array([2., 4., 0.])
    """
    given = {"forward": forward, "tangent_linear": tangent_linear, "adjoint": adjoint}
    functions = {kind: _function(instance, kind, value) for kind, value in given.items()}
    own = {what: getattr(instance, what, None) for what in ("n_state", "n_obs", "thread_safe", "linear")}
    # A key speaks for the object's own functions only.
    texts = ("key", "name") if all(value is None for value in given.values()) else ("name",)
    own |= {what: found for what in texts if isinstance(found := getattr(instance, what, None), str)}
    if functions["forward"] is None:
        msg = "An operator needs forward=, a function of the state (a NumPy vector)."
        raise SettingError(msg)
    n_state, n_obs = (own[w] if v is None else v for w, v in (("n_state", n_state), ("n_obs", n_obs)))
    for what, size in (("n_state", n_state), ("n_obs", n_obs)):
        if size is None:
            msg = f"An operator needs {what}=, the size of the {'state' if what == 'n_state' else 'observations'}."
            raise SettingError(msg)
    found: Any = {kind: f for kind, f in functions.items() if f is not None}
    if batched:
        batch: Any = {f"{kind}_batch": f for kind, f in found.items()}
    else:
        # A batched method of the object belongs to its method of the protocol's own name only.
        batch = {f"{kind}_batch": getattr(instance, f"{kind}_batch", None) for kind in found if given[kind] is None}
    return Operator(
        n_state=n_state,  # type: ignore[arg-type]  (checked above)
        n_obs=n_obs,  # type: ignore[arg-type]
        **found,
        **batch,
        thread_safe=bool(own["thread_safe"] if thread_safe is None else thread_safe),
        linear=bool(own["linear"] if linear is None else linear),
        key=_text("key", own.get("key") if key is None else key),
        name=_text("name", own.get("name") if name is None else name) or _default_name(instance, functions["forward"]),
    )


def _function(instance: Any, kind: str, value: Any) -> Any:
    """Return the function for ``kind``: given, named, or the object's own."""
    if isinstance(value, str):
        found = getattr(instance, value, None)
        if not callable(found):
            methods = [n for n in dir(instance) if not n.startswith("_") and callable(getattr(instance, n, None))]
            suggestion = nearest(value, methods, what="method") if methods else "It has no methods."
            msg = f"{kind}='{value}': {type(instance).__name__} has no such method. {suggestion}"
            raise SettingError(msg)
        return found
    if value is None:
        value = getattr(instance, kind, None)
    if value is not None and not callable(value):
        msg = f"{kind} must be a function, not {type(value).__name__}."
        raise SettingError(msg)
    return value


def _text(what: str, value: Any) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value
    msg = f"{what} must be a text that is not empty, not {value!r}."
    raise SettingError(msg)


def _default_name(instance: Any, forward: Any) -> str:
    name = type(instance).__name__ if instance is not None else getattr(forward, "__name__", "")
    return name if name and name != "<lambda>" else "operator"


def matrix_operator(matrix: Any, *, offset: Any = None, key: str | None = None, name: str = "matrix") -> Operator:
    """Make an operator from a matrix, a sparse matrix or a scipy ``LinearOperator``.

    Parameters
    ----------
    matrix
        H with shape (observation, state): ``forward`` is H x + offset, ``adjoint`` is H^T dy.
    offset
        Vector (observation,) or None for zero.
    key
        Content key. Worked out from the numbers of a dense or sparse matrix when left out; a
        ``LinearOperator`` has no content to see, so stored results need it given.
    name
        What messages call it.

    Returns
    -------
    Operator
        Linear, thread-safe (a ``LinearOperator`` is not taken to be) and batched.

    Raises
    ------
    SettingError
        When it is not two-dimensional, not real or not finite, or the offset does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> op = matrix_operator([[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
    >>> op
    <matrix: 3 -> 2, batched, linear, thread-safe>
    >>> op.adjoint(np.zeros(3), np.array([1.0, 1.0]))
    array([1., 2., 3.])
    """
    import scipy.sparse
    from scipy.sparse.linalg import LinearOperator

    digest = hashlib.sha256()
    if isinstance(matrix, LinearOperator):
        forward, transposed, shape = matrix.matmat, matrix.rmatmat, matrix.shape
        values, known = np.zeros(0, dtype=np.dtype(matrix.dtype)), False  # type: ignore[call-overload]
    else:
        own: Any = matrix.tocsr().copy() if scipy.sparse.issparse(matrix) else np.array(matrix, dtype=None)
        shape, known = own.shape, True
        values = own.data if scipy.sparse.issparse(own) else own
        if scipy.sparse.issparse(own):
            own.sum_duplicates()
            digest.update(own.indices.tobytes() + own.indptr.tobytes())
        if values.dtype.kind in "biuf":
            own = own.astype(np.float64)
        turned = own.T.tocsr() if scipy.sparse.issparse(own) else own.T
        forward, transposed = (lambda v: own @ v), (lambda v: turned @ v)
    if len(shape) != 2 or values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        msg = f"The matrix must be real and finite with shape (observation, state), not {values.dtype} {shape}."
        raise SettingError(msg)
    shift = np.zeros(shape[0]) if offset is None else np.array(offset, dtype=np.float64)
    if shift.shape != (shape[0],) or not np.isfinite(shift).all():
        msg = f"offset must be finite with shape ({shape[0]},), one number per observation, not {shift.shape}."
        raise SettingError(msg)
    digest.update(repr(shape).encode() + np.ascontiguousarray(values, dtype=np.float64).tobytes() + shift.tobytes())

    # Samples are columns for the matrix and rows for everyone else.
    def times(v: Array) -> Array:
        return forward(v.reshape(-1, shape[1]).T).T.reshape(*v.shape[:-1], shape[0])

    def back(v: Array) -> Array:
        return transposed(v.reshape(-1, shape[0]).T).T.reshape(*v.shape[:-1], shape[1])

    return operator(
        forward=lambda x: times(x) + shift,
        tangent_linear=lambda x, dx: times(dx),
        adjoint=lambda x, dy: back(dy),
        n_state=shape[1], n_obs=shape[0], batched=True, thread_safe=known, linear=True, name=name,
        key=key or (f"matrix {digest.hexdigest()}" if known else None),
    )  # fmt: skip


def finite_difference_operator(
    forward: Callable[[Array], Any] | Any,
    *,
    n_state: int | None = None,
    n_obs: int | None = None,
    step: float = 1e-6,
    key: str | None = None,
    name: str | None = None,
) -> Operator:
    """Make an operator whose derivatives are central differences of ``forward``. Slow.

    The tangent linear costs 2 forward calls, the adjoint 2 ``n_state``: with 1000 states one
    gradient is 2000 runs of the model. Agreement is about 1e-9 relative for smooth models computed
    in double precision: check with ``check_operator(op, tolerance=1e-7)``. Write an adjoint, or
    train a surrogate on values, when that is too slow.

    Parameters
    ----------
    forward
        ``forward(x) -> y``, or an operator, whose own derivatives are then not used.
    n_state, n_obs
        Sizes (an operator knows its own).
    step
        Size of the difference relative to max(1, largest element of the state).
    key, name
        See :func:`operator`.

    Returns
    -------
    Operator

    Raises
    ------
    SettingError
        When a size is missing or the step is not above zero.

    Examples
    --------
    >>> import numpy as np
    >>> op = finite_difference_operator(lambda x: x[:2] ** 2, n_state=3, n_obs=2, name="squares")
    >>> op
    <squares, derivatives by finite differences (1 adjoint = 6 forward calls): 3 -> 2>
    >>> op.adjoint(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0])).round(6)
    array([2., 4., 0.])
    """
    whole_operator = hasattr(forward, "forward")
    base = operator(forward, key=key, name=name) if whole_operator else operator(
        forward=forward, n_state=n_state, n_obs=n_obs, key=key, name=name
    )  # fmt: skip
    size, _ = sizes(base)
    real("step", step, above=0)

    def difference(x: Array, dx: Array) -> Array:
        length = np.abs(dx).max()
        if length == 0:
            return np.zeros(base.n_obs)
        h = step * max(1.0, np.abs(x).max()) / length
        up, down = (np.array(base.forward(x + sign * h * dx), dtype=np.float64) for sign in (1, -1))
        return (up - down).reshape(base.n_obs) / (2 * h)

    def gradient(x: Array, dy: Array) -> Array:
        result, unit = np.empty(size), np.zeros(size)
        for i in range(size):
            unit[i] = 1
            result[i] = dy @ difference(x, unit)
            unit[i] = 0
        return result

    return Operator(
        size, base.n_obs, base.forward, difference, gradient,
        key=f"{base.key}|finite differences {step!r}" if base.key else None,
        name=f"{base.name}, derivatives by finite differences (1 adjoint = {2 * size} forward calls)",
    )  # fmt: skip
