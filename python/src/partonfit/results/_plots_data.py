"""Figures that lay the theory beside the data: chi2 bars, and data against theory by dataset."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from partonfit._errors import SettingError, nearest
from partonfit.results import _plot_style as style

MAX_PANELS = 20
"""Panels in one figure of a dataset; a dataset with more values of Q2 shows every n-th."""


def plot_chi2(fit: Any, *, covariance: str = "experimental") -> Any:
    """Draw chi2 per point of the central member, one bar for each dataset.

    The grey band is 1 +- sqrt(2/N), what a perfect theory would give for N points.
    """
    table = fit.chi2(covariance)
    rows, n = table.dataset, np.array(table.n_data)
    values = np.array(table.chi2) / n
    figure = style.new_figure(8.4, 1.4 + 0.42 * len(rows))
    with style.styled():
        panel = figure.subplots()
        y = np.arange(len(rows))[::-1]
        spread = np.sqrt(2 / n)
        panel.barh(y, 2 * spread, left=1 - spread, height=0.9, color="#d9d9d9", zorder=0)
        panel.barh(y, values, height=0.55, color=style.colour(0))
        total = table.total / n.sum()
        panel.axvline(total, color=style.colour(1), lw=1.6)
        panel.axvline(1.0, color=style.GREY, lw=0.8, ls=":")
        edge = 1.18 * max(values.max(), total, (1 + spread).max())
        for yy, value, count in zip(y, values, n, strict=True):
            panel.annotate(f" {value:.2f}  (N = {count})", (max(value, total), yy), va="center", fontsize=8.5)
        panel.set_yticks(y, rows, fontsize=8.5)
        panel.tick_params(axis="y", which="both", left=False, right=False)
        panel.set(
            xlim=(0, 1.15 * edge),
            ylim=(-0.7, len(rows) - 0.3),
            xlabel=rf"$\chi^2/N$ ({covariance} covariance)",
        )
        panel.set_title(rf"all {n.sum()} points: $\chi^2/N$ = {total:.3f} (line);  grey: 1 $\pm\sqrt{{2/N}}$",
                        fontsize=9.5)  # fmt: skip
    return figure


@dataclass(frozen=True)
class _Points:
    """One dataset with its theory, arrays (data,); ``spread`` is NaN for a single replica."""

    name: str
    word: str
    x: np.ndarray
    q2: np.ndarray
    values: np.ndarray
    uncorrelated: np.ndarray
    total: np.ndarray
    theory: np.ndarray
    spread: np.ndarray

    def ratio(self, by: np.ndarray) -> _Points:
        size = np.abs(by)
        return replace(
            self,
            word=self.word.split(" [", maxsplit=1)[0],
            values=self.values / by,
            uncorrelated=self.uncorrelated / size,
            total=self.total / size,
            theory=self.theory / by,
            spread=self.spread / size,
        )


def plot_data(fit: Any, *, dataset: str | None = None, normalised: str | None = None) -> Any:
    """Draw one dataset against the theory of the fit.

    Parameters
    ----------
    fit
        The fit.
    dataset
        Its name; the first of the fit by default.
    normalised
        ``"theory"`` divides everything by the central prediction, ``"data"`` by the measured value.

    Returns
    -------
    matplotlib.figure.Figure
        Panels of equal Q2 with x along the axis; points without these kinematics in order of index.
        Thick error bars are the uncorrelated uncertainty, thin ones the total. The band is mean +- 1 sigma of the
        replicas. Correlated shifts are not applied to the data.
    """
    if normalised not in (None, "theory", "data"):
        msg = f"normalised must be 'theory', 'data' or None, not {normalised!r}."
        raise SettingError(msg)
    points = _points(fit, dataset)
    shown = points if normalised is None else points.ratio(points.theory if normalised == "theory" else points.values)
    groups = _groups(points)
    if len(groups) <= 1:
        return _draw_by_index(shown, normalised)
    return _draw_panels(shown, groups, normalised)


def _points(fit: Any, name: str | None) -> _Points:
    names = list(fit.data.names)
    chosen = names[0] if name is None else str(name)
    if chosen not in names:
        msg = f"This fit has no dataset {chosen!r}. {nearest(chosen, names, what='dataset')}"
        raise SettingError(msg)
    source, rows = fit.data.datasets[names.index(chosen)], fit.data.slices[chosen]
    predictions = np.asarray(fit.predictions())[:, rows]
    spread = predictions.std(axis=0, ddof=1) if len(predictions) > 1 else np.full(predictions.shape[1], np.nan)
    blank = np.full(source.values.size, np.nan)
    return _Points(
        source.name, _axis_word(source), source.kinematics.get("x", blank), source.kinematics.get("Q2", blank),
        source.values, source.uncorrelated_error, source.total_error, predictions.mean(axis=0), spread,
    )  # fmt: skip


def _axis_word(dataset: Any) -> str:
    """Return the axis word of an observable with its units."""
    given = str(dataset.plotting.get("y_label") or "")
    if "SIGMARED" in dataset.name:
        word = r"$\sigma_{\mathrm{red}}$"
    else:
        word = given or ("$F_2$" if dataset.name.endswith("F2") else "observable")
    return f"{word} [{dataset.units}]" if dataset.units not in ("", "1", "none", "None") else word


def _groups(points: _Points) -> list[tuple[float, np.ndarray]]:
    """Return (Q2, row numbers by rising x) for every Q2, at most ``MAX_PANELS`` of them."""
    if not (np.isfinite(points.x).all() and np.isfinite(points.q2).all()):
        return []
    rounded = np.array([float(f"{q:.5g}") for q in points.q2])
    values = np.unique(rounded)
    if len(values) > MAX_PANELS:
        values = values[np.unique(np.linspace(0, len(values) - 1, MAX_PANELS).round().astype(int))]
    found = []
    for q2 in values:
        rows = np.flatnonzero(rounded == q2)
        found.append((float(q2), rows[np.argsort(points.x[rows])]))
    return found


def _draw_panels(points: _Points, groups: list[tuple[float, np.ndarray]], normalised: str | None) -> Any:
    columns = min(5 if len(groups) > 9 else 3, len(groups))
    figure, axes, _ = style.panels(
        len(groups), 2.5, 1.75, columns, margins=(0.58, 0.04, 0.1, 0.04), header=0.7, footer=0.3
    )
    every = np.concatenate([chosen for _, chosen in groups])
    x_range = 0.6 * points.x[every].min(), 1.5 * points.x[every].max()
    handles: list[Any] = []
    with style.styled():
        for i, (panel, (q2, chosen)) in enumerate(zip(axes, groups, strict=True)):
            style.log_axis(panel)
            panel.set_autoscale_on(False)  # limits are set here; matplotlib's search for them is slow
            panel.set_xlim(x_range)
            panel.minorticks_off()
            panel.tick_params(labelsize=8)
            _panel_limits(panel, points, chosen, normalised)
            handles = _draw_points(panel, points, chosen, points.x[chosen], joined=normalised != "data")
            # Plain characters: parsing 20 formulas takes longer than drawing them.
            number = f"{q2:.4g}" if q2 < 1e4 else f"{q2:.0f}"
            panel.text(0.96, 0.94, f"Q² = {number} GeV²", transform=panel.transAxes, fontsize=8, ha="right", va="top")
            if i + columns < len(groups):
                panel.tick_params(labelbottom=False)
            else:
                panel.set_xlabel("$x$", labelpad=0)
            if i % columns == 0:
                panel.set_ylabel(_y_words(points.word, normalised), fontsize=9, labelpad=2)
    _data_legend(figure, handles, points, skipped=points.values.size - len(every))
    return figure


def _draw_by_index(points: _Points, normalised: str | None) -> Any:
    figure, (panel,), _ = style.panels(1, 8.4, 4.0, header=0.75)
    chosen = np.arange(points.values.size)
    with style.styled():
        handles = _draw_points(panel, points, chosen, chosen.astype(float), joined=False)
        panel.set(xlabel="point", ylabel=_y_words(points.word, normalised))
    _data_legend(figure, handles, points, skipped=0)
    return figure


def _draw_points(panel: Any, points: _Points, chosen: np.ndarray, where: np.ndarray, *, joined: bool) -> list[Any]:
    """Draw one panel; ``joined`` theory is a line with a band, else (or alone) a dash with a thick bar."""
    theory, spread, hue = points.theory[chosen], points.spread[chosen], style.colour(1)
    spread = np.where(np.isfinite(spread), spread, 0.0)
    handle: Any
    if joined and len(chosen) > 1:
        band = panel.fill_between(where, theory - spread, theory + spread, color=hue, alpha=0.35, lw=0)
        (line,) = panel.plot(where, theory, color=hue, lw=1.4)
        handle = (band, line)
    else:
        panel.vlines(where, theory - spread, theory + spread, color=hue, lw=4, alpha=0.35)
        (handle,) = panel.plot(where, theory, "_", color=hue, ms=9, mew=1.6)
    values, inner, outer = points.values[chosen], points.uncorrelated[chosen], points.total[chosen]
    panel.vlines(where, values - outer, values + outer, color="black", lw=0.7)
    panel.vlines(where, values - inner, values + inner, color="black", lw=1.9)
    (marker,) = panel.plot(where, values, "o", color="black", ms=2.8)
    return [marker, handle]


def _panel_limits(panel: Any, points: _Points, chosen: np.ndarray, normalised: str | None) -> None:
    """Leave room for the Q2 label above; a ratio axis follows the bulk of all points."""
    if normalised:
        reach = np.quantile(np.abs(points.theory - points.values) + points.total, 0.9)
        half = float(np.clip(1.2 * reach, 0.05, 1.0))
        panel.set_ylim(1 - half, 1 + 1.4 * half)
        panel.axhline(1.0, color=style.GREY, lw=0.6, zorder=0)
        return
    low = np.min(np.minimum(points.values - points.total, points.theory)[chosen])
    high = np.max(np.maximum(points.values + points.total, points.theory)[chosen])
    size = high - low or 1.0
    panel.set_ylim(low - 0.08 * size, high + 0.2 * size)


def _y_words(word: str, normalised: str | None) -> str:
    return word if normalised is None else f"{word} / fit" if normalised == "theory" else f"{word} / data"


def _data_legend(figure: Any, handles: list[Any], points: _Points, skipped: int) -> None:
    labels = ["data (thick bar: uncorrelated, thin: total)", r"fit, mean $\pm$ 1$\sigma$"]
    if not np.isfinite(points.spread).all():
        labels[1] = "fit, one replica"
    title = points.name + (f"   ({skipped} points at other Q² not shown)" if skipped else "")
    style.legend_above(figure, handles, labels, title=title)
