"""``fit_surrogate()``: from an operator to networks that stand for it."""

from __future__ import annotations

import hashlib
import math
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import keras
import numpy as np

from partonfit import _seeds
from partonfit._checks import real, whole
from partonfit._errors import FitError, SettingError
from partonfit._versions import version
from partonfit.operators import wrap_operator
from partonfit.surrogates._design import KINDS, SurrogateDesign, surrogate_design
from partonfit.surrogates._loss import SurrogateLoss, make_loss, surrogate_loss
from partonfit.surrogates._network import checked_network, default_network, serialised
from partonfit.surrogates._scaling import Scaling
from partonfit.surrogates._surrogate import Surrogate
from partonfit.training import Training, train

_UPDATES, _LEAST_EPOCHS = 20_000, 100
"""How long networks are trained where nobody says so (measured by bench/surrogates.py)."""


def fit_surrogate(
    op: Any,
    states: Any = None,
    *,
    samples: int | None = None,
    loss: SurrogateLoss | None = None,
    model: keras.Model | None = None,
    hidden: Sequence[int] = (64, 64),
    members: int = 1,
    live: bool = False,
    validation: float = 0.15,
    test: float = 0.15,
    optimizer: Any = None,
    epochs: int | None = None,
    batch_size: int | None = 32,
    patience: int | None = None,
    seed: int | None = None,
    reload_results: Any = False,
    progress: Callable[[int, int, dict[str, float]], None] | None = None,
    **training: Any,
) -> Surrogate:
    """Train networks to stand for an operator: its values and, if you like, its derivatives.

    Parameters
    ----------
    op
        Anything that follows :class:`ObservationOperator`, or a :func:`surrogate_design`.
    states
        States (sample, state) to learn from, or a function ``states(rng, n)`` that draws them.
    samples
        How many to draw, or how many of the given ones to take.
    loss
        Made by :func:`surrogate_loss`; ``None``: values only.
    model
        Keras model from (sample, state) to (sample, observation), which sees scaled states and gives
        scaled observations. ``None``: ``hidden`` layers (swish) beside a linear path; the linear path
        alone where the operator says it is linear.
    hidden
        Widths of the default network's hidden layers.
    members
        Networks in the ensemble; they differ in their initial weights, the order of the samples and the
        probes. The spread of their predictions is the ensemble's uncertainty.
    live
        Whether the operator is asked for new derivatives at every update, inside the compiled program,
        instead of once before. For operators that cost little, and not for those written in R.
    validation, test
        Fractions of the states that decide when to stop, and that only measure the errors.
    optimizer
        Keras optimizer; ``None``: Adam with a rate falling from 3e-3 to zero along a cosine.
    epochs
        Passes over the training states; ``None``: as many as make 20,000 updates, and at least 100. Derivatives
        are learnt long after values: a tenth of that leaves errors several times as large.
    batch_size, patience
        As in :func:`train`; the best weights by validation are kept in any case.
    seed
        Whole number that fixes states, probes, split and weights; ``None`` draws one.
    reload_results
        As in :func:`wrap_operator`: keep and take the operator's results on disk.
    progress
        ``progress(step, total, metrics)``, for the design and then for the training.
    **training
        More settings of :func:`train`: ``callbacks``, ``checkpoint``, ``resume``, ``devices``, ...

    Returns
    -------
    Surrogate
        Itself an operator: ``predict``, ``forward``, ``tangent_linear``, ``adjoint``, ``errors`` on
        held-out states, ``save``.

    Raises
    ------
    SettingError
        When states, model and settings do not fit together.
    OperatorError
        When the operator lacks a derivative that the loss needs.
    FitError
        When no member ended with usable weights.

    Examples
    --------
    >>> import numpy as np
    >>> import partonfit as pf
    >>> W = np.random.default_rng(1).normal(size=(3, 12)) / 4
    >>> op = pf.operator(
    ...     forward=lambda x: np.tanh(x @ W.T), n_state=12, n_obs=3, batched=True, name="tanh",
    ...     tangent_linear=lambda x, dx: (1 - np.tanh(x @ W.T) ** 2) * (dx @ W.T),
    ...     adjoint=lambda x, dy: ((1 - np.tanh(x @ W.T) ** 2) * dy) @ W,
    ... )
    >>> surrogate = pf.fit_surrogate(
    ...     op, lambda rng, n: rng.normal(size=(n, 12)), samples=80, loss=pf.surrogate_loss(adjoint=0.5),
    ...     members=2, epochs=300, seed=1,
    ... )
    >>> surrogate.errors["values"] < 0.2
    True
    >>> pf.check_operator(surrogate).passed
    True
    >>> prediction = surrogate.predict(np.zeros((5, 12)))
    >>> prediction.mean.shape, prediction.sd.shape
    ((5, 3), (5, 3))
    """
    loss = surrogate_loss() if loss is None else loss
    if not isinstance(loss, SurrogateLoss):
        msg = f"loss must come from surrogate_loss(), not {type(loss).__name__}."
        raise SettingError(msg)
    if seed is None:
        seed = op.seed if isinstance(op, SurrogateDesign) else int(np.random.SeedSequence().generate_state(1)[0] >> 1)
    seed = _seeds.checked_seed(seed)
    whole("members", members, least=1)
    design = _design(op, states, samples, loss, live, seed, reload_results, progress)
    parts = _split(len(design), validation, test, seed)
    n_state, n_obs = design.x.shape[1], design.y.shape[1]
    linear = model is None and design.linear
    if model is None:
        with_seed = _seeds.integer(seed, "surrogate network")
        keras.utils.set_random_seed(with_seed)
        model = default_network(n_state, n_obs, tuple(hidden), linear=design.linear)
    model = checked_network(model, n_state, n_obs)
    text = serialised(model)
    data, held, scale = _batches(design, parts, loss, live)
    asked = _live(op, design.scaling) if live else None
    in_one = math.ceil(len(parts["train"]) / (batch_size or len(parts["train"])))
    epochs = max(_LEAST_EPOCHS, math.ceil(_UPDATES / in_one)) if epochs is None else whole("epochs", epochs, least=1)
    trained = train(
        model, make_loss(loss, scale, asked), data, members=members, validation=held,
        optimizer=_optimizer(epochs * in_one, linear=linear) if optimizer is None else optimizer, epochs=epochs,
        batch_size=batch_size, patience=patience, seed=_seeds.integer(seed, "surrogate training"),
        progress=progress, **training,
    )  # fmt: skip
    settings = {
        "operator": design.name, "loss": asdict(loss), "seed": seed, "live": live,
        "samples": {name: len(rows) for name, rows in parts.items()}, "calls": design.calls,
        "epochs": epochs, "batch_size": batch_size, "patience": patience, "precision": trained.precision,
    }  # fmt: skip
    return _surrogate(trained, text, design, parts["test"], settings, linear)


