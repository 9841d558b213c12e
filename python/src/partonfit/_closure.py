"""``closure_test()``: many fits to fake data from a known law, all in one compiled program."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
from scipy.linalg import solve_triangular

from partonfit import _seeds
from partonfit._checks import whole
from partonfit._compare import as_forward_map
from partonfit._constrained import checked_constraints, constrained_maps, constraint_settings, final_losses
from partonfit._errors import FitError, SettingError
from partonfit._fit import plain_settings, provenance, shown_per_point
from partonfit._postfit import integrability_limit
from partonfit._vocabulary import FITTED, rotation
from partonfit.data import Constraint, Data, pseudodata
from partonfit.inference import FitControl, Replicas, draw_replicas, fit_control, fit_replicas
from partonfit.models import PDFModel, pdf_model, resolve_pdf
from partonfit.results import ClosureTest
from partonfit.results._replicas import (
    SMALL_X,
    Measures,
    arc_grid,
    arc_lengths,
    fitted_rows,
    integrability_sums,
    vetoes,
)
from partonfit.results._weights import Weights
from partonfit.theory import ForwardMap, Theory, load_theory
from partonfit.training import ByMember, Progress, TrainResult, checked_callbacks

_GRID = np.concatenate([np.geomspace(1e-4, 0.1, 13), np.linspace(0.2, 0.7, 6)])
"""Where x f is compared with the law: where the data say something about it."""


def closure_test(
    data: Data | str | list = "hera",
    theory: Theory | str | Path | None = None,
    *,
    pdf: Any = "toy",
    fits: int = 25,
    replicas: int = 40,
    model: PDFModel | None = None,
    seed: int | None = None,
    control: FitControl | None = None,
    constraints: Any = None,
    progress: Progress | None = None,
    callbacks: Any = (),
    devices: Any = None,
) -> ClosureTest:
    """Test whether the uncertainties of a fit are faithful, on fake data from a known law.

    Every fit has data of its own, the law's predictions plus one draw of the experimental noise (level 1),
    and every replica fluctuates them once more (level 2), as in a fit to real data. All fits times replicas
    are members of one compiled program. Then each fit's central value is laid beside the law: the bias says
    how far off it is, the variance how far its replicas lie apart, and xi_1sigma how often the law lies
    inside one standard deviation (arXiv:2111.05787).

    Parameters
    ----------
    data, theory
        As in :func:`fit_pdf`; only kinematics and uncertainties of the data matter.
    pdf
        The law: a pdf callable, a fit, an LHAPDF set, or ``"toy"``.
    fits, replicas
        Number of fits, and of replicas in each (at least 2).
    model, control, constraints
        As in :func:`fit_pdf`.
    seed
        Whole number that fixes every random choice; ``None`` draws one (it is stored in the result).
    progress, callbacks, devices
        As in :func:`fit_pdf`; members are the replicas of all fits.

    Returns
    -------
    ClosureTest
        Print it, or see ``to_dataframe()`` and ``plot()``. Replicas that diverge, never pass the threshold or
        are vetoed (as in :func:`postfit`, within their fit) are left out and counted.

    Raises
    ------
    PartonfitError
        For unusable data, tables or settings; before anything slow starts.

    Notes
    -----
    The t0 covariance is that of the law, in the noise, in the fits and in the statistics. Replica j of fit i
    is member i * replicas + j: it has the streams of that number, whatever else is fitted.

    Examples
    --------
    >>> import partonfit as pf
    >>> control = pf.fit_control(epochs=20, threshold_chi2=None)
    >>> result = pf.closure_test("hera", fits=2, replicas=2, seed=1, control=control)
    >>> result.predictions.shape
    (2, 2, 1145)
    """
    started = time.perf_counter()
    whole("fits", fits, least=1)
    whole("replicas", replicas, least=2)
    callbacks, placement = checked_callbacks(callbacks), ByMember(devices)
    seed = _drawn_seed() if seed is None else _seeds.checked_seed(seed)
    control = fit_control() if control is None else control
    if not isinstance(control, FitControl):
        msg = f"control must come from fit_control(), not {type(control).__name__}."
        raise SettingError(msg)
    function, wanted = resolve_pdf(pdf), checked_constraints(constraints)
    theory = theory if isinstance(theory, Theory) else load_theory("hera" if theory is None else theory)
    data, forward = as_forward_map(data, theory)
    model = pdf_model(precision=control.precision) if model is None else model
    fake = data.with_values(_law_predictions(data, forward, function))
    mapped, penalty = constrained_maps(wanted, forward, theory, control, model)
    level1, drawn = _drawn(fake, fits, replicas, seed, control)
    loaded = time.perf_counter()
    result, _ = fit_replicas(
        fake, mapped, fake.values, model, drawn, seed, control, resolve_pdf("toy"), progress, penalty,
        shown=shown_per_point(data, control), callbacks=callbacks, checkpoint=None, placement=placement,
    )  # fmt: skip
    trained = time.perf_counter()
    weights = Weights(
        json.dumps(keras.saving.serialize_keras_object(model)), result.trainable, result.non_trainable,
        control.precision,
    )  # fmt: skip
    settings = plain_settings(fake, theory, model, control, replicas, seed, pdf)
    del settings["t0"]  # it is the law
    law = pdf if isinstance(pdf, str) else getattr(pdf, "name", None) or type(pdf).__name__
    settings |= {"law": law, "fits": fits, "constraints": constraint_settings(wanted)}
    predictions = forward.predict(weights.xf(forward.x, np.arange(fits * replicas)))
    losses = final_losses(penalty, weights, result.best_epoch)
    statuses = _statuses(
        result, _measures(fake, level1, predictions, weights, losses, wanted), fits, control, settings["model"]
    )  # fmt: skip
    origin = provenance(data, forward, control, None) | {
        "seconds": {
            "loading": round(loaded - started, 3),
            "training": round(trained - loaded, 3),
            "compiling": round(result.compile_seconds, 3),  # a part of training
            "all": round(time.perf_counter() - started, 3),
        }
    }
    return _assembled(
        fake, level1, weights, predictions.reshape(fits, replicas, -1), statuses, function, settings, origin
    )


def _drawn_seed() -> int:
    return int(np.random.SeedSequence().generate_state(1)[0] >> 1)


def _law_predictions(data: Data, forward: ForwardMap, law: Any) -> np.ndarray:
    predicted = forward.predict(np.asarray(law(forward.x), dtype=np.float64))
    bad = np.flatnonzero(~np.isfinite(predicted))
    if len(bad):
        name, row = data.labels[int(bad[0])]
        msg = f"The law has no finite prediction for dataset {name} at index {row}; cut it or choose another law."
        raise FitError(msg)
    return predicted


def _drawn(fake: Data, fits: int, replicas: int, seed: int, control: FitControl) -> tuple[np.ndarray, Replicas]:
    """Draw the data of each fit (fit, data) and what its replicas make of them, fit after fit."""
    law, level1, parts = fake.values, [], []
    for fit in range(fits):

        def rng(*names: str | int, fit: int = fit) -> np.random.Generator:
            return _seeds.stream(seed, "closure", fit, *names)

        own = fake.with_values(pseudodata(fake, rng=rng, t0=law))
        level1.append(own.values)
        parts.append(draw_replicas(own, law, replicas, seed, control, first=fit * replicas))
    values, masks = (np.concatenate([getattr(p, name) for p in parts]) for name in ("pseudodata", "training"))
    return np.stack(level1), Replicas(values, masks)


def _statuses(
    result: TrainResult, measures: Measures, fits: int, control: FitControl, model: dict[str, Any]
) -> tuple[tuple[str, ...], ...]:
    """Return how each replica ended (fit, replica): the words of its status, or "vetoed" within its fit."""
    ended = np.array([status.label for status in result.status]).reshape(fits, -1)
    usable = np.array([s.usable and b >= 0 for s, b in zip(result.status, result.best_epoch, strict=True)])
    found = []
    for fit, words in enumerate(ended):
        rows = slice(fit * ended.shape[1], (fit + 1) * ended.shape[1])
        own = Measures(
            measures.chi2[rows], measures.lengths[rows], measures.integrals[rows], measures.positivity[rows],
            measures.observables,
        )  # fmt: skip
        limit = integrability_limit(model)
        reasons = vetoes(own, usable[rows], integrability=limit, positivity=control.positivity_threshold)
        found.append(tuple("vetoed" if reason else str(word) for reason, word in zip(reasons, words, strict=True)))
    return tuple(found)


def _measures(
    fake: Data, level1: np.ndarray, predictions: np.ndarray, weights: Weights, losses: np.ndarray | None,
    wanted: tuple[Constraint, ...],
) -> Measures:  # fmt: skip
    """Return what the vetoes look at, for the replicas of all fits; chi2 is that to the data of their fit."""
    everyone, grid = np.arange(len(weights)), arc_grid()
    residuals = predictions - np.repeat(level1, len(weights) // len(level1), axis=0)
    whitened = solve_triangular(fake.cholesky(fake.covariance()), residuals.T, lower=True, check_finite=False)
    positive = [i for i, constraint in enumerate(wanted) if constraint.kind == "positivity"]
    return Measures(
        chi2=np.mean(whitened**2, axis=0),
        lengths=arc_lengths(fitted_rows(weights.xf(grid, everyone)), grid),
        integrals=integrability_sums(weights.xf(SMALL_X, everyone)),
        positivity=np.zeros((len(weights), 0)) if losses is None else losses[:, positive],
        observables=tuple(wanted[i].dataset.name for i in positive),
    )


_KEPT = ("stopped", "finished", "interrupted")


def _assembled(
    fake: Data, level1: np.ndarray, weights: Weights, predictions: np.ndarray, statuses: tuple[tuple[str, ...], ...],
    law: Any, settings: dict[str, Any], origin: dict[str, Any],
) -> ClosureTest:  # fmt: skip
    """Put the arrays of the result together."""
    turn, members = rotation(FITTED), np.arange(predictions.shape[0] * predictions.shape[1])
    xf = np.einsum("fe,rex->rfx", turn, weights.xf(_GRID, members))
    sources = fake.sources()
    blank = {d.name: np.full(d.n_data, np.nan) for d in fake.datasets}
    return ClosureTest(
        settings=settings,
        provenance=origin,
        datasets=fake.names,
        sizes=tuple(d.n_data for d in fake.datasets),
        statuses=statuses,
        kept=np.isin(np.array(statuses), _KEPT),
        law_predictions=fake.values,
        level1=level1,
        predictions=predictions,
        independent=sources.independent,
        correlated=sources.correlated,
        data_x=np.concatenate([d.kinematics.get("x", blank[d.name]) for d in fake.datasets]),
        x=_GRID,
        flavours=FITTED,
        law_xf=turn @ np.asarray(law(_GRID), dtype=np.float64),
        xf=xf.reshape(*predictions.shape[:2], *xf.shape[1:]),
    )
