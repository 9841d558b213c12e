"""From numbers that disagree to a sentence that says why, as far as numbers can tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Array = np.ndarray
_CLOSE = 1e-4  # a guess at the cause must explain the numbers this well


def close(a: Array, b: Array, within: float = _CLOSE) -> bool:
    """Return whether two arrays agree, relative to the size of both together."""
    size = max(np.linalg.norm(a), np.linalg.norm(b))
    return bool(np.linalg.norm(np.subtract(a, b)) <= within * size)


def error(found: Array, right: Array) -> float:
    """Return |found - right| relative to |right| (to |found| where right is zero)."""
    size = np.linalg.norm(right) or np.linalg.norm(found)
    return float(np.linalg.norm(np.subtract(found, right)) / size) if size else 0.0


def constant_factor(found: Array, right: Array) -> float | None:
    """Return c where found = c right, else None."""
    norm = float(np.vdot(right, right))
    if norm == 0:
        return None
    c = float(np.vdot(found, right)) / norm
    return c if c != 0 and close(found, c * right) else None


def say_factor(c: float) -> str:
    """Return what a constant factor points to."""
    if abs(c + 1) < _CLOSE:
        return "has the wrong sign"
    if c < 0:
        return f"has the wrong sign and is {abs(c):.4g} times too large" if c < -1 else (
            f"has the wrong sign and is {1 / abs(c):.4g} times too small"
        )  # fmt: skip
    if c > 1:
        return f"is {c:.4g} times too large: a factor {c:.4g} is there once too often"
    return f"is {1 / c:.4g} times too small: a factor {1 / c:.4g} is missing"


def why_tangent(found: Array, right: Array) -> str:
    """Return why tangent-linear results differ from derivatives of forward.

    Parameters
    ----------
    found, right
        What ``tangent_linear`` gives, and what differences of ``forward`` give (state, direction,
        observation).
    """
    common = _stale(found, right) or _common_factor(found, right)
    if common:
        return common
    wrong = [i for i in range(right.shape[-1]) if not close(found[..., i], right[..., i], 1e-5)]
    if len(wrong) < right.shape[-1]:
        return f"is wrong for {_some(wrong)} of {right.shape[-1]} observations and right for the others"
    moved = _permutation(found.reshape(-1, found.shape[-1])[0], right.reshape(-1, right.shape[-1])[0])
    if moved:
        return moved
    own = [[constant_factor(f[:, i], r[:, i]) for i in range(f.shape[-1])] for f, r in zip(found, right, strict=True)]
    if all(c is not None for row in own for c in row):
        return (
            f"is off by another factor for each observation (index 0: {own[0][0]:.4g}), the same for every direction: "
            f"the derivative of the last step, from model to observations, is missing or wrong"
        )
    return "is wrong in every observation, by no factor that is common to directions"


def _common_factor(found: Array, right: Array) -> str:
    """Return a sentence when at each state all numbers are off by one factor."""
    factors = [c for f, r in zip(found, right, strict=True) if (c := constant_factor(f, r)) is not None]
    if len(factors) < len(found):
        return ""
    low, high = min(factors), max(factors)
    if high - low <= _CLOSE * abs(high):
        return say_factor(high)
    return f"is off by a factor that depends on the state ({low:.4g} to {high:.4g}): a link of the chain rule is wrong"


def _stale(found: Array, right: Array) -> str:
    """Return a sentence when results at one state are the derivatives at another, or at none of them."""
    states = range(len(right))
    moving = any(not close(right[0], right[s]) for s in states)
    if not moving or len(right) < 2:
        return ""
    for s in states:
        for other in states:
            if s != other and not close(right[s], right[other]) and close(found[s], right[other]):
                return (
                    f"uses a stale linearisation: at state {s} it gives the derivative at state {other}, where it was "
                    f"called before. Linearise at the x that is passed in, not at one kept from an earlier call"
                )
    if all(close(found[0], found[s], 1e-9) for s in states):
        return (
            "does not depend on the state, but the derivative of forward does: the linearisation point is fixed. "
            "Linearise at the x that is passed in"
        )
    return ""


def why_adjoint(found: Array, right: Array) -> str:
    """Return why products with adjoint results differ, from numbers alone; "" when they do not tell.

    Parameters
    ----------
    found, right
        <dx, adjoint(x, dy)> and <derivative along dx, dy> (state, dy, dx).
    """
    return _stale(found, right) or _common_factor(found, right)


def why_gradient(found: Array, right: Array, where: Array) -> str:
    """Return why gradients differ, from some of their elements.

    Parameters
    ----------
    found
        What ``adjoint`` gives for some dy (dy, state).
    right
        The right elements at ``where`` (dy, element).
    where
        Indices into the state (element,).
    """
    here = found[:, where]
    wrong = [i for i in range(len(where)) if not close(here[:, i], right[:, i], 1e-5)]
    moved = _permutation(found[0], right[0], where)
    if moved:
        return moved
    if 0 < len(wrong) < len(where):
        share = "all zero there" if not here[:, wrong].any() else "another number there"
        return (
            f"is wrong for some elements of the state and right for others: wrong at {_some(where[wrong])} ({share}), "
            f"right at {_some([where[i] for i in range(len(where)) if i not in wrong])}, of the {len(where)} looked at"
        )
    own = [constant_factor(here[:, i], right[:, i]) for i in range(len(where))]
    if all(c is not None for c in own):
        return (
            f"is off by another factor for each element of the state (index {where[0]}: {own[0]:.4g}): weights or cell "
            f"sizes are missing, or used twice"
        )
    return ""


def why_observations(product: Callable[[int], tuple[Array, Array]], n_obs: int) -> str:
    """Return a sentence when each observation enters the adjoint with a factor of its own.

    Parameters
    ----------
    product
        Gives, for one observation, found and right products with several directions.
    """
    factors = {}
    for j in np.unique(np.linspace(0, n_obs - 1, min(n_obs, 6)).astype(int)):
        found, right = product(int(j))
        if not right.any() and not found.any():
            continue
        c = constant_factor(found, right)
        if c is None:
            return ""
        factors[int(j)] = c
    if len(factors) < 2:
        return ""
    text = ", ".join(f"{j}: {c:.4g}" for j, c in factors.items())
    return (
        f"weights the observations wrongly (factor by index {text}): the derivative of the last step, or weights of "
        f"the observations, are missing or wrong"
    )


def _permutation(found: Array, right: Array, where: Array | None = None) -> str:
    """Return a sentence when the right numbers are there, at the wrong places."""
    where = np.arange(len(right)) if where is None else where
    size = np.abs(right).max(initial=0.0)
    seen = np.abs(right) > 1e-6 * size
    if seen.sum() < 2 or len(found) < 3:
        return ""
    pairs = []
    for value, i in zip(right[seen], where[seen], strict=True):
        j = int(np.argmin(np.abs(found - value)))
        if abs(found[j] - value) > 1e-6 * abs(value):
            return ""
        pairs.append((int(i), j))
    if all(i == j for i, j in pairs):
        return ""
    n = len(found)
    if all(j == n - 1 - i for i, j in pairs):
        return "has the right numbers in reversed order"
    if len({(j - i) % n for i, j in pairs}) == 1:
        shift = (pairs[0][1] - pairs[0][0]) % n
        return f"has the right numbers shifted by {shift if shift <= n // 2 else shift - n}: an index is off"
    i, j = next((i, j) for i, j in pairs if i != j)
    return (
        f"has the right numbers at the wrong places (what belongs to index {i} is at {j}): indices are transposed, or "
        f"axes are flattened in another order than in forward"
    )


def _some(indices: Sequence[int] | Array) -> str:
    shown = ", ".join(str(int(i)) for i in indices[:4])
    return f"index {shown}" + (f" and {len(indices) - 4} more" if len(indices) > 4 else "")
