"""The surrogate: networks with the derivatives of what they replace, and itself an operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from partonfit._checks import whole
from partonfit._errors import SettingError
from partonfit.surrogates._network import Evaluator
from partonfit.surrogates._scaling import Scaling

_LENGTHS = 4


@dataclass(frozen=True)
class SurrogatePrediction:
    """Observations predicted by a surrogate.

    Attributes
    ----------
    mean, sd
        (sample, observation): mean and standard deviation of the members (NaN for one member). The
        spread says where the members disagree, not how far all of them are off: see
        ``surrogate.errors``.
    members
        (member, sample, observation).
    """

    mean: np.ndarray
    sd: np.ndarray
    members: np.ndarray


@dataclass(frozen=True, eq=False)
class Surrogate:
    """What :func:`fit_surrogate` returns; follows :class:`ObservationOperator`.

    Attributes
    ----------
    n_state, n_obs
        Sizes.
    errors
        On states that took no part in the training: ``values`` (error over standard deviation, all
        observations), ``observation`` (the same per observation), ``tangent_linear`` and ``adjoint``
        (relative error of the scaled derivatives, where the design has them), and ``spread`` (standard
        deviation of the members over the error: 1 where the spread is the right uncertainty), all root
        mean squares.
    history
        ``epoch`` (record,), ``loss`` and ``validation`` (member, record).
    statuses
        How each member of the training ended; the networks are those that ended well.
    settings
        Loss, seed, splits, operator and calls that were made of it.
    versions
        Of the libraries it was trained with.
    model
        JSON text: the Keras description of the network.
    """

    n_state: int
    n_obs: int
    errors: dict[str, Any]
    history: dict[str, np.ndarray] = field(repr=False)
    statuses: tuple[str, ...]
    settings: dict[str, Any]
    versions: dict[str, str] = field(repr=False)
    scaling: Scaling = field(repr=False)
    model: str = field(repr=False)
    weights: tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]] = field(repr=False)
    key: str | None = field(default=None, repr=False)
    name: str = "surrogate"
    thread_safe: bool = True
    linear: bool = False

    def __repr__(self) -> str:
        """Return one line: what it stands for, sizes, and how good it is."""
        parts = [f"{self.n_members} member{'s' * (self.n_members > 1)}"]
        labels = (("values", "values"), ("tangent_linear", "tangent linear"), ("adjoint", "adjoint"))
        parts += [f"{label} {self.errors[kind]:.2g}" for kind, label in labels if self.errors.get(kind) is not None]
        return f"<{self.name}: {self.n_state} -> {self.n_obs}, {parts[0]}; held-out errors: {', '.join(parts[1:])}>"

    @property
    def n_members(self) -> int:
        """Number of networks."""
        return len(self.weights[0][0])

    # ---- as an operator ---------------------------------------------------------------------------------

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return the mean observations (..., observation) of states (..., state)."""
        return self._ask("forward", self.n_obs, ("state", x, self.n_state))

    def tangent_linear(self, x: np.ndarray, dx: np.ndarray) -> np.ndarray:
        """Return the derivative of the mean (..., observation) at ``x`` along ``dx`` (..., state)."""
        return self._ask("tangent_linear", self.n_obs, ("state", x, self.n_state), ("direction dx", dx, self.n_state))

    def adjoint(self, x: np.ndarray, dy: np.ndarray) -> np.ndarray:
        """Return the gradient (..., state) of dy . forward(x) at ``x``."""
        return self._ask("adjoint", self.n_state, ("state", x, self.n_state), ("vector dy", dy, self.n_obs))

    forward_batch, tangent_linear_batch, adjoint_batch = forward, tangent_linear, adjoint

    def predict(self, x: np.ndarray) -> SurrogatePrediction:
        """Return mean, spread and members at states (sample, state); one state (state,) is one sample."""
        members = self._members(x)
        sd = members.std(axis=0, ddof=1) if self.n_members > 1 else np.full(members.shape[1:], np.nan)
        return SurrogatePrediction(members.mean(axis=0), sd, members)

    def as_operator(self, member: int | None = None) -> Surrogate:
        """Return the mean of the networks (``None``) or one of them as an operator.

        A surrogate of one member follows the same protocol: an ensemble of operators is
        ``[s.as_operator(k) for k in range(s.n_members)]``.
        """
        if member is None:
            return self
        if whole("member", member, least=0) >= self.n_members:
            msg = f"There is no member {member}: members are numbered 0 to {self.n_members - 1}."
            raise SettingError(msg)
        own = tuple(tuple(leaf[member : member + 1] for leaf in group) for group in self.weights)
        key = None if self.key is None else f"{self.key} member {member}"
        return replace(self, weights=own, key=key, name=f"{self.name}, member {member}")

    def wrapped(self, mode: str = "forward", at: Any = None) -> Any:
        """Return what :func:`wrap_operator` gives for a surrogate: a JAX function, no callback."""
        from partonfit.surrogates._native import NativeOperator

        return NativeOperator(self, mode, at)

    def save(self, file: str | Path, *, overwrite: bool = False) -> Path:
        """Write the surrogate to one file (arrays and JSON, no pickle); :func:`load_surrogate` reads it."""
        from partonfit.surrogates._storage import save_surrogate

        return save_surrogate(self, file, overwrite=overwrite)

    # ---- inside -----------------------------------------------------------------------------------------

    @cached_property
    def _double(self) -> Evaluator:
        return Evaluator(self.model, self.weights, self.scaling, "float64")

    @cached_property
    def _single(self) -> Evaluator:
        return Evaluator(self.model, self.weights, self.scaling, "float32")

    def evaluator(self, precision: str) -> Evaluator:
        """Return the networks in ``"float32"`` or ``"float64"``."""
        return self._double if precision == "float64" else self._single

    def _members(self, x: Any) -> np.ndarray:
        x = np.atleast_2d(np.asarray(x, dtype=np.float64))
        self._checked(("state", x, self.n_state))
        return _in_lengths(lambda a: self._double("members", a).transpose(1, 0, 2), x).transpose(1, 0, 2)

    def _ask(self, kind: str, size: int, *arguments: tuple[str, Any, int]) -> np.ndarray:
        arrays = [np.asarray(a, dtype=np.float64) for _, a, _ in arguments]
        for (what, _, n), a in zip(arguments, arrays, strict=True):
            self._checked((what, a, n))
        axes = np.broadcast_shapes(*(a.shape[:-1] for a in arrays))
        flat = [np.broadcast_to(a, (*axes, a.shape[-1])).reshape(-1, a.shape[-1]) for a in arrays]
        return _in_lengths(lambda *a: self._double(kind, *a), *flat).reshape(*axes, size)

    def _checked(self, argument: tuple[str, np.ndarray, int]) -> None:
        what, array, size = argument
        if not array.ndim or array.shape[-1] != size:
            msg = f"The {what} given to {self.name} must have shape (..., {size}), not {array.shape}."
            raise SettingError(msg)


def _in_lengths(function: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """Return ``function(*arrays)`` with the sample axis filled up to 1, 4, 16, ...: few compilations."""
    count = len(arrays[0])
    length = 1
    while length < count:
        length *= _LENGTHS
    filled = [np.concatenate([a, np.repeat(a[:1], length - count, axis=0)]) if length > count else a for a in arrays]
    return function(*filled)[:count]