def _design(
    op: Any, states: Any, samples: int | None, loss: SurrogateLoss, live: bool, seed: int, store: Any, progress: Any
) -> SurrogateDesign:
    if isinstance(op, SurrogateDesign):
        lacking = [kind for kind in loss.kinds if kind not in op.probes]
        if lacking or states is not None or live:
            msg = (
                f"The design has no {' and no '.join(lacking)} probes: ask for them with "
                f"surrogate_design(..., {lacking[0]}={loss.probes})."
                if lacking
                else "A design holds its states and results: states and live belong to an operator."
            )
            raise SettingError(msg)
        return op
    if states is None:
        msg = "fit_surrogate needs states: an array (sample, state), or a function states(rng, n) with samples=n."
        raise SettingError(msg)
    probes = dict.fromkeys(loss.kinds, loss.probes)
    return surrogate_design(op, states, samples=samples, seed=seed, reload_results=store, progress=progress, **probes)


def _split(count: int, validation: float, test: float, seed: int) -> dict[str, np.ndarray]:
    """Return the rows of each part, at least one in each."""
    sizes = {}
    for name, fraction in (("validation", validation), ("test", test)):
        sizes[name] = max(1, round(real(name, fraction, above=0, most=0.9) * count))
    rows = _seeds.stream(seed, "surrogate split").permutation(count)
    held = sizes["validation"] + sizes["test"]
    if held >= count:
        msg = f"validation={validation} and test={test} leave none of {count} states for training."
        raise SettingError(msg)
    return {
        "train": rows[held:], "validation": rows[: sizes["validation"]], "test": rows[sizes["validation"] : held]
    }  # fmt: skip


