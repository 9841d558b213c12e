"""``train()``: the engine for anyone's Keras model, data and loss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import keras
import numpy as np

from partonfit import _seeds
from partonfit._checks import whole
from partonfit._errors import SettingError
from partonfit._precision import keras_floatx, precision_context
from partonfit.training._batches import Problem, make_epoch_step
from partonfit.training._callbacks import Callback, checked_callbacks
from partonfit.training._checkpoint import Checkpoint, fingerprint
from partonfit.training._control import EngineControl
from partonfit.training._devices import ByData, ByMember, keras_devices
from partonfit.training._keras import (
    check_precision,
    finalised_with,
    fresh_optimizer,
    initial_values,
    optimizer_values,
    precision_of,
    present_values,
    update_with,
)
from partonfit.training._loop import Progress, initial_states, run
from partonfit.training._losses import call, function_loss, is_function, keras_losses, supervised_loss
from partonfit.training._metrics import first_values, function_meters, keras_meters, loss_meter
from partonfit.training._samples import Samples, samples
from partonfit.training._state import Values
from partonfit.training._training import Training, training_of


def train(
    model: keras.Model,
    loss: Any,
    data: Any,
    *,
    members: int = 1,
    member_data: Any = None,
    validation: Any = None,
    optimizer: Any = "adam",
    metrics: Any = (),
    epochs: int = 100,
    batch_size: int | None = None,
    shuffle: bool = True,
    patience: int | None = None,
    min_delta: float = 0.0,
    keep: str = "best",
    initial: str = "draw",
    seed: int | None = None,
    precision: str | None = None,
    record_every: int = 1,
    progress: Progress | None = None,
    callbacks: Iterable[Callback] = (),
    checkpoint: Any = None,
    resume: bool = False,
    devices: int | Sequence[Any] | None = None,
    block_size: int | None = None,
    data_parallel: bool | None = None,
) -> Training:
    """Train one Keras model, or an ensemble of it, in one compiled program.

    Parameters
    ----------
    model
        Any Keras model. It ends with the trained weights of the first member.
    loss
        Either a Keras loss (name, ``keras.losses.Loss``, one of Keras' loss functions; a dict or list
        of them for several outputs; ``None`` when the model adds its losses itself), or a function
        ``loss(predict, batch)`` or ``loss(predict, batch, key)`` that returns one number.
        ``predict(x)`` is the model at the present weights and may be differentiated
        (``jax.grad``, ``jax.jvp``, ``jax.vjp``, ``jax.vmap``); ``batch`` has the structure of
        ``data``; ``key`` is a JAX random key of this member, epoch and batch. Regularisers and
        ``add_loss`` of the model are always added.
    data
        For a Keras loss ``(x, y)`` or ``(x, y, sample_weight)``; for a function any array, or tuple,
        list or dict of arrays. The first axis of every array is the sample.
    members
        Size of the ensemble. Every member has its own initial weights, order of the samples and
        dropout masks, which depend on ``seed`` and its number only.
    member_data
        Arrays (member, sample, ...) that replace those of ``data`` for each member: the same
        structure with ``None`` where all share ``data``, e.g. ``(None, None, weights)``.
    validation
        Data like ``data`` that decide which weights are kept and when to stop, or the fraction of
        the samples to hold out (the last ones, as in Keras). ``None``: the training loss decides.
    optimizer
        Keras optimizer or its name; it is copied, never changed.
    metrics
        With a Keras loss, Keras metrics as in ``model.compile()``; with a function, functions of
        (predict, batch), or a dict of them, averaged over the samples.
    epochs
        Largest number of passes over the data.
    batch_size
        Samples per update (``None``: all). The last batch of an epoch holds what is left.
    shuffle
        Whether each epoch visits the samples in a new order.
    patience, min_delta
        A member stops after ``patience`` epochs in which its validation did not fall by more than
        ``min_delta`` (``None``: never).
    keep
        ``"best"``: each member ends with the weights of its lowest validation; ``"last"``: with those
        after the last epoch, as ``model.fit()`` does. With ``use_ema``, weights are the moving
        averages in both cases.
    initial
        ``"draw"``: every member's weights are drawn by the layers' initializers; ``"model"``: all
        start from the weights that ``model`` has. Layers that are not trained keep theirs.
    seed
        Whole number; ``None`` draws one.
    precision
        ``"float32"`` or ``"float64"``; ``None``: that of the model's weights.
    record_every
        Epochs between two entries of the history.
    progress, callbacks
        Functions ``(step, total, metrics)`` called during training.
    checkpoint, resume
        Folder that keeps the state, and whether to go on from it.
    devices
        Local devices to divide the work over (``None``: those of a ``keras.distribution.DataParallel``
        where one is set, else all).
    data_parallel
        Divide the samples over the devices (and processes) instead of the members. ``None``: when a
        ``keras.distribution.DataParallel`` is set and there is one member.
    block_size
        Members that go through the compiled program together (``None``: 1 on a CPU, where blocks run
        side by side on the cores, and all of them on an accelerator).

    Returns
    -------
    Training
        Status, losses, history and predictions of all members.

    Raises
    ------
    SettingError
        When model, data, loss and settings do not fit together; always before training begins.

    Examples
    --------
    A regression on a model of your own, with its uncertainty from an ensemble:

    >>> import keras
    >>> import numpy as np
    >>> import partonfit as pf
    >>> x = np.linspace(-1, 1, 200)[:, None]
    >>> y = np.sin(3 * x) + np.random.default_rng(1).normal(0, 0.1, x.shape)
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(16, "tanh"), keras.layers.Dense(1)])
    >>> fit = pf.train(model, "mse", (x[::2], y[::2]), validation=(x[1::2], y[1::2]), members=5,
    ...                optimizer=keras.optimizers.Adam(0.02), metrics=["mae"], epochs=1000, patience=100, seed=1)
    >>> prediction = fit.predict(x)                  # (member, sample, 1)
    >>> mean, sd = prediction.mean(axis=0), prediction.std(axis=0)
    >>> bool(fit.validation.max() < 0.02)            # the noise alone is 0.01
    True
    >>> sorted(fit.history)
    ['epoch', 'loss', 'mae', 'validation', 'validation_mae']
    >>> model = fit.write_back(member=3)             # now model.save(), model.predict(), ... are member 3

    A loss of your own, with a derivative of the model inside, and no labels (y' = -y, y(0) = 1):

    >>> import jax
    >>> def decay(predict, t):
    ...     slope = jax.vmap(jax.grad(lambda s: predict(s.reshape(1, 1))[0, 0]))(t[:, 0])
    ...     return ((slope + predict(t)[:, 0]) ** 2).mean() + (predict(0 * t[:1])[0, 0] - 1) ** 2
    >>> t = np.linspace(0, 1, 20)[:, None]
    >>> solved = pf.train(model, decay, t, optimizer=keras.optimizers.Adam(0.01), epochs=500, seed=1)
    >>> bool(np.abs(solved.predict(t)[0] - np.exp(-t)).max() < 0.02)
    True
    """
    members = whole("members", members, least=1)
    if checkpoint is not None and seed is None:
        msg = "A training with a checkpoint needs a seed: a resumed one must draw the same numbers."
        raise SettingError(msg)
    seed = int(np.random.SeedSequence().generate_state(1)[0] >> 1) if seed is None else _seeds.checked_seed(seed)
    if initial not in ("draw", "model"):
        msg = f"initial must be 'draw' or 'model', not {initial!r}."
        raise SettingError(msg)
    if batch_size is not None:
        whole("batch_size", batch_size, least=1)
    if data_parallel is None:
        data_parallel = members == 1 and len(keras_devices()) > 1
    placement, callbacks = (ByData if data_parallel else ByMember)(devices), checked_callbacks(callbacks)
    _build(model, data, is_function(loss))
    precision = precision or precision_of(model)
    if block_size is None and isinstance(placement, ByMember) and placement.devices[0].platform == "cpu":
        # No padding, and the same bits whatever the number of members; measured between blocks of 5 and of 10 in speed.
        block_size = 1
    control = EngineControl(
        epochs=epochs, patience=patience, min_delta=min_delta, keep=keep, precision=precision,
        block_size=block_size, record_every=record_every,
    )  # fmt: skip
    check_precision(model, precision)
    given = samples(data, validation, member_data, members, precision, supervised=not is_function(loss))
    if isinstance(placement, ByData):
        given = _divided(given, placement, precision, padding=not is_function(loss) and batch_size is None)
    with precision_context(precision), keras_floatx(precision):
        rule = fresh_optimizer(optimizer)
        values = optimizer_values(rule, model)
        problem = _problem(model, loss, metrics, given, batch_size, shuffle, rule, precision)
        states = _states(model, values, members, seed, initial)
        own = {"key": _keys(members, seed)} | given.members
        store = None
        if checkpoint is not None:
            settings = repr((control, batch_size, shuffle, seed, str(rule.get_config()), _described(loss)))
            weights = _content((states.trainable, states.non_trainable))
            parts = fingerprint(settings=settings, data=_content((given.shared, given.members)), weights=weights)
            store = Checkpoint(checkpoint, parts, resume=resume)
        step = make_epoch_step(problem, update_with(rule), control)
        result = run(
            step, states, own, given.shared, control, progress, callbacks=callbacks, checkpoint=store,
            placement=placement,
        )  # fmt: skip
    return training_of(model, result, seed, precision)


def _keys(members: int, seed: int) -> np.ndarray:
    """Return the random key (member, 2) of each member, for the order of samples and for loss functions."""
    root = _seeds.key(seed, "training")
    return np.asarray(jax.vmap(lambda m: jax.random.key_data(jax.random.fold_in(root, m)))(np.arange(members)))


def _content(tree: Any) -> bytes:
    leaves, structure = jax.tree.flatten(tree)
    return b"".join([str(structure).encode(), *(f"{a.dtype}{a.shape}".encode() + a.tobytes() for a in leaves)])


def _described(loss: Any) -> str:
    """Return what is the same for the same loss in another process."""
    return str(loss.get_config()) if isinstance(loss, keras.losses.Loss) else getattr(loss, "__qualname__", str(loss))


def _build(model: keras.Model, data: Any, functional: bool) -> None:
    """Make the weights of a model that waits for its first input."""
    if not isinstance(model, keras.Model):
        msg = f"model must be a Keras model, not {type(model).__name__}."
        raise SettingError(msg)
    if not model.built:
        if functional:
            msg = "The model has no weights yet. Give it an input (keras.Input), or call it once on some data."
            raise SettingError(msg)
        x = data[0] if isinstance(data, tuple) else data
        model(jax.tree.map(lambda a: np.asarray(a)[:1], x))
    if not model.trainable_variables:
        msg = "The model has no trainable weights: every layer has trainable=False."
        raise SettingError(msg)


def _divided(given: Samples, placement: ByData, precision: str, *, padding: bool) -> Samples:
    """Return samples that divide among the devices."""
    if jax.tree.leaves(given.members):
        msg = "member_data cannot be divided by samples: train its members with data_parallel=False."
        raise SettingError(msg)
    shared = dict(given.shared)
    for name, mask in (("data", "mask"), ("validation", "validation_mask")):
        if shared[name] is not None:
            shared[name], shared[mask] = placement.padded(shared[name], precision)
            if shared[mask] is not None and not padding:
                msg = (
                    f"The samples of {name} do not divide among {placement.count} devices; with a loss function of "
                    "your own, or in mini-batches, they must. Leave some out, or take another number of devices."
                )
                raise SettingError(msg)
    return Samples(shared, given.members, len(jax.tree.leaves(shared["data"])[0]))


def _problem(
    model: keras.Model,
    loss: Any,
    metrics: Any,
    given: Samples,
    size: int | None,
    shuffle: bool,
    rule: Any,
    precision: str,
) -> Problem:
    meters = (loss_meter(precision),)
    if is_function(loss):
        meters += function_meters(metrics, precision)
        batch_loss = function_loss(model, loss, meters)
    else:
        x, y, _ = given.shared["data"]
        losses = keras_losses(loss, precision)
        if y is None and losses is not None:
            msg = (
                f"The loss {loss!r} compares with labels, but data holds only x. Give data=(x, y), or a loss function."
            )
            raise SettingError(msg)
        if metrics:
            outputs = _shapes(model, x)
            meters += keras_meters(metrics, model, outputs, y, precision)
        batch_loss = supervised_loss(model, losses, meters)
    return Problem(batch_loss, meters, first_values(meters), size, shuffle, finalised_with(rule))


def _shapes(model: keras.Model, x: Any) -> Any:
    """Return the shapes and types of the model's outputs at ``x`` without computing them."""
    groups = ([v.value for v in model.trainable_variables], [v.value for v in model.non_trainable_variables])
    return jax.eval_shape(lambda t, n, inputs: call(model, t, n, inputs, False)[0], *groups, x)


def _states(model: keras.Model, values: Values, members: int, seed: int, initial: str) -> Any:
    draw = initial_values if initial == "draw" else present_values
    drawn = [draw(model, seed, member) for member in range(members)]
    trainable, non_trainable = (
        tuple(np.stack(leaves) for leaves in zip(*group, strict=True)) for group in zip(*drawn, strict=True)
    )
    return initial_states(trainable, non_trainable, values)
