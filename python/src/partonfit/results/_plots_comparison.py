"""Figures that lay two fits side by side: distances over x, chi2 by dataset, ratios."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from partonfit._errors import SettingError, nearest
from partonfit.results import _plot_style as style
from partonfit.results._plots import plot_ratio

if TYPE_CHECKING:
    from partonfit.results._comparison import FitComparison


def plot_comparison(result: FitComparison, type: str = "distances", **options: Any) -> Any:
    """Draw a comparison; see :meth:`FitComparison.plot`."""
    if type not in _KINDS:
        msg = f"Unknown kind of plot {type!r}. {nearest(str(type), _KINDS, what='kind')}"
        raise SettingError(msg)
    return _KINDS[type](result, **options)


def plot_distances(result: FitComparison) -> Any:
    """Draw the distances d of means and variances over x, one line for each flavour.

    The dashed line is d = 1, what replicas of one distribution have on average.
    """
    figure = style.new_figure(10.4, 4.2)
    with style.styled():
        panels = figure.subplots(1, 2)
        parts = ((result.central, "of the means"), (result.variance, "of the variances"))
        handles: list[Any] = []
        for panel, (squared, words) in zip(panels, parts, strict=True):
            handles = [
                panel.plot(result.x, np.sqrt(row), color=style.colour(i), lw=1.5)[0] for i, row in enumerate(squared)
            ]
            panel.axhline(1.0, color=style.GREY, lw=0.9, ls="--")
            style.x_axis(panel, "log", result.x)
            panel.set_ylabel(f"distance {words}")
            panel.set_ylim(bottom=0)
    labels = [style.symbol(name) for name in result.flavours]
    title = f"{result.labels[0]} ({result.replicas[0]}) and {result.labels[1]} ({result.replicas[1]}), "
    style.legend_above(figure, handles, labels, columns=8, title=title + style.scale_words(result.Q))
    return figure


def plot_chi2_pairs(result: FitComparison) -> Any:
    """Draw chi2 per point of both, a pair of bars for each dataset and for all data."""
    y = np.arange(len(result.dataset))[::-1]
    figure = style.new_figure(8.4, 1.4 + 0.5 * len(y))
    with style.styled():
        panel = figure.subplots()
        bars = [
            panel.barh(y + 0.2 - 0.4 * k, np.nan_to_num(result.chi2[:, k]), height=0.36, color=style.colour(k))
            for k in range(2)
        ]
        panel.axvline(1.0, color=style.GREY, lw=0.8, ls=":")
        panel.set_yticks(y, result.dataset, fontsize=8.5)
        panel.tick_params(axis="y", which="both", left=False, right=False)
        panel.set_xlabel(r"$\chi^2/N$ (experimental covariance)")
    style.legend_above(figure, bars, list(result.labels))
    return figure


def plot_ratios(result: FitComparison, *, flavours: Any = None, xscale: str = "log") -> Any:
    """Draw bands of both divided by the mean of the first."""
    first, second = result.fits
    names = list(result.flavours) if flavours is None else flavours
    return plot_ratio(
        second, names, to=_Named(first, result.labels[0]), Q=result.Q, xscale=xscale, label=result.labels[1]
    )


class _Named:
    """A fit with the label it has in this comparison."""

    def __init__(self, fit: Any, name: str) -> None:
        self.name, self.q0, self.predict = name, fit.q0, fit.predict


_KINDS = {"distances": plot_distances, "chi2": plot_chi2_pairs, "ratio": plot_ratios}
