"""Design points: what the operator is asked for before a surrogate is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partonfit import _seeds
from partonfit._checks import whole
from partonfit._errors import OperatorError, SettingError
from partonfit.operators._host import Host
from partonfit.operators._protocol import name_of, require, sizes
from partonfit.operators._store import open_store
from partonfit.surrogates._scaling import Scaling, scaling_of

_AT_ONCE = 64  # states per call of a batched operator, so that progress is seen
KINDS = ("tangent_linear", "adjoint")


@dataclass(frozen=True, eq=False)
class SurrogateDesign:
    """States, what the operator makes of them, and derivatives along probes; :func:`surrogate_design` makes it.

    Attributes
    ----------
    x, y
        States (sample, state) and observations (sample, observation).
    probes
        Per kind of derivative the directions (sample, probe, size) in scaled variables (standard
        normal) and the scaled results (sample, probe, size).
    scaling
        Of the samples.
    calls
        How often the operator was called, by function.
    name, key, seed
        Of the operator, and of the draws.
    """

    x: np.ndarray
    y: np.ndarray
    probes: dict[str, tuple[np.ndarray, np.ndarray]]
    scaling: Scaling
    calls: dict[str, int]
    name: str
    key: str | None
    seed: int
    linear: bool = field(default=False)

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        """Return one line."""
        asked = ", ".join(f"{n} {kind.replace('_', ' ')}" for kind, n in self.calls.items() if n)
        return f"<design of {self.name}: {len(self)} states, {self.x.shape[1]} -> {self.y.shape[1]}; calls: {asked}>"


def surrogate_design(
    op: Any,
    states: Any,
    *,
    samples: int | None = None,
    tangent_linear: int = 0,
    adjoint: int = 0,
    seed: int = 0,
    reload_results: Any = False,
    progress: Callable[[int, int, dict[str, float]], None] | None = None,
) -> SurrogateDesign:
    """Ask an operator for values and derivatives at states, to train surrogates from.

    The operator runs in the calling thread, outside of JAX, so an operator written in R is safe here.

    Parameters
    ----------
    op
        Anything that follows :class:`ObservationOperator`.
    states
        States (sample, state), or a function ``states(rng, n)`` that draws them with a NumPy generator.
    samples
        How many to draw, or how many of the given ones to take.
    tangent_linear, adjoint
        Probes per state and kind of derivative. They are drawn independently for each state, standard
        normal in scaled variables.
    seed
        Of states and probes.
    reload_results
        As in :func:`wrap_operator`: keep and take results on disk.
    progress
        ``progress(step, total, metrics)``: states done, all states, numbers of calls.

    Returns
    -------
    SurrogateDesign

    Raises
    ------
    SettingError
        When states have the wrong shape or are too few.
    OperatorError
        When the operator lacks a derivative, or gives values that are no finite numbers.

    Examples
    --------
    >>> import partonfit as pf
    >>> op = pf.matrix_operator([[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
    >>> pf.surrogate_design(op, lambda rng, n: rng.normal(size=(n, 3)), samples=20, adjoint=2)
    <design of matrix: 20 states, 3 -> 2; calls: 20 forward, 40 adjoint>
    """
    op = getattr(op, "operator", op)  # a wrapped operator holds the one it was made from
    n_state, n_obs = sizes(op)
    seed = _seeds.checked_seed(seed)
    asked = {"tangent_linear": tangent_linear, "adjoint": adjoint}
    wanted = {kind: whole(kind, count, least=0) for kind, count in asked.items()}
    for kind, count in wanted.items():
        if count:
            require(op, kind)
    x = _drawn(states, samples, n_state, seed)
    host = Host(op, open_store(reload_results, getattr(op, "key", None)), "raise")
    report = _Reporter(progress, host, len(x), wanted)
    y = _asked(host, "forward", x, None, report)
    scaling = scaling_of(x, y)
    if not np.ptp(y, axis=0).any():
        msg = f"The operator '{host.name}' gives the same observations for all {len(x)} states: nothing to learn."
        raise OperatorError(msg)
    probes = {}
    for kind, count in wanted.items():
        if count:
            size = n_state if kind == "tangent_linear" else n_obs
            v = _seeds.stream(seed, "surrogate probes", kind).normal(size=(len(x), count, size))
            repeated = np.repeat(x, count, axis=0)
            found = _asked(host, kind, repeated, scaling.inward(kind, v).reshape(-1, size), report)
            probes[kind] = (v, scaling.outward(kind, found).reshape(len(x), count, -1))
    calls = {kind: host.calls[kind] for kind in ("forward", *KINDS)}
    key = getattr(op, "key", None)
    linear = bool(getattr(op, "linear", False))
    return SurrogateDesign(x, y, probes, scaling, calls, name_of(op), key, seed, linear)


def _drawn(states: Any, samples: int | None, n_state: int, seed: int) -> np.ndarray:
    """Return states (sample, state) as float64."""
    if samples is not None:
        whole("samples", samples, least=4)
    if callable(states):
        if samples is None:
            msg = "samples= must say how many states to draw when states is a function."
            raise SettingError(msg)
        states = states(_seeds.stream(seed, "surrogate states"), samples)
    x = np.array(states, dtype=np.float64)
    if x.ndim != 2 or x.shape[1] != n_state:
        msg = f"states must have shape (sample, {n_state}), not {x.shape}."
        raise SettingError(msg)
    if samples is not None and len(x) < samples:
        msg = f"samples={samples}, but there are {len(x)} states."
        raise SettingError(msg)
    x = x[:samples]
    if len(x) < 4:
        msg = f"A surrogate needs at least 4 states (to train, to validate and to test), not {len(x)}."
        raise SettingError(msg)
    bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if len(bad):
        msg = f"State {bad[0]} is not finite ({len(bad)} of {len(x)} are not)."
        raise SettingError(msg)
    return x


class _Reporter:
    """Counts operator calls towards what will be made in all."""

    def __init__(self, progress: Any, host: Host, states: int, probes: dict[str, int]) -> None:
        self.progress, self.host = progress, host
        self.total = states * (1 + sum(probes.values()))
        self.done = 0

    def __call__(self, rows: int) -> None:
        self.done += rows
        if self.progress is not None:
            self.progress(self.done, self.total, {kind: float(n) for kind, n in self.host.calls.items()})


def _asked(host: Host, kind: str, x: np.ndarray, v: np.ndarray | None, report: _Reporter) -> np.ndarray:
    """Return the operator's results (row, size); an error says which row."""
    parts = []
    for start in range(0, len(x), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        before = host.calls[kind] + host.calls["stored"]
        parts.append(host.run(kind, x[rows], None if v is None else v[rows]))
        made = host.calls[kind] + host.calls["stored"] - before
        count = len(parts[-1])
        if made < count:  # one batched call is worth as many as it has rows
            host.calls[kind] += count - made
        report(count)
    return np.concatenate(parts)
