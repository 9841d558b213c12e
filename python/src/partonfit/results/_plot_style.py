"""What all figures share: the lazy matplotlib import, colours, sizes and axis words.

Figures are made without pyplot, so nothing is kept in a global list, no window system is needed
and a thousand figures use no more memory than one. They show themselves in a notebook.
"""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import numpy as np

from partonfit._errors import MissingDependencyError
from partonfit._vocabulary import tex

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
"""Okabe and Ito's colours for all kinds of colour vision (jfly.uni-koeln.de/color), strongest first."""

GREY = "#6b6b6b"
_RC = {
    "font.size": 11.0,
    "axes.titlesize": 11.0,
    "axes.labelsize": 11.0,
    "legend.fontsize": 9.5,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "axes.linewidth": 0.8,
    "xtick.direction": "in",
    "ytick.direction": "in",
    "xtick.top": True,
    "ytick.right": True,
    "legend.frameon": False,
    "mathtext.fontset": "dejavusans",
    "axes.unicode_minus": True,
    "svg.hashsalt": "partonfit",
}


def matplotlib() -> Any:
    """Import matplotlib, or say how to install it."""
    try:
        import matplotlib as mpl
        import matplotlib.figure
    except ImportError as error:
        msg = "Plots need matplotlib, which is not installed. Install it with: pip install 'partonfit[report]'"
        raise MissingDependencyError(msg) from error
    return mpl


@cache
def _figure_class() -> type:
    mpl = matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    class PlotFigure(mpl.figure.Figure):
        """A matplotlib figure that a notebook can display although pyplot does not manage it."""

        def _repr_png_(self) -> bytes:
            return png(self)

        def savefig(self, *args: Any, **kwargs: Any) -> None:
            with mpl.rc_context(_RC):
                super().savefig(*args, **kwargs)

    PlotFigure.default_canvas = FigureCanvasAgg
    return PlotFigure


def new_figure(width: float, height: float, layout: str | None = "constrained") -> Any:
    """Return an empty figure of ``width`` by ``height`` inches."""
    mpl = matplotlib()
    figure_class = _figure_class()
    with mpl.rc_context(_RC):
        figure = figure_class(figsize=(width, height), layout=layout, dpi=130)
        figure_class.default_canvas(figure)
    return figure


def styled() -> Any:
    """Return the context in which axes are made and drawn."""
    return matplotlib().rc_context(_RC)


def png(figure: Any, dpi: int = 130) -> bytes:
    """Return ``figure`` as the bytes of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def panels(
    n: int,
    width: float,
    height: float,
    columns: int | None = None,
    *,
    margins: tuple[float, float, float, float] = (0.68, 0.16, 0.48, 0.2),
    header: float = 0.35,
    footer: float = 0.0,
    split: float | None = None,
) -> tuple[Any, list[Any], list[Any]]:
    """Return a figure with ``n`` equal cells, each ``width`` by ``height`` inches.

    ``margins`` are left, right, bottom and top of a cell, ``header`` and ``footer`` are kept free
    above and below all cells (inches). With ``split`` a cell has a second, lower panel of that
    share of its height. Places are computed here because matplotlib's own layout takes most of the
    time of a figure.
    """
    columns = min(n, columns or (n if n <= 3 else 2 if n == 4 else 3))
    rows = -(-n // columns)
    full_width, full_height = columns * width, rows * height + header + footer
    figure = new_figure(full_width, full_height, layout=None)
    left, right, bottom, top = margins
    upper, lower = [], []
    for i in range(n):
        row, column = divmod(i, columns)
        x, y = column * width + left, footer + (rows - 1 - row) * height + bottom
        w, h = width - left - right, height - bottom - top
        cut = 0.0 if split is None else split * h
        with styled():
            above = (x, y + cut + (0.1 if cut else 0), w, h - cut)
            upper.append(figure.add_axes(_share(above, full_width, full_height)))
            if cut:
                lower.append(figure.add_axes(_share((x, y, w, cut), full_width, full_height)))
    return figure, upper, lower


def _share(place: tuple[float, float, float, float], width: float, height: float) -> tuple[float, float, float, float]:
    """Turn a place in inches into fractions of the figure."""
    return place[0] / width, place[1] / height, place[2] / width, place[3] / height


def colour(index: int) -> str:
    """Return the colour of curve ``index``; they repeat after eight."""
    return COLOURS[index % len(COLOURS)]


def symbol(flavour: str) -> str:
    r"""Return the axis word of a flavour.

    Examples
    --------
    >>> symbol("ubar")
    '$x\\bar{u}(x)$'
    """
    word = tex(flavour)
    return rf"${word}$" if flavour == "sea" else rf"$x{word}(x)$" if len(word) < 8 else rf"$x({word})$"


def scale_words(Q: float) -> str:
    """Return the scale as text for a figure.

    Examples
    --------
    >>> scale_words(1.65)
    '$Q$ = 1.65 GeV'
    """
    return f"$Q$ = {Q:.4g} GeV"


def x_axis(axes: Any, xscale: str, x: np.ndarray) -> None:
    """Give ``axes`` the momentum-fraction axis."""
    if xscale == "log":
        log_axis(axes)
    axes.minorticks_off()  # minor ticks are two thirds of the time a figure takes
    axes.set_xlim(float(x[0]) if xscale == "log" else 0.0, 1.0)
    axes.set_xlabel("$x$")


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def power_of_ten(value: float, _: int = 0) -> str:
    """Return a power of ten in plain characters: parsing formulas is slow.

    Examples
    --------
    >>> power_of_ten(1e-4)
    '10⁻⁴'
    """
    exponent = round(float(np.log10(value)))
    return "1" if exponent == 0 else f"10{str(exponent).translate(_RAISED)}"


def log_axis(axes: Any) -> None:
    """Give ``axes`` a logarithmic x axis with decades as plain text."""
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(power_of_ten)


def legend_above(figure: Any, handles: list[Any], labels: list[str], columns: int = 4, title: str = "") -> None:
    """Put one legend above the panels, where it can cover no data."""
    with styled():
        if figure.get_layout_engine() is not None:
            place: dict[str, Any] = {"loc": "outside upper center"}
        else:
            place = {"loc": "upper center", "bbox_to_anchor": (0.5, 1.0), "borderaxespad": 0.3}
        figure.legend(handles, labels, ncols=min(columns, len(labels)), title=title or None, **place)