def _batches(
    design: SurrogateDesign, parts: dict[str, np.ndarray], loss: SurrogateLoss, live: bool
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, float]]:
    """Return training data, validation data and the scale of each derivative."""
    s = design.scaling
    x, y = (design.x - s.state_mean) / s.state_sd, (design.y - s.obs_mean) / s.obs_sd
    rows, held = parts["train"], parts["validation"]
    times = max([design.probes[kind][0].shape[1] for kind in loss.kinds], default=1)
    # Validation must not depend on chance: each of its states comes once with each of its probes.
    repeated = np.repeat(held, times)
    turn = np.tile(np.arange(times), len(held))
    data, checked = ({"x": x[r], "y": y[r]} for r in (rows, repeated))
    scale = {}
    for kind in loss.kinds:
        directions, results = design.probes[kind]
        count = directions.shape[1]
        scale[kind] = float(np.mean(results[rows] ** 2)) or 1.0
        asked = slice(0, 0) if live else slice(None)
        data |= {f"{kind}_in": directions[rows][:, asked], f"{kind}_out": results[rows][:, asked]}
        data[f"{kind}_mix"] = np.zeros((len(rows), count))[:, asked]
        checked |= {f"{kind}_in": directions[repeated], f"{kind}_out": results[repeated]}
        checked[f"{kind}_mix"] = np.eye(count)[turn % count]
    return data, checked, scale


def _live(op: Any, scaling: Scaling) -> Callable[[str, Any, Any], Any]:
    """Return ``live(kind, x, v)`` in scaled variables, on JAX arrays."""
    h = wrap_operator(op)

    def ask(kind: str, x: Any, v: Any) -> Any:
        mean, sd, obs_sd = (a.astype(x.dtype) for a in (scaling.state_mean, scaling.state_sd, scaling.obs_sd))
        state = mean + sd * x
        return (
            h.tangent_linear(state, v * sd) / obs_sd if kind == "tangent_linear" else h.adjoint(state, v / obs_sd) * sd
        )

    return ask


def _optimizer(updates: int, *, linear: bool) -> keras.optimizers.Optimizer:
    # One layer of weights takes longer steps than a network.
    rate: Any = keras.optimizers.schedules.CosineDecay(3e-2 if linear else 3e-3, max(1, updates), alpha=1e-3)
    return keras.optimizers.Adam(rate)


def _surrogate(
    trained: Training, text: str, design: SurrogateDesign, test: np.ndarray, settings: dict[str, Any], linear: bool
) -> Surrogate:
    kept = np.flatnonzero(trained.usable & (trained.best_epoch >= 0))
    statuses = tuple(s.sentence(int(e)) for s, e in zip(trained.status, trained.epoch, strict=True))
    if not len(kept):
        msg = f"No network of the surrogate can be used: member 0 {statuses[0]}. Try a smaller learning rate."
        raise FitError(msg)
    weights = tuple(tuple(leaf[kept] for leaf in group) for group in trained._values)
    sha = hashlib.sha256(text.encode())
    for leaf in (*weights[0], *weights[1], *vars(design.scaling).values()):
        sha.update(np.ascontiguousarray(leaf).tobytes())
    libraries = ("partonfit", "jax", "keras", "numpy")
    surrogate = Surrogate(
        n_state=design.x.shape[1], n_obs=design.y.shape[1], errors={},
        history={name: trained.history[name] for name in ("epoch", "loss", "validation")},
        statuses=statuses, settings=settings,
        versions={"python": platform.python_version()} | {name: version(name) for name in libraries},
        scaling=design.scaling, model=text, weights=weights,  # type: ignore[arg-type]
        key=f"partonfit surrogate {sha.hexdigest()}", name=f"surrogate of {design.name}", linear=linear,
    )  # fmt: skip
    surrogate.errors.update(_errors(surrogate, design, test))
    return surrogate


def _errors(surrogate: Surrogate, design: SurrogateDesign, rows: np.ndarray) -> dict[str, Any]:
    """Return the errors at the design's states ``rows``; see :class:`Surrogate`."""
    x, s = design.x[rows], design.scaling
    prediction = surrogate.predict(x)
    gap = (prediction.mean - design.y[rows]) / s.obs_sd
    result: dict[str, Any] = {"values": _rms(gap), "observation": np.sqrt(np.mean(gap**2, axis=0))}
    for kind in KINDS:
        if kind in design.probes:
            v, wanted = (part[rows] for part in design.probes[kind])
            states = np.broadcast_to(x[:, None], (*v.shape[:2], x.shape[1]))
            found = s.outward(kind, getattr(surrogate, kind)(states, s.inward(kind, v)))
            result[kind] = _rms(found - wanted) / (_rms(wanted) or 1.0)
    if surrogate.n_members > 1:
        result["spread"] = _rms(prediction.sd / s.obs_sd) / (_rms(gap) or 1.0)
    return result


def _rms(a: np.ndarray) -> float:
    return float(np.sqrt(np.mean(a**2)))
