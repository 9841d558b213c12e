"""Figures of how the replicas were trained: history, and training against validation."""

from __future__ import annotations

from typing import Any

import numpy as np

from partonfit.results import _plot_style as style

_MAX_STEPS = 600
"""Points drawn of each history: more cannot be seen."""


def plot_training(fit: Any) -> Any:
    """Draw chi2 per point against the epoch: every replica thin, the median over replicas thick."""
    figure = style.new_figure(7.4, 4.4)
    history = fit.history
    step = max(1, len(history["epoch"]) // _MAX_STEPS)
    epoch = np.asarray(history["epoch"], dtype=float)[::step]
    with style.styled():
        panel = figure.subplots()
        handles = []
        for k, part in enumerate(("training", "validation")):
            values = np.atleast_2d(np.asarray(history[part], dtype=float))[:, ::step]
            alpha = float(np.clip(1.2 / np.sqrt(len(values)), 0.1, 0.6))
            panel.plot(epoch, values.T, color=style.colour(k), lw=0.5, alpha=alpha)
            handles += panel.plot(epoch, _median(values), color=style.colour(k), lw=2.0)
        panel.set(xlabel="epoch", ylabel=r"$\chi^2$ per point", yscale="log")
        panel.set_xlim(0, max(epoch.max(initial=0.0), 1.0))
        _history_axis(panel, history)
        best = [s.best_epoch for s in fit.statuses if s.best_epoch is not None and s.best_epoch >= 0]
        handles += panel.plot(best, [0.02] * len(best), "|", ms=9, color="black", transform=panel.get_xaxis_transform())
    style.legend_above(figure, handles, ["training, median", "validation, median", "best epoch of a replica"])
    return figure


def plot_validation(fit: Any) -> Any:
    """Draw validation against training chi2 per point at the best epoch, one point a replica."""
    figure = style.new_figure(5.4, 5.2)
    kept = np.asarray(fit.kept, dtype=bool)
    points = np.array([[s.training, s.validation] for s in fit.statuses], dtype=float).reshape(-1, 2)
    fine = np.isfinite(points).all(axis=1)
    with style.styled():
        panel = figure.subplots()
        handles, labels = [], []
        for k, (chosen, word) in enumerate(((kept & fine, "kept"), (~kept & fine, "dropped"))):
            if chosen.any():
                marker = "o" if k == 0 else "x"
                handles += panel.plot(*points[chosen].T, marker, color=style.colour(k), ms=5, alpha=0.75)
                labels.append(f"{word} ({chosen.sum()})")
        if (kept & fine).any():
            handles += panel.plot(*points[kept & fine].mean(axis=0), "*", color="black", ms=14)
            labels.append("mean of the kept")
        if fine.any():
            low, high = points[fine].min(), points[fine].max()
            pad = 0.08 * (high - low) or 0.1
            panel.plot([low - pad, high + pad], [low - pad, high + pad], color=style.GREY, lw=0.8, zorder=0)
            panel.set(xlim=(low - pad, high + pad), ylim=(low - pad, high + pad))
        panel.set(xlabel=r"training $\chi^2$ per point", ylabel=r"validation $\chi^2$ per point", aspect="equal")
    if handles:
        style.legend_above(figure, handles, labels)
    return figure


def _median(values: np.ndarray) -> np.ndarray:
    """Median over replicas while at least half of them are training, NaN after that.

    The last few to stop are not typical: their median would jump.
    """
    result = np.full(values.shape[1], np.nan)
    living = np.isfinite(values).sum(axis=0) >= max(1, len(values) / 2)
    if living.any():
        result[living] = np.nanmedian(values[:, living], axis=0)
    return result


def _history_axis(panel: Any, history: Any) -> None:
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    values = np.concatenate([np.ravel(history["training"]), np.ravel(history["validation"])]).astype(float)
    values = values[np.isfinite(values) & (values > 0)]
    if values.size:
        panel.set_ylim(0.85 * values.min(), 1.3 * min(values.max(), 30 * values.min()))
    panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    panel.yaxis.set_minor_formatter(NullFormatter())
