"""A comparison of two fits as one HTML page: tables and figures, nothing fetched from anywhere."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from partonfit._files import check_writable, write_file
from partonfit.results import _plot_style as style

if TYPE_CHECKING:
    from partonfit.results._comparison import FitComparison

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 16px/1.5 system-ui, "DejaVu Sans", sans-serif; max-width: 68rem; margin: 0 auto; padding: 1.5rem; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .3rem .9rem .3rem 0; text-align: right; border-bottom: 1px solid #dfe3e8; }}
th:first-child, td:first-child {{ text-align: left; }}
img {{ max-width: 100%; }} figcaption, .soft {{ color: #565d66; }}
</style></head><body><h1>{title}</h1>
"""


def write_comparison(result: FitComparison, file: str | Path, *, overwrite: bool = False) -> Path:
    """Write a self-contained HTML page about a comparison of two fits.

    Parameters
    ----------
    result
        The comparison.
    file
        The page; it is complete or absent afterwards.
    overwrite
        Replace a file that is already there.

    Raises
    ------
    StorageError
        When the file exists or cannot be written; before any figure is drawn.
    """
    path = check_writable(file, overwrite=overwrite)
    first, second = (escape(label) for label in result.labels)
    by_flavour = [
        (name, f"{central.mean():.2f}", f"{variance.mean():.2f}")
        for name, central, variance in zip(result.flavours, result.central, result.variance, strict=True)
    ]
    chi2 = [
        (name, *(f"{n}" for n in counts), *(f"{value:.3f}" if np.isfinite(value) else "–" for value in values))
        for name, counts, values in zip(result.dataset, result.n_data, result.chi2, strict=True)
    ]
    page = [
        _HEAD.format(title=f"{first} and {second}"),
        f"<p class='soft'>{result.replicas[0]} and {result.replicas[1]} replicas.</p>",
        "<h2>χ² per point</h2><p>Central members, experimental covariance.</p>",
        _table(("dataset", f"N, {first}", f"N, {second}", first, second), chi2),
        _figure(result.plot("chi2"), "χ² per point by dataset"),
        "<h2>Distances</h2><p>Differences of means and of variances in units of their statistical errors "
        "(arXiv:1002.4407, appendix A). Replicas of one distribution have a squared distance of 1 on average.</p>",
        _table(("flavour", "mean d² of the means", "mean d² of the variances"), by_flavour),
        _figure(result.plot("distances"), f"Distances at Q = {result.Q:g} GeV"),
        "<h2>Ratio</h2>",
        *(_figure(result.plot("ratio", xscale=axis), f"Ratio to {first}, {word} x")
          for axis, word in (("log", "logarithmic"), ("linear", "linear"))),
        "</body></html>\n",
    ]  # fmt: skip
    return write_file(path, "\n".join(page), overwrite=overwrite)


def _table(headings: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    head = "".join(f"<th>{word}</th>" for word in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _figure(figure: Any, caption: str) -> str:
    data = base64.b64encode(style.png(figure, dpi=100)).decode()
    image = f"<img alt='{caption}' src='data:image/png;base64,{data}'>"
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
