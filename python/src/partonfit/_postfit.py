"""Postfit: which replicas enter the result, decided anew with other thresholds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from partonfit._checks import real
from partonfit.results._fit_object import PDFFit
from partonfit.results._replicas import (
    INTEGRABILITY,
    POSITIVITY,
    SIGMAS,
    SMALL_X,
    Measures,
    ReplicaStatus,
    arc_grid,
    arc_lengths,
    fitted_rows,
    integrability_sums,
    vetoes,
)
from partonfit.training import Status


def postfit(
    fit: PDFFit,
    *,
    sigmas: float = SIGMAS,
    integrability: float | None = None,
    positivity: float | None = None,
) -> PDFFit:
    r"""Decide anew which replicas of a fit are kept.

    ``fit_pdf()`` has done this with the default thresholds, which are those of the NNPDF4.0 fits.

    Parameters
    ----------
    fit
        The fit; it is not changed.
    sigmas
        A replica leaves when its chi2, or the arc length of one of its PDFs, lies more than so many
        standard deviations above the mean of the replicas that stay.
    integrability
        Largest sum of \|x q\| over x = 1e-9, 1e-8, 1e-7 for q = V, T3, V3, T8, V8; ``None``: 0.5, and no limit
        for a form with parameters, which settles how PDFs behave there.
    positivity
        Largest loss of a positivity observable, with the multipliers of the replica's best epoch;
        ``None``: the threshold of the fit.

    Returns
    -------
    PDFFit
        The same replicas with other statuses.

    Raises
    ------
    SettingError
        When a threshold is not a positive number.

    Examples
    --------
    >>> import partonfit as pf
    >>> fit = pf.fit_pdf("hera", replicas=4, seed=1, control=pf.fit_control(epochs=20, threshold_chi2=None))
    >>> pf.postfit(fit, integrability=1e-12).kept.any()
    np.False_
    """
    real("sigmas", sigmas, above=0)
    limit = integrability_limit(fit.settings["model"]) if integrability is None else integrability
    real("integrability", limit if np.isfinite(limit) else 1.0, above=0)
    own = fit.settings["control"].get("positivity_threshold", POSITIVITY)
    threshold = real("positivity", own if positivity is None else positivity, above=0)
    usable = np.array([status.best_epoch >= 0 and _ended(status).usable for status in fit.statuses])
    reasons = vetoes(measure(fit, usable), usable, sigmas=sigmas, integrability=limit, positivity=threshold)
    statuses = tuple(
        replace(
            status, status="vetoed" if reason else _ended(status).label,
            sentence=reason or _sentence(fit, status),
            kept=bool(good and not reason), ended=_ended(status).label,
        )
        for status, good, reason in zip(fit.statuses, usable, reasons, strict=True)
    )  # fmt: skip
    return replace(fit, statuses=statuses)


def integrability_limit(model: dict[str, Any]) -> float:
    r"""Return the largest sum of \|x q\| at small x for the description of a model."""
    return float("inf") if "form" in model else INTEGRABILITY


def measure(fit: Any, usable: np.ndarray) -> Measures:
    """Return what the vetoes look at; NaN for replicas without weights."""
    residuals = fit.predictions(kept_only=False) - fit.data.values
    pulls = np.linalg.solve(fit.data.covariance(), residuals.T).T
    chi2 = np.where(usable, np.einsum("rd,rd->r", residuals, pulls), np.nan) / fit.data.n_data
    positive = [i for i, c in enumerate(fit.settings.get("constraints") or ()) if c["kind"] == "positivity"]
    losses = np.zeros((len(usable), 0)) if not positive else fit.constraint_losses[:, positive]
    return Measures(
        chi2=chi2,
        lengths=arc_lengths(fitted_rows(fit.xf(arc_grid(), kept_only=False)), arc_grid()),
        integrals=integrability_sums(fit.xf(SMALL_X, kept_only=False)),
        positivity=losses,
        observables=tuple(fit.settings["constraints"][i]["dataset"] for i in positive),
    )


def _sentence(fit: PDFFit, status: ReplicaStatus) -> str:
    """Say how the training of a replica ended, for a user."""
    ended = _ended(status)
    if ended is Status.NEVER_PASSED and fit.settings.get("constraints"):
        threshold = fit.settings["control"]["threshold_chi2"]
        reached = fit.history["validation"][status.replica]
        if threshold is None or (reached < threshold).any():
            return f"never passed positivity within {status.epoch} epochs"
    return ended.sentence(status.epoch)


def _ended(status: ReplicaStatus) -> Status:
    """Return how the training ended; a vetoed replica of an older file stopped in some usable way."""
    name = status.ended or ("stopped" if status.status == "vetoed" else status.status)
    return Status[name.upper()]
