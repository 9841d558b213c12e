"""Figure of a closure test: ratio and xi by dataset and decade of x, and the shifts against a Gaussian."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from partonfit.results import _plot_style as style

if TYPE_CHECKING:
    from partonfit.results._closure_result import ClosureRow, ClosureTest

_FAR = 4.0
"""Shifts beyond so many standard deviations are drawn in the last bin."""


def plot_closure(result: ClosureTest) -> Any:
    """Draw bias/variance ratio and xi_1sigma by dataset and decade of x, and the distribution of the shifts.

    The dashed line is what exact uncertainties give with this number of replicas, the dotted one the limit of
    many replicas. Error bars are bootstrap errors over fits; a single fit has none.

    Parameters
    ----------
    result
        The closure test.

    Returns
    -------
    matplotlib.figure.Figure
        Three panels side by side.
    """
    rows = [row for row in result.rows if row.kind != "pdf"]
    height = max(3.6, 1.3 + 0.3 * len(rows))
    figure = style.new_figure(12.4, height)
    with style.styled():
        left, middle, right = figure.subplots(1, 3, width_ratios=[1.25, 1.0, 1.0])
        y = np.arange(len(rows))[::-1]
        ideal = result.faithful
        _ratio_panel(left, rows, y, ideal[0])
        _xi_panel(middle, rows, y, ideal[1])
        _shift_panel(right, result)
        first_x = next((i for i, row in enumerate(rows) if row.kind == "x"), None)
        for panel in (left, middle):
            panel.set_ylim(-0.7, len(rows) - 0.3)
            panel.tick_params(axis="y", which="both", left=False, right=False)
            for line in {1, first_x} - {None}:
                panel.axhline(len(rows) - line - 0.5, color=style.GREY, lw=0.5)
        left.set_yticks(y, [_words(row) for row in rows], fontsize=8.5)
        middle.set_yticks(y, [""] * len(rows))
        figure.suptitle(
            f"closure test, law {result.settings['law']}: {result.n_fits} fits of {result.n_replicas} replicas, "
            f"{result.n_data} points", fontsize=10.5,
        )  # fmt: skip
    return figure


def _words(row: ClosureRow) -> str:
    """Return the label of a row, plain characters: parsing formulas is slow."""
    if row.kind == "data":
        return f"all data ({row.n_data})"
    if row.kind == "x":
        low, high = (style.power_of_ten(float(word)) for word in row.name.split(" to "))
        return f"{low} < x < {high} ({row.n_data})"
    return f"{row.name} ({row.n_data})"


def _points(panel: Any, values: list[Any], y: np.ndarray, colour: str, marker: str, label: str) -> None:
    shown = np.array([measured.value for measured in values])
    errors = np.nan_to_num([measured.error for measured in values])
    panel.errorbar(shown, y, xerr=errors, fmt=marker, color=colour, ms=4.5, lw=1.3, label=label)


def _ratio_panel(panel: Any, rows: list[ClosureRow], y: np.ndarray, ideal: float) -> None:
    _points(panel, [row.averages.ratio for row in rows], y, style.colour(0), "o", "bootstrap error")
    _lines(panel, ideal, 1.0)
    panel.legend(loc="lower left", bbox_to_anchor=(0, 1), fontsize=8)
    panel.set_xlabel(r"$\sqrt{\langle\mathrm{bias}\rangle/\langle\mathrm{variance}\rangle}$")
    panel.set_xlim(left=0)


def _xi_panel(panel: Any, rows: list[ClosureRow], y: np.ndarray, ideal: float) -> None:
    _points(panel, [row.averages.inside for row in rows], y + 0.2, style.colour(0), "o", "points")
    _points(panel, [row.along for row in rows], y, style.colour(1), "s", "directions")
    _points(panel, [row.averages.expected for row in rows], y - 0.2, style.GREY, "D", "from the ratio")
    _lines(panel, ideal, 0.6827)
    panel.set_xlabel(r"$\xi_{1\sigma}$")
    panel.set_xlim(0, 1)
    handles, labels = panel.get_legend_handles_labels()
    panel.legend(handles[-3:], labels[-3:], loc="lower left", bbox_to_anchor=(0, 1), fontsize=8)


def _lines(panel: Any, ideal: float, limit: float) -> None:
    panel.axvline(limit, color=style.GREY, lw=0.9, ls=":", label="exact uncertainties")
    if np.isfinite(ideal):
        panel.axvline(ideal, color="black", lw=0.9, ls="--", label="the same, so many replicas")


def _shift_panel(panel: Any, result: ClosureTest) -> None:
    """Draw the shifts along the eigen-directions; Gaussian if the uncertainties are right."""
    shifts = result.pulls[np.isfinite(result.pulls)]
    grid = np.linspace(-_FAR, _FAR, 200)
    panel.plot(grid, np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), color="black", lw=1.2, label="unit Gaussian")
    if shifts.size:
        panel.hist(
            np.clip(shifts, -_FAR, _FAR), bins=np.linspace(-_FAR, _FAR, 25), density=True, color=style.colour(0),
            alpha=0.45, label=f"{len(result.pulls)} fits x {result.pulls.shape[1]} directions",
        )  # fmt: skip
        panel.set_title(f"mean {shifts.mean():.2f}, standard deviation {shifts.std():.2f}", fontsize=9.5)
    panel.set_xlim(-_FAR, _FAR)
    panel.set_xlabel(r"(E[$g$] $-$ law) / $\sigma$ of the replicas")
    panel.set_ylabel("density")
    panel.margins(y=0.25)
    panel.legend(loc="upper left", fontsize=8)
