"""``fit_pdf()``: from data and theory to a fit, and back from disk."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np

from partonfit import _seeds
from partonfit._checks import whole
from partonfit._constrained import checked_constraints, constrained_maps, constraint_settings, final_losses
from partonfit._errors import SettingError, StorageError
from partonfit._postfit import postfit
from partonfit._versions import version
from partonfit._vocabulary import FITTED
from partonfit.data import Data, load_data
from partonfit.data._theory_covariance import checked_theory_covariance
from partonfit.inference import Compression, FitControl, draw_replicas, fit_control, fit_replicas
from partonfit.inference._black_box import black_box, fit_black_box
from partonfit.models import PDFModel, pdf_model, resolve_pdf
from partonfit.results import PDFFit, ReplicaStatus
from partonfit.results._replicas import fitted_rows
from partonfit.results._storage import fit_from_files, read_fit
from partonfit.results._weights import Weights
from partonfit.theory import ForwardMap, Theory, forward_map, load_theory
from partonfit.training import (
    ByMember,
    Checkpoint,
    Progress,
    TrainResult,
    checked_callbacks,
    fingerprint,
    gather,
    own_folder,
    stored_facts,
)


def fit_pdf(
    data: Data | str | list = "hera",
    theory: Theory | str | Path | None = None,
    *,
    model: PDFModel | None = None,
    replicas: int = 100,
    seed: int | None = None,
    t0: Any = "toy",
    constraints: Any = None,
    control: FitControl | None = None,
    progress: Progress | None = None,
    callbacks: Any = (),
    checkpoint: str | Path | None = None,
    resume: bool = False,
    devices: Any = None,
    operator: Any = None,
    grid: Any = None,
    theory_covariance: Any = None,
) -> PDFFit:
    """Fit parton distributions to data with an ensemble of neural networks.

    Every replica fits its own pseudodata with its own training and validation points, starting
    from its own weights; all of them train in one compiled program and stop on their own.

    Parameters
    ----------
    data
        :class:`Data`, or what :func:`load_data` accepts; ``"hera"`` is embedded.
    theory
        :class:`Theory`, a folder of FK tables, or ``"hera"`` (embedded). ``None`` takes the embedded one.
    model
        Made by :func:`pdf_model`; ``None`` is the NNPDF4.0 network (2-25-20-8).
    replicas
        Number of replicas.
    seed
        Whole number that fixes every random choice; ``None`` draws one (it is stored in the fit).
    t0
        PDF whose predictions scale the multiplicative uncertainties (D'Agostini bias): a pdf
        callable, another fit, ``"toy"``, or ``None`` for the experimental covariance.
    constraints
        Positivity and integrability observables that every replica has to satisfy: ``"nnpdf40"`` for
        the set of NNPDF4.0, or made by :func:`load_constraints`. ``None``: none. Their tables are looked
        for in the theory.
    control
        Made by :func:`fit_control`.
    progress
        ``progress(step, total, metrics)``, called between chunks of epochs; metrics are ``training``
        and ``validation`` (median chi2 per point of the best weights so far), ``running`` and
        ``members`` (numbers of replicas), ``seconds``.
    callbacks
        One or several :class:`CSVLogger`, :class:`TensorBoard` or functions like ``progress``, called
        after every chunk of epochs (about a second). An exception in one ends the fit with the best
        weights so far, and a warning says which; the statuses say ``"interrupted"``.
    checkpoint
        Folder in which the state of all replicas is kept, about every ten seconds. A fit that was
        killed goes on from there with ``resume=True`` and reaches the same result.
    resume
        Go on from ``checkpoint``, if there is one already; else begin.
    devices
        How many of the local devices to divide the replicas over (``None``: all), or the devices.
    operator, grid
        An :class:`ObservationOperator` instead of a theory, and the values of x where it takes x f: from
        14 x f(x) of the evolution basis (or the 8 fitted combinations), flattened (flavour, x), to
        predictions for the data. It is called at every epoch: this is for what has no tables.
    theory_covariance
        Uncertainties of the theory: made by :func:`scale_covariance` or :func:`load_theory_covariance`, or the file
        that the latter reads. They are found by label, and count in the noise of the pseudodata and in the chi2
        (``theory_in_sampling`` and ``theory_in_fitting`` of :func:`fit_control`).

    Returns
    -------
    PDFFit
        With one status per replica: a replica that fails never raises.

    Raises
    ------
    PartonfitError
        For unusable data, tables or settings; before anything slow starts.
    StorageError
        When a checkpoint cannot be written (the one before it stays), cannot be read, or belongs to
        another fit.

    Notes
    -----
    ``KeyboardInterrupt`` ends the fit and returns the best weights so far; the statuses say
    ``"interrupted"``. With a checkpoint, such a fit can be resumed too.

    In several processes (``jax.distributed``) each fits a part of the replicas, and all of them
    return the complete fit.

    Examples
    --------
    >>> import partonfit as pf
    >>> fit = pf.fit_pdf("hera", replicas=2, seed=1, control=pf.fit_control(epochs=20, threshold_chi2=None))
    >>> fit.predict([0.01, 0.1], flavour=["g", "u_v"]).mean.shape
    (2, 2)
    """
    started = time.perf_counter()
    count = whole("replicas", replicas, least=jax.process_count())
    callbacks, placement = checked_callbacks(callbacks), ByMember(devices)
    seed = _drawn_seed(checkpoint, resume) if seed is None else _seeds.checked_seed(seed)
    control = fit_control() if control is None else control
    if not isinstance(control, FitControl):
        msg = f"control must come from fit_control(), not {type(control).__name__}."
        raise SettingError(msg)
    constraints = checked_constraints(constraints)
    data = data if isinstance(data, Data) else load_data(data)
    uncertain = None if theory_covariance is None else checked_theory_covariance(theory_covariance).on(data)
    tables: Any  # the theory, or the operator in its place
    forward: Any
    if operator is None:
        tables = theory if isinstance(theory, Theory) else load_theory("hera" if theory is None else theory)
        forward = forward_map(data, tables)
    else:
        _no_tables(theory, constraints)
        tables = forward = black_box(operator, grid, data)
    model = pdf_model(precision=control.precision) if model is None else model
    t0_predictions = None if t0 is None else forward.predict(np.asarray(resolve_pdf(t0)(forward.x)))
    mapped, penalty = (forward, None) if operator is not None else constrained_maps(
        constraints, forward, tables, control, model
    )  # fmt: skip
    settings = plain_settings(data, tables, model, control, count, seed, t0)
    settings["constraints"] = constraint_settings(constraints)
    if uncertain is not None:
        settings["theory_covariance"] = {**uncertain.description, "hash": uncertain.hash}
    kept = None if checkpoint is None else _checkpoint(checkpoint, resume, settings, data, forward, t0_predictions)
    loaded = time.perf_counter()
    drawn = draw_replicas(data, t0_predictions, count, seed, control, theory=uncertain)
    loop: Any = {
        "shown": shown_per_point(data, control), "callbacks": callbacks, "checkpoint": kept, "placement": placement
    }  # fmt: skip
    compression = None
    if operator is None:
        result, compression = fit_replicas(
            data, mapped, t0_predictions, model, drawn, seed, control, resolve_pdf("toy"), progress, penalty, uncertain,
            **loop,
        )  # fmt: skip
    else:
        result = fit_black_box(data, forward, t0_predictions, model, drawn, seed, control, progress, uncertain, **loop)
    trained = time.perf_counter()
    weights = Weights(
        json.dumps(keras.saving.serialize_keras_object(model)), result.trainable, result.non_trainable,
        control.precision,
    )  # fmt: skip
    statuses = _statuses(result, drawn.training)
    origin = provenance(data, forward, control, t0_predictions) | {
        "seconds": {
            "loading": round(loaded - started, 3),
            "training": round(trained - loaded, 3),
            "compiling": round(result.compile_seconds, 3),  # a part of training
        },
        "compilations": result.compilations,
    }
    if result.error is not None:
        origin["callback_error"] = f"{type(result.error).__name__}: {result.error}"
    fit = PDFFit(
        weights=weights,
        statuses=statuses,
        history=_per_point(result, drawn.training),
        settings=settings,
        provenance=origin,
        data_values=data.values,
        replica_data=drawn.pseudodata,
        training_mask=drawn.training,
        sources=lambda: (data, forward),
        constraint_losses=final_losses(penalty, weights, result.best_epoch),
    )
    fit = postfit(fit)
    if compression is not None:
        fit.provenance["compression"] = _compression_error(compression, weights, fit.statuses, data, model)
    if penalty is not None:
        fit.provenance["constraints"] = {
            "theory_hash": penalty.forward.hash,
            "largest_error": penalty.error(weights.xf(penalty.forward.x, np.flatnonzero(fit.kept))),
        }
    return fit


def _no_tables(theory: Any, constraints: Any) -> None:
    for what, value in (("theory", theory), ("constraints", constraints)):
        if value:
            msg = f"{what}= needs theory tables; with operator= the predictions come from the operator."
            raise SettingError(msg)


def load_fit(folder: str | Path) -> PDFFit:
    """Read a fit that :meth:`PDFFit.save` wrote.

    Data and theory are found again by the names stored in the fit when they are first needed, and
    their hashes are compared.

    Parameters
    ----------
    folder
        Where :meth:`PDFFit.save` wrote it.

    Raises
    ------
    StorageError
        When the folder holds no complete fit.

    Examples
    --------
    >>> import partonfit as pf
    >>> fit = pf.fit_pdf("hera", replicas=1, seed=1, control=pf.fit_control(epochs=5, threshold_chi2=None))
    >>> folder = fit.save("my-fit")  # doctest: +SKIP
    >>> again = pf.load_fit("my-fit")  # doctest: +SKIP
    """
    return read_fit(folder, _find_sources)


def fit_from_bytes(files: dict[str, bytes]) -> PDFFit:
    """Rebuild a fit from the bytes of its two files (for callers that keep them elsewhere)."""
    return fit_from_files(files, _find_sources)


def _find_sources(settings: dict[str, Any], provenance: dict[str, Any], values: np.ndarray) -> tuple[Data, ForwardMap]:
    data = load_data(**settings["data"]).with_values(values)
    forward = forward_map(data, load_theory(settings["theory"]))
    for name, now in (("data", data.hash), ("theory", forward.hash)):
        then = provenance[f"{name}_hash"]
        if now != then:
            msg = (
                f"The {name} of this fit changed since it was made: hash {now[:12]} now, {then[:12]} then. "
                "Predictions and chi2 need the same ones; x f does not."
            )
            raise StorageError(msg)
    return data, forward


def _drawn_seed(folder: str | Path | None, resume: bool) -> int:
    """Draw a seed: that of the fit that is resumed, if there is one; the same in all processes."""
    facts = stored_facts(own_folder(folder)) if folder is not None and resume else None
    seed = np.random.SeedSequence().generate_state(1)[0] >> 1 if facts is None else facts["seed"]
    return int(gather({"seed": np.asarray(seed)})[0]["seed"])


def _checkpoint(
    folder: str | Path, resume: bool, settings: dict[str, Any], data: Data, forward: ForwardMap,
    t0_predictions: np.ndarray | None,
) -> Checkpoint:  # fmt: skip
    """Return the checkpoint of this fit; everything that decides its result enters the fingerprint."""

    def rounded(values: np.ndarray | None) -> Any:
        # Computed values differ in their last digits from machine to machine.
        return None if values is None else [f"{value:.8e}" for value in values]

    # The folder of a theory may have moved: its content counts. Blocks change no number.
    decisive = {name: value for name, value in settings.items() if name not in ("theory", "t0")}
    decisive["control"] = {name: value for name, value in decisive["control"].items() if name != "block_size"}
    decisive |= {
        "data": [data.hash, data.request, rounded(data.values)], "tables": forward.hash,
        "t0": rounded(t0_predictions), "number of processes": jax.process_count(),
    }  # fmt: skip
    parts = fingerprint(**decisive)
    return Checkpoint(own_folder(folder), parts, resume=resume, facts={"seed": settings["seed"]})


def shown_per_point(data: Data, control: FitControl) -> Callable[[dict[str, float]], dict[str, float]]:
    """Return the translation of the engine's losses to chi2 per point, for progress and callbacks."""
    inside = max(1.0, control.training_fraction * data.n_data)
    held = data.n_data - inside if inside < data.n_data else inside

    def show(metrics: dict[str, float]) -> dict[str, float]:
        shown = {name: metrics[name] for name in ("running", "members", "seconds")}
        if "loss" in metrics:
            shown |= {"training": metrics["loss"] / inside, "validation": metrics["validation"] / held}
        return shown

    return show


def _per_point(result: TrainResult, training: np.ndarray) -> dict[str, np.ndarray]:
    inside = training.sum(axis=1)[:, None]
    held = (~training).sum(axis=1)[:, None]
    return {
        "epoch": result.history["epoch"],
        "training": result.history["loss"] / inside,
        "validation": result.history["validation"] / np.where(held > 0, held, inside),
    }


def _statuses(result: TrainResult, training: np.ndarray) -> tuple[ReplicaStatus, ...]:
    """Return how the training of each replica ended; the vetoes come after."""
    losses = _per_replica(result, training)
    return tuple(
        ReplicaStatus(
            replica=i, status=status.label, sentence=status.sentence(int(result.epoch[i])), kept=False,
            epoch=int(result.epoch[i]), best_epoch=int(result.best_epoch[i]),
            training=float(losses[0][i]), validation=float(losses[1][i]), ended=status.label,
        )
        for i, status in enumerate(result.status)
    )  # fmt: skip


def _per_replica(result: TrainResult, training: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    inside, held = training.sum(axis=1), (~training).sum(axis=1)
    return result.loss / inside, result.validation / np.where(held > 0, held, inside)


def plain_settings(
    data: Data, theory: Theory, model: keras.Model, control: FitControl, count: int, seed: int, t0: Any
) -> dict[str, Any]:
    """Return what was asked for as plain values."""
    return {
        "data": data.request,
        "theory": theory.name,
        "n_data": data.n_data,
        "datasets": list(data.names),
        "replicas": count,
        "seed": seed,
        "t0": t0 if t0 is None or isinstance(t0, str) else type(t0).__name__,
        "control": control.to_dict(),
        "model": model.describe() if isinstance(model, PDFModel) else {"network": type(model).__name__},
    }


def _compression_error(
    compression: Compression, weights: Weights, statuses: tuple[ReplicaStatus, ...], data: Data, model: Any
) -> dict[str, Any]:
    """Return rank and largest error of the compressed chi2 over (at most 20 of) the kept replicas."""
    kept = np.flatnonzero([status.kept for status in statuses])[:20]
    names = getattr(model, "fitted", FITTED)
    fitted = fitted_rows(weights.xf(compression.forward.x, kept), names).transpose(0, 2, 1)
    worst = max((compression.error(xf, data.values) for xf in fitted), default=0.0)
    return {"rank": compression.rank, "cut": compression.cut, "error_per_point": worst}


def provenance(
    data: Data, forward: ForwardMap, control: FitControl, t0_predictions: np.ndarray | None
) -> dict[str, Any]:
    """Return hashes, versions and device as plain values."""
    libraries = ("partonfit", "jax", "jaxlib", "keras", "numpy", "pineappl", "nnpdf-data", "eko")
    return {
        "data_hash": data.hash,
        "theory_hash": forward.hash,
        "t0_predictions": None if t0_predictions is None else t0_predictions.tolist(),
        "precision": control.precision,
        "versions": {"python": platform.python_version()} | {name: version(name) for name in libraries},
        "device": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
        "machine": platform.machine(),
    }
