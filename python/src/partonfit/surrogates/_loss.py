"""What a surrogate is trained to match: values, and derivatives along probes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from partonfit._checks import real, whole
from partonfit._errors import SettingError


@dataclass(frozen=True)
class SurrogateLoss:
    """Weights of the parts of the loss; made and checked by :func:`surrogate_loss`. Fields as there."""

    values: float = 1.0
    tangent_linear: float = 0.0
    adjoint: float = 0.0
    probes: int = 4
    mixed: int = 1

    def __post_init__(self) -> None:
        weights = {name: getattr(self, name) for name in ("values", "tangent_linear", "adjoint")}
        for name, weight in weights.items():
            if real(name, weight) < 0:
                msg = f"{name} must not be negative, not {weight!r}: it weighs a part of the loss."
                raise SettingError(msg)
        if not self.values > 0:
            msg = "values must be above zero: derivatives alone leave a constant open."
            raise SettingError(msg)
        whole("probes", self.probes, least=1)
        whole("mixed", self.mixed, least=1)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The derivatives that take part: "tangent_linear", "adjoint", both or none."""
        return tuple(kind for kind in ("tangent_linear", "adjoint") if getattr(self, kind) > 0)


def surrogate_loss(
    values: float = 1.0, tangent_linear: float = 0.0, adjoint: float = 0.0, *, probes: int = 4, mixed: int = 1
) -> SurrogateLoss:
    """Return what :func:`fit_surrogate` is to match, and with which weights.

    All three parts are mean squares relative to what they measure: a constant output has 1 in the
    first, a vanishing derivative 1 in the other two, so the weights mean the same for every operator.

    Parameters
    ----------
    values
        Weight of the outputs, scaled to unit variance.
    tangent_linear
        Weight of H dx along random directions dx. Good where there are more observations than states.
    adjoint
        Weight of the vectors H^T dy for random dy. The better one where the state is the larger: each
        probe is then a whole row of the Jacobian.
    probes
        Directions per state and derivative that the operator is asked for.
    mixed
        Directions per state and update. They are random combinations of the state's ``probes``, drawn
        anew for each state, update and member: derivatives are linear, so combinations are exact, and
        no direction is seen twice.

    Returns
    -------
    SurrogateLoss

    Raises
    ------
    SettingError
        When a weight is negative, or that of the values is not above zero.

    Examples
    --------
    >>> surrogate_loss(adjoint=0.5)
    SurrogateLoss(values=1.0, tangent_linear=0.0, adjoint=0.5, probes=4, mixed=1)
    """
    return SurrogateLoss(values, tangent_linear, adjoint, probes, mixed)


# ---- the loss as the engine takes it ------------------------------------------------------------------

Batch = dict[str, Any]


def make_loss(loss: SurrogateLoss, scale: dict[str, float], live: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return ``loss(predict, batch, key)`` in scaled variables.

    Parameters
    ----------
    loss
        Weights.
    scale
        Mean square element of the derivatives of each kind, which makes the parts relative.
    live
        ``live(kind, x, v) -> result`` asks the operator during training, in scaled variables; ``None``:
        probes come from the batch.

    Notes
    -----
    A batch holds ``x`` (sample, state), ``y`` (sample, observation) and per kind of derivative
    ``<kind>_in`` and ``<kind>_out`` (sample, probe, size) and ``<kind>_mix`` (sample, probe): fixed
    coefficients in validation data, zeros where they are to be drawn. With no probes in the batch (an
    axis of size zero), the operator is asked.
    """
    derivative = {"tangent_linear": _tangent, "adjoint": _adjoint}

    def total(predict: Callable[[Any], Any], batch: Batch, key: Any) -> Any:
        result = loss.values * jnp.mean((predict(batch["x"]) - batch["y"]) ** 2)
        for number, kind in enumerate(loss.kinds):
            probes = _probes(kind, batch, jax.random.fold_in(key, number), loss.mixed, live)
            gap = jnp.mean(
                jnp.stack([jnp.mean((derivative[kind](predict, batch["x"], v) - t) ** 2) for v, t in probes])
            )
            result = result + getattr(loss, kind) * gap / scale[kind]
        return result

    return total


def _probes(kind: str, batch: Batch, key: Any, mixed: int, live: Callable[..., Any] | None) -> list[tuple[Any, Any]]:
    """Return pairs (direction, what the operator makes of it), (sample, size) each."""
    cached, results, fixed = (batch[f"{kind}_{part}"] for part in ("in", "out", "mix"))
    samples, count, size = cached.shape
    pairs = []
    for i in range(mixed):
        own = jax.random.fold_in(key, i)
        if not count:
            direction = jax.random.normal(own, (samples, size), cached.dtype)
            pairs.append((direction, jax.lax.stop_gradient(live(kind, batch["x"], direction))))  # type: ignore[misc]
            continue
        drawn = jax.random.normal(own, (samples, count), cached.dtype)
        drawn = drawn / jnp.linalg.norm(drawn, axis=1, keepdims=True)
        mix = jnp.where(jnp.any(fixed != 0, axis=1, keepdims=True), fixed, drawn)
        pairs.append(tuple(jnp.einsum("sp,spn->sn", mix, part) for part in (cached, results)))
    return pairs


def _tangent(predict: Callable[[Any], Any], x: Any, dx: Any) -> Any:
    return jax.jvp(predict, (x,), (dx,))[1]


def _adjoint(predict: Callable[[Any], Any], x: Any, dy: Any) -> Any:
    # Samples do not mix, so one vjp of the batch is the vjp of each sample.
    return jax.vjp(predict, x)[1](dy)[0]
