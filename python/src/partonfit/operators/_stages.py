"""The tests of :func:`check_operator`, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from partonfit._errors import OperatorError
from partonfit.operators import _diagnose as why
from partonfit.operators._host import as_float64
from partonfit.operators._protocol import KINDS, Array, has, name_of, sizes

_STEPS = 0.1 * 0.25 ** np.arange(9)
_LOOKED_AT = 24  # elements of a gradient that are compared one by one


@dataclass(frozen=True)
class Problem:
    """One thing found: the test, a sentence, and whether results are wrong because of it."""

    test: str
    text: str
    serious: bool = True


class Stages:
    """The stages of a check; each yields problems and notes what it measured."""

    def __init__(self, op: Any, states: Array, tolerance: float, rng: np.random.Generator) -> None:
        self.op, self.states, self.tolerance = op, states, tolerance
        self.name = name_of(op)
        self.n_state, self.n_obs = sizes(op)
        self.size = float(np.sqrt(np.mean(states**2))) or 1.0
        self.dx = self.size * rng.normal(size=(2, self.n_state))
        self.dy = rng.normal(size=(2, self.n_obs))
        self.where = np.sort(rng.choice(self.n_state, min(self.n_state, _LOOKED_AT), replace=False))
        self.single = False  # whether results come in single precision
        self.measured: dict[str, float] = {}

    def call(self, kind: str, x: Array, v: Array | None = None) -> Array:
        """Return a result as a float64 array of its own, from private copies."""
        arguments = (x.copy(),) if v is None else (x.copy(), v.copy())
        shape = (self.n_state,) if kind == "adjoint" else (self.n_obs,)
        return as_float64(getattr(self.op, kind)(*arguments), shape, kind).copy()

    def kinds(self) -> list[tuple[str, Array | None]]:
        """The functions that are there, with a second argument for each."""
        second = {"forward": None, "tangent_linear": self.dx[0], "adjoint": self.dy[0]}
        return [(kind, second[kind]) for kind in KINDS if has(self.op, kind)]

    # ---- plain things ---------------------------------------------------------------------------------

    def manners(self) -> Iterator[Problem]:
        """Exceptions, shapes, types, finiteness, and arguments written into."""
        for kind in ("tangent_linear", "adjoint"):
            if not has(self.op, kind):
                yield Problem(kind, f"there is none, so {_without(kind)}.", serious=False)
        for kind, v in self.kinds():
            for s, x in enumerate(self.states):
                problems = list(self._one_call(kind, s, x, v))
                yield from problems
                if problems:
                    break  # the same at the next state says nothing new

    def _one_call(self, kind: str, s: int, x: Array, v: Array | None) -> Iterator[Problem]:
        own = [a.copy() for a in (x, v) if a is not None]
        shape = (self.n_state,) if kind == "adjoint" else (self.n_obs,)
        try:
            found = getattr(self.op, kind)(*own)
            result = as_float64(found, shape, kind)
        except OperatorError as failure:
            yield Problem("result", str(failure))
            return
        except Exception as failure:
            where = "" if s else " Where the operator has a domain, give states in it: check_operator(op, x)."
            yield Problem("runs", f"{kind} raised {type(failure).__name__} at state {s}: {failure}.{where}")
            return
        if not np.isfinite(result).all():
            bad = np.flatnonzero(~np.isfinite(result))
            yield Problem(
                "finite",
                f"{kind} gives {result[bad[0]]} at index {bad[0]} ({len(bad)} of {len(result)} are not finite) for the "
                f"finite state {s}. Where the operator has a domain, give states in it: check_operator(op, x).",
            )
        dtype = getattr(found, "dtype", None)
        if dtype is None:
            text = f"{kind} returns a {type(found).__name__}; it is converted at every call. Return a NumPy array."
            yield Problem("type", text, serious=False)
        elif dtype != np.float64:
            small = np.dtype(dtype).kind == "f" and np.dtype(dtype).itemsize < 8
            self.single |= small
            digits = (
                " It has about 7 digits, and so have the derivatives: the tests below allow for that." if small else ""
            )
            yield Problem("type", f"{kind} returns {dtype}, not float64.{digits}", serious=False)
        for what, before, after in zip(("x", "dy" if kind == "adjoint" else "dx"), (x, v), own, strict=False):
            if not np.array_equal(before, after, equal_nan=True):  # type: ignore[arg-type]
                yield Problem(
                    "arguments",
                    f"{kind} writes into its argument {what}. Wrapped operators get copies, so it does no harm there; "
                    f"whoever calls it directly finds the array changed. Work on {what}.copy().",
                    serious=False,
                )

    def repeats(self) -> Iterator[Problem]:
        """The same question twice, with another one between, and what became of the first answer."""
        for kind, v in self.kinds():
            first = getattr(self.op, kind)(*self._given(0, v))
            kept = np.array(first, dtype=np.float64)
            getattr(self.op, kind)(*self._given(1, v))
            if isinstance(first, np.ndarray) and not np.array_equal(first, kept):
                text = f"{kind} returns the same array at every call, so a call changes earlier results. Return a copy."
                yield Problem("results", text, serious=False)
            gap = why.error(self.call(kind, self.states[0], v).ravel(), kept.ravel())
            if gap > (1e-5 if self.single else 1e-12):
                self.measured[f"{kind} twice"] = gap
                yield Problem("repeats", f"{kind} gives another result when called again with the same arguments.")

    def _given(self, s: int, v: Array | None) -> list[Array]:
        return [a.copy() for a in (self.states[s], v) if a is not None]

    def linearity(self) -> Iterator[Problem]:
        """H dx must be linear in dx, H^T dy in dy."""
        for kind, v in self.kinds()[1:]:
            both = self.dx if kind == "tangent_linear" else self.dy
            x, name = self.states[0], "dx" if kind == "tangent_linear" else "dy"
            one, other = (self.call(kind, x, b) for b in both)
            gap = why.error(self.call(kind, x, 2 * both[0] - 3 * both[1]), 2 * one - 3 * other)
            self.measured[f"{kind} linear in {name}"] = gap
            if gap > (1e-4 if self.single else 1e-9):
                zero = self.call(kind, x, 0 * v)  # type: ignore[operator]
                hint = f"For {name} = 0 it does not give zero: does it return the changed values, not the change?"
                yield Problem("linearity", f"{kind} is not linear in {name}." + (f" {hint}" if zero.any() else ""))

    # ---- derivatives ----------------------------------------------------------------------------------

    def derivatives(self) -> Iterator[Problem]:
        """Taylor test and dot test."""
        right, noise = self._differences()
        if noise > 1e-3:
            text = f"forward is not smooth enough here to test derivatives (differences scatter by {noise:.0e})."
            yield Problem("Taylor test", text + " Give states where it is: check_operator(op, x).", serious=False)
        limit = max(1e-4 if self.single else 1e-6, 30 * noise)
        tangent, tangent_wrong = None, False
        if has(self.op, "tangent_linear"):
            tangent = self._in_turn("tangent_linear", self.dx)
            gap = max(why.error(t, r) for t, r in zip(_flat(tangent), _flat(right), strict=True))
            self.measured["Taylor test"] = gap
            tangent_wrong = gap > limit
            if tangent_wrong and noise <= 1e-3:
                yield Problem("Taylor test", f"tangent_linear {self._why_tangent(tangent, right)}.")
        if has(self.op, "adjoint"):
            yield from self._dot_test(tangent, tangent_wrong, right, limit if noise <= 1e-3 else np.inf)
        yield from self._declared_linear(right, tangent)

    def _differences(self) -> tuple[Array, float]:
        """Return derivatives of forward (state, direction, observation) and how far they scatter."""
        result = np.array([[self._difference(x, dx) for dx in self.dx] for x in self.states], dtype=object)
        return np.array(result[..., 0].tolist()), float(max(result[..., 1].ravel()))

    def _difference(self, x: Array, dx: Array) -> tuple[Array, float]:
        """Return a derivative by central differences: the step is the one where two orders agree best."""
        estimates = []
        for h in _STEPS:
            try:
                up, down = self.call("forward", x + h * dx), self.call("forward", x - h * dx)
            except Exception:  # outside of the operator's domain: a smaller step may be inside
                estimates.clear()
                continue
            estimates.append((up - down) / (2 * h))
        better = [(16 * fine - coarse) / 15 for coarse, fine in pairwise(estimates)]
        gaps = [why.error(a, b) if np.isfinite(a + b).all() else np.inf for a, b in pairwise(better)]
        if not gaps:
            return np.full(self.n_obs, np.nan), np.inf
        best = int(np.argmin(gaps))
        return better[best + 1], gaps[best]

    def _in_turn(self, kind: str, directions: Array) -> Array:
        """Return results (state, direction, size), each asked right after a forward call at another state."""
        result = []
        for s, x in enumerate(self.states):
            row = []
            for v in directions:
                self.call("forward", self.states[s - 1])
                row.append(self.call(kind, x, v))
            result.append(row)
        return np.array(result)

    def _why_tangent(self, found: Array, right: Array) -> str:
        return why.why_tangent(found, right)

    def _dot_test(self, tangent: Array | None, tangent_wrong: bool, right: Array, limit: float) -> Iterator[Problem]:
        adjoint = self._in_turn("adjoint", self.dy)
        found = np.einsum("sbn,an->sba", adjoint, self.dx)
        along = right if tangent is None else tangent
        wanted = np.einsum("sam,bm->sba", along, self.dy)
        size = np.linalg.norm(along, axis=-1)[:, None, :] * np.linalg.norm(self.dy, axis=-1)[None, :, None]
        gap = float((np.abs(found - wanted) / np.where(size == 0, 1, size)).max())
        self.measured["dot test"] = gap
        allowed = limit if tangent is None else (1e-5 if self.single else self.tolerance)
        truth = np.einsum("sam,bm->sba", right, self.dy)
        agrees = bool((np.abs(found - truth) <= limit * np.where(size == 0, 1, size)).all())
        if gap <= allowed:
            if tangent_wrong:
                yield Problem("dot test", "adjoint agrees with tangent_linear, so it is wrong in the same way.")
            return
        if tangent_wrong and agrees:
            return  # the adjoint is right, and the tangent has been named
        if agrees and tangent is not None:
            text = f"adjoint is the transpose of tangent_linear only to {gap:.0e}"
            yield Problem(
                "dot test", f"{text}: something in one of them is approximate, or in less than double precision."
            )
            return
        yield Problem("dot test", f"adjoint {self._why_adjoint(adjoint, found, truth, tangent_wrong)}.")

    def _why_adjoint(self, adjoint: Array, found: Array, truth: Array, tangent_wrong: bool) -> str:
        reason = why.why_adjoint(found, truth)
        if reason:
            return reason
        use_tangent = has(self.op, "tangent_linear") and not tangent_wrong
        x = self.states[0]

        def derivative(dx: Array) -> Array:
            return self.call("tangent_linear", x, dx) if use_tangent else self._difference(x, dx)[0]

        if use_tangent and self.n_state == self.n_obs:
            same = np.array([self.call("tangent_linear", x, dy) for dy in self.dy])
            if why.close(adjoint[0], same, 1e-6):
                return "is the tangent linear itself: the matrix is not transposed"
        columns = np.array([derivative(np.eye(1, self.n_state, i)[0]) for i in self.where])  # (element, observation)
        reason = why.why_gradient(adjoint[0], self.dy @ columns.T, self.where)
        if reason:
            return reason
        along = np.array([derivative(dx) for dx in self.dx])

        def one_observation(j: int) -> tuple[Array, Array]:
            return self.dx @ self.call("adjoint", x, np.eye(1, self.n_obs, j)[0]), along[:, j]

        return why.why_observations(one_observation, self.n_obs) or (
            "is not the transpose of the derivative of forward, by no pattern known here. Test the adjoint of each "
            "step of the model by itself, the last step first"
        )

    def _declared_linear(self, right: Array, tangent: Array | None) -> Iterator[Problem]:
        if not getattr(self.op, "linear", False):
            return
        along = right if tangent is None else tangent
        if any(not why.close(along[0], other, 1e-6) for other in (*along[1:], *right[1:])):
            yield Problem(
                "linear", "it says that it is linear, but its derivative depends on the state. Set linear=False."
            )

    # ---- batches and threads --------------------------------------------------------------------------

    def batches(self) -> Iterator[Problem]:
        """A batched call must give what single calls give."""
        for kind, v in self.kinds():
            batch = getattr(self.op, f"{kind}_batch", None)
            if batch is None:
                continue
            n = len(self.states)
            arguments = [self.states.copy()] + ([] if v is None else [np.tile(v, (n, 1))])
            single = np.array([self.call(kind, x, v) for x in self.states])
            try:
                found = as_float64(batch(*arguments), single.shape, f"the batched {kind}")
            except OperatorError as failure:
                yield Problem("batch", f"{failure} The first axis is the sample.")
                continue
            except Exception as failure:
                yield Problem(
                    "batch", f"the batched {kind} raised {type(failure).__name__} for {n} samples: {failure}."
                )
                continue
            gap = why.error(found, single)
            self.measured[f"{kind} batched"] = gap
            if gap > (1e-4 if self.single else 1e-9):
                first = next(i for i in range(n) if not why.close(found[i], single[i], 1e-9))
                yield Problem("batch", f"the batched {kind} differs from single calls, first in sample {first}.")

    def threads(self) -> Iterator[Problem]:
        """Overlapping calls of an operator that says they may overlap."""
        if not getattr(self.op, "thread_safe", False):
            return
        tasks = [(kind, x, v) for kind, v in self.kinds() for x in self.states] * 4
        alone = [self.call(*task) for task in tasks[: len(tasks) // 4]] * 4
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda task: self.call(*task), tasks))
        if any(why.error(a, b) > 1e-9 for a, b in zip(together, alone, strict=True)):
            yield Problem("threads", "it says that it is thread-safe, but overlapping calls give other results.")


def _flat(results: Array) -> Array:
    return results.reshape(-1, results.shape[-1])


def _without(kind: str) -> str:
    if kind == "adjoint":
        return "gradients (grad, vjp, jacrev) do not work"
    return "forward-mode derivatives (jvp, jacfwd) do not work; gradients do"
