"""A fit as one HTML page: everything in the file, nothing fetched from anywhere.

The order is that of the community's comparison reports: figures of merit, chi2 by dataset, data
against theory, distributions, sum rules, training, and at the end all settings and provenance.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from partonfit._errors import MissingDependencyError
from partonfit._files import check_writable, write_file
from partonfit.results import _plot_style as style
from partonfit.results._plots import plot_pdfs, plot_ratio, plot_replicas
from partonfit.results._plots_data import plot_chi2, plot_data
from partonfit.results._plots_training import plot_training, plot_validation
from partonfit.results._summary import sum_rules, summarise

FLAVOURS = ("g", "u_v", "d_v", "ubar", "dbar", "s_plus", "u", "d", "c_plus")
PROTON = ("u_v", "d_v", "g", "sea", "s_plus")
COMBINATIONS = ("Sigma", "g", "V", "V3", "V8", "T3", "T8", "T15")
_TEMPLATES = Path(__file__).parent / "templates"

Progress = Callable[[int, int, dict[str, float]], None]


@dataclass(frozen=True)
class _Figure:
    """A figure still to be drawn: one at a time, so memory stays flat however many there are."""

    caption: str
    draw: Callable[[], Any]
    dpi: int = 110
    group: str = ""


@dataclass(frozen=True)
class _Section:
    anchor: str
    title: str
    words: str
    figures: tuple[_Figure, ...]


def write_report(
    fit: Any,
    file: str | Path,
    *,
    title: str = "PDF fit",
    scales: Sequence[float] | None = None,
    to: Any = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write a self-contained HTML page about ``fit``.

    Parameters
    ----------
    fit
        The fit.
    file
        The HTML file to write; it is complete or absent afterwards.
    title
        Heading of the page.
    scales
        Scales [GeV] at which distributions are shown; Q0 and 100 GeV by default.
    to
        Another fit, LHAPDF folder or PDF to lay beside it.
    overwrite
        Replace a file that is already there.
    progress
        Called as ``progress(figure, figures, {})`` after every figure.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    StorageError
        When the file exists or cannot be written; before any figure is drawn.
    MissingDependencyError
        When jinja2 or matplotlib is not installed.
    """
    path = check_writable(file, overwrite=overwrite)
    template = _template()
    style.matplotlib()
    sections = _sections(fit, tuple(scales or (fit.q0, 100.0)), to)
    total = sum(len(section.figures) for section in sections)
    drawn = iter(_drawn(sections, total, progress))
    page = template.render(
        title=title,
        made=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        summary=summarise(fit),
        chi2=_chi2_rows(fit),
        rules=sum_rules(fit),
        dropped=[s for s, keep in zip(fit.statuses, fit.kept, strict=True) if not keep],
        datasets=fit.data.datasets,
        sections=sections,
        image=lambda _: next(drawn),
        q0=fit.q0,
        settings=_readable(fit.settings),
        provenance=_readable(_without_long(fit.provenance)),
    )
    return write_file(path, page, overwrite=overwrite)


def _template() -> Any:
    try:
        import jinja2
    except ImportError as error:
        msg = "The report needs jinja2, which is not installed. Install it with: pip install 'partonfit[report]'"
        raise MissingDependencyError(msg) from error
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = _number
    environment.filters["spread"] = lambda pair, digits=3: f"{_number(pair[0], digits)} ± {_number(pair[1], digits)}"
    return environment.get_template("report.html.j2")


def _chi2_rows(fit: Any) -> list[dict[str, Any]]:
    """Return name, points and chi2 per point with each covariance that there is, one row for each dataset."""
    tables = {word: fit.chi2(word) for word in ("experimental", "t0") if word == "experimental" or fit.has_t0}
    first = tables["experimental"]
    return [
        {"name": name, "n_data": n} | {word: table.chi2[i] / n for word, table in tables.items()}
        for i, (name, n) in enumerate(zip(first.dataset, first.n_data, strict=True))
    ]


def _drawn(sections: Sequence[_Section], total: int, progress: Progress | None) -> Iterator[str]:
    done = 0
    for section in sections:
        for figure in section.figures:
            data = base64.b64encode(style.png(figure.draw(), dpi=figure.dpi)).decode()
            done += 1
            if progress is not None:
                progress(done, total, {})
            yield f"data:image/png;base64,{data}"


def _sections(fit: Any, scales: tuple[float, ...], to: Any) -> list[_Section]:
    """Return what is drawn, in the order of the page."""
    data = tuple(
        _Figure(f"{name}, {words}", partial(plot_data, fit, dataset=name, normalised=kind), 80, name)
        for name in fit.data.names
        for kind, words in ((None, "absolute"), ("theory", "divided by the fit"))
    )
    training = (
        _Figure("χ² per point against the epoch", partial(plot_training, fit)),
        _Figure("Training against validation at the best epoch", partial(plot_validation, fit)),
    )
    return [
        _Section(
            "chi2", "χ² by dataset", "Central member; the figure has the experimental covariance.",
            (_Figure("χ² per point of every dataset", partial(plot_chi2, fit)),),
        ),
        _Section("data", "Data against theory", _DATA_WORDS, data),
        _Section("pdfs", "Parton distributions", _PDF_WORDS, tuple(_pdf_figures(fit, scales, to))),
        _Section("training", "Training", "", training),
    ]  # fmt: skip


_PDF_WORDS = (
    "Filled: central 68 % interval of the replicas. Dashed: mean ± one standard deviation. Line: mean (member 0)."
)
_DATA_WORDS = (
    "Thick error bars are uncorrelated, thin ones total uncertainties; correlated shifts are not applied, so a "
    "common offset within the thin bars is no disagreement. Band: mean ± one standard deviation of the replicas."
)


def _pdf_figures(fit: Any, scales: tuple[float, ...], to: Any) -> Iterator[_Figure]:
    reference, words = ("central", "Relative uncertainty") if to is None else (to, "Ratio to the reference")
    for scale in scales:
        at = f"at Q = {scale:g} GeV"
        proton = partial(plot_pdfs, fit, PROTON, Q=scale, overlay=True, x_min=1e-4)
        yield _Figure(f"The proton {at}", proton)
        for axis, word in (("log", "logarithmic"), ("linear", "linear")):
            bands = partial(plot_pdfs, fit, FLAVOURS, Q=scale, xscale=axis, to=to)
            yield _Figure(f"Flavours {at}, {word} x", bands, 90)
        yield _Figure(f"{words} {at}", partial(plot_ratio, fit, FLAVOURS, Q=scale, to=reference), 90)
    yield _Figure(f"Evolution basis at Q = {fit.q0:g} GeV", partial(plot_pdfs, fit, COMBINATIONS), 90)
    yield _Figure(f"Replicas at Q = {fit.q0:g} GeV", partial(plot_replicas, fit, COMBINATIONS), 90)


def _number(value: float, digits: int = 3) -> str:
    """Return ``value`` with ``digits`` decimals, whole numbers and NaN as they are."""
    if math.isnan(value):
        return "–"
    return str(value) if isinstance(value, int) else f"{value:.{digits}f}"


def _readable(value: Any) -> str:
    return json.dumps(value, indent=2, default=str, ensure_ascii=False)


def _without_long(values: dict[str, Any], longest: int = 60) -> dict[str, Any]:
    """Replace long lists of numbers, which nobody reads, by their length."""
    return {
        key: f"{len(value)} numbers, stored with the fit" if isinstance(value, list) and len(value) > longest else value
        for key, value in values.items()
    }
