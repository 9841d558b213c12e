"""Figures of parton distributions: bands, ratios and replicas.

Conventions, those of the community's reports: the filled band is the central 68 % interval of the
replicas, the dashed outline is mean +- one standard deviation, the line is the mean (member 0).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from partonfit._errors import SettingError, nearest
from partonfit._vocabulary import combination, rotation
from partonfit.results import _plot_style as style
from partonfit.results._plots_data import plot_chi2, plot_data
from partonfit.results._plots_training import plot_training, plot_validation

DEFAULT_FLAVOURS = ("g", "u_v", "d_v", "sea")
_N_X = 160
_X_MIN = 1e-5
_SCALES = ("log", "linear")


@dataclass(frozen=True)
class _Curves:
    """What is drawn for one PDF: arrays (flavour, x), replicas (replica, flavour, x)."""

    label: str
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    sd: np.ndarray
    replicas: np.ndarray

    @property
    def has_band(self) -> bool:
        # One replica has no spread to draw (its error bars once came out negative elsewhere).
        return len(self.replicas) > 1


def plot(fit: Any, flavours: str | Sequence[str] | None = None, *, type: str = "pdfs", **options: Any) -> Any:
    """Draw a fit.

    Parameters
    ----------
    fit
        A :class:`PDFFit`, or for PDFs anything with its ``predict``, as :func:`read_lhapdf` returns.
    flavours
        Names such as ``"g"``, ``"u_v"``, ``"sea"``, ``"T8"``; for PDFs, ratios and replicas.
    type
        ``"pdfs"``, ``"ratio"``, ``"replicas"``, ``"chi2"``, ``"data"``, ``"training"`` or ``"validation"``.
    **options
        Passed on: ``Q`` [GeV], ``xscale``, ``to`` for PDFs; ``dataset``, ``normalised`` for data.

    Returns
    -------
    matplotlib.figure.Figure
        Save it with ``.savefig("name.pdf")``; a notebook shows it.

    Raises
    ------
    SettingError
        When the kind of plot, a flavour or an option is unknown.
    MissingDependencyError
        When matplotlib is not installed.
    """
    if type not in _KINDS:
        msg = f"Unknown kind of plot {type!r}. {nearest(str(type), _KINDS, what='kind')}"
        raise SettingError(msg)
    takes_flavours, draw = _KINDS[type]
    if takes_flavours:
        options["flavours"] = flavours
    elif flavours is not None:
        msg = f"A plot of type {type!r} has no flavours; leave them out."
        raise SettingError(msg)
    return draw(fit, **options)


def plot_pdfs(
    fit: Any,
    flavours: str | Sequence[str] | None = None,
    *,
    Q: float | None = None,
    xscale: str = "log",
    to: Any = None,
    x_min: float = _X_MIN,
    overlay: bool = False,
    ratio_panel: bool = False,
    label: str | None = None,
) -> Any:
    """Draw bands of x f(x, Q), one panel for each flavour.

    Parameters
    ----------
    fit
        The fit (or LHAPDF set) to draw.
    flavours
        Names of flavours; gluon, valence and sea by default.
    Q
        Scale [GeV]; the fit's own scale by default.
    xscale
        ``"log"`` or ``"linear"``.
    to
        Another fit, LHAPDF set (object or folder) or callable PDF to draw beside it.
    x_min
        Where a logarithmic axis begins.
    overlay
        Draw all flavours in one panel instead.
    ratio_panel
        Add a lower panel with the ratio to ``to`` (to the fit's own mean when there is none).
    label
        Name of the fit in the legend.
    """
    names, scale, x = _checked(fit, flavours, Q, xscale, x_min)
    curves = [_curves(fit, names, scale, x, label or "this fit")]
    if to is not None:
        curves.append(_curves(to, names, scale, x, _label_of(to)))
    if overlay:
        return _draw_overlay(curves[0], names, scale, x, xscale)
    if not ratio_panel:
        figure, axes, _ = style.panels(len(names), 4.3, 3.4)
        _draw_panels(axes, curves, names, x, xscale)
        return _finish(figure, curves, scale)
    columns = 4 if len(names) % 3 else 3
    figure, upper, lower = style.panels(len(names), 3.6, 4.2, columns, split=0.28)
    _draw_panels(upper, curves, names, x, xscale)
    _draw_panels(lower, _ratios(curves), names, x, xscale, ratio="it")
    for above, below in zip(upper, lower, strict=True):
        above.set_xlabel("")
        above.tick_params(labelbottom=False)
        below.set_title("", loc="left")
        below.set_ylabel("ratio")
    return _finish(figure, curves, scale)


def plot_ratio(
    fit: Any,
    flavours: str | Sequence[str] | None = None,
    *,
    to: Any = "central",
    Q: float | None = None,
    xscale: str = "log",
    x_min: float = 1e-4,
    label: str | None = None,
) -> Any:
    """Draw bands of the fit divided by a reference; see :func:`plot_pdfs` for the arguments.

    ``to="central"`` divides by the fit's own mean and so shows the relative uncertainty.
    """
    names, scale, x = _checked(fit, flavours, Q, xscale, x_min)
    curves = [_curves(fit, names, scale, x, label or "this fit")]
    own = isinstance(to, str) and to == "central"
    if not own:
        curves.append(_curves(to, names, scale, x, _label_of(to)))
    figure, axes, _ = style.panels(len(names), 4.3, 3.2)
    _draw_panels(axes, _ratios(curves), names, x, xscale, ratio="mean" if own else curves[-1].label)
    return _finish(figure, curves, scale)


def plot_replicas(
    fit: Any,
    flavours: str | Sequence[str] | None = None,
    *,
    Q: float | None = None,
    xscale: str = "log",
    x_min: float = _X_MIN,
) -> Any:
    """Draw every kept replica as a thin line under the mean; see :func:`plot_pdfs`."""
    names, scale, x = _checked(fit, flavours, Q, xscale, x_min)
    curves = _curves(fit, names, scale, x, "replicas")
    figure, axes, _ = style.panels(len(names), 4.3, 3.4)
    with style.styled():
        for i, (panel, name) in enumerate(zip(axes, names, strict=True)):
            alpha = float(np.clip(6 / np.sqrt(len(curves.replicas)) / 4, 0.12, 0.8))
            thin = panel.plot(x, curves.replicas[:, i].T, color=style.colour(0), lw=0.7, alpha=alpha)
            (line,) = panel.plot(x, curves.mean[i], color="black", lw=1.6)
            _dress(panel, name, x, xscale)
            _limits(panel, curves.replicas[:, i], x, xscale, ratio=False)
        thin[0].set_label("replica")
        words = [f"{len(curves.replicas)} replicas", "mean"]
    style.legend_above(figure, [thin[0], line], [f"{words[0]}, {style.scale_words(scale)}", words[1]])
    return figure


def _checked(
    fit: Any, flavours: str | Sequence[str] | None, Q: float | None, xscale: str, x_min: float
) -> tuple[tuple[str, ...], float, np.ndarray]:
    names = DEFAULT_FLAVOURS if flavours is None else (flavours,) if isinstance(flavours, str) else tuple(flavours)
    if not names:
        msg = "flavours is empty: name at least one, for instance flavours=['g']."
        raise SettingError(msg)
    for name in names:
        combination(name)
    if xscale not in _SCALES:
        msg = f"xscale must be 'log' or 'linear', not {xscale!r}."
        raise SettingError(msg)
    if not 0 < x_min < 1:
        msg = f"x_min must lie between 0 and 1, not {x_min!r}."
        raise SettingError(msg)
    scale = float(fit.q0 if Q is None else Q)
    x = np.geomspace(x_min, 0.98, _N_X) if xscale == "log" else np.linspace(0.005, 0.98, _N_X)
    return names, scale, x


def _label_of(source: Any) -> str:
    if isinstance(source, str | Path):
        return Path(source).name
    return str(getattr(source, "name", None) or "reference")


def _curves(source: Any, names: tuple[str, ...], scale: float, x: np.ndarray, label: str) -> _Curves:
    """Evaluate a fit, a set on disk or a callable PDF on ``x``."""
    if isinstance(source, str | Path):
        from partonfit.results._lhapdf_reader import read_lhapdf

        source = read_lhapdf(source)
    if hasattr(source, "predict"):
        p = source.predict(x, flavour=list(names), Q=scale)
        shape = (len(names), len(x))
        replicas = np.reshape(p.replicas, (-1, *shape))
        mean, lower, upper, sd = (np.reshape(a, shape) for a in (p.mean, p.lower, p.upper, p.sd))
        return _Curves(label, mean, lower, upper, sd, replicas)
    if not callable(source):
        msg = f"Cannot draw {source!r}: expected a fit, an LHAPDF folder or a function pdf(x) -> (14, x)."
        raise SettingError(msg)
    if not np.isclose(scale, _q0_of(source)):
        msg = f"A plain function gives the PDF at Q0 only, so it cannot be drawn at Q = {scale:g} GeV; leave out Q."
        raise SettingError(msg)
    mean = rotation(names) @ np.asarray(source(x))
    return _Curves(label, mean, mean, mean, np.zeros_like(mean), mean[None])


def _q0_of(source: Any) -> float:
    from partonfit._vocabulary import Q0

    return float(getattr(source, "q0", Q0))


def _ratios(curves: list[_Curves]) -> list[_Curves]:
    """Divide all curves by the mean of the last (NaN where that vanishes)."""
    reference = curves[-1].mean.copy()
    reference[np.abs(reference) < 1e-12] = np.nan

    def divide(c: _Curves) -> _Curves:
        # A negative reference turns the interval round.
        low, high = c.lower / reference, c.upper / reference
        return _Curves(
            c.label, c.mean / reference, np.fmin(low, high), np.fmax(low, high),
            c.sd / np.abs(reference), c.replicas / reference,
        )  # fmt: skip

    return [divide(c) for c in curves]


def _draw_panels(
    axes: Sequence[Any],
    curves: list[_Curves],
    names: tuple[str, ...],
    x: np.ndarray,
    xscale: str,
    ratio: str = "",
) -> None:
    with style.styled():
        for i, (panel, name) in enumerate(zip(axes, names, strict=True)):
            # The reference goes underneath, so the fit's own band stays visible.
            for k in reversed(range(len(curves))):
                _band(panel, curves[k], i, x, k)
            _dress(panel, name, x, xscale, ratio)
            _limits(panel, np.concatenate([_extent(c, i) for c in curves]), x, xscale, ratio=bool(ratio))


def _extent(curves: _Curves, i: int) -> np.ndarray:
    return np.stack([curves.mean[i], curves.lower[i], curves.upper[i]])


def _band(panel: Any, curves: _Curves, i: int, x: np.ndarray, k: int) -> None:
    colour = style.colour(k)
    if curves.has_band:
        panel.fill_between(x, curves.lower[i], curves.upper[i], color=colour, alpha=0.28, lw=0)
        for sign in (-1, 1):
            panel.plot(x, curves.mean[i] + sign * curves.sd[i], color=colour, lw=0.8, ls=(0, (4, 2)))
    panel.plot(x, curves.mean[i], color=colour, lw=1.6)


def _dress(panel: Any, name: str, x: np.ndarray, xscale: str, ratio: str = "") -> None:
    style.x_axis(panel, xscale, x)
    panel.set_ylabel(style.symbol(name) if not ratio else f"ratio to {ratio}")
    if ratio:
        panel.set_title(style.symbol(name).replace("(x)", ""), loc="left", pad=3)
    panel.axhline(1.0 if ratio else 0.0, color=style.GREY, lw=0.6, zorder=0)


def _limits(panel: Any, values: np.ndarray, x: np.ndarray, xscale: str, *, ratio: bool) -> None:
    """Choose y limits from what matters: not from the exploding ratio near x = 1."""
    seen = (x < 0.5) if ratio else (x > 0.04) if xscale == "linear" else np.ones_like(x, dtype=bool)
    inside = values[:, seen]
    inside = inside[np.isfinite(inside)]
    if inside.size == 0:
        return
    low, high = np.quantile(inside, [0.02, 0.98]) if ratio else (inside.min(), inside.max())
    if ratio:
        low, high = max(float(low), -1.0), min(float(high), 3.0)
        half = max(1.15 * (high - 1), 1.15 * (1 - low), 0.02)
        low, high = 1 - half, 1 + half
    margin = 0.0 if ratio else 0.07 * (high - low or 1.0)
    panel.set_ylim(low - margin, high + margin)


def _draw_overlay(curves: _Curves, names: tuple[str, ...], scale: float, x: np.ndarray, xscale: str) -> Any:
    """All flavours in one panel; the gluon and the sea are divided by ten, as is the custom."""
    figure = style.new_figure(7.2, 5.0)
    with style.styled():
        panel = figure.subplots()
        handles, labels = [], []
        for i, name in enumerate(names):
            factor = 0.1 if name in ("g", "sea", "Sigma") else 1.0
            colour = style.colour(i)
            if curves.has_band:
                panel.fill_between(x, factor * curves.lower[i], factor * curves.upper[i], color=colour, alpha=0.3, lw=0)
            handles += panel.plot(x, factor * curves.mean[i], color=colour, lw=1.7)
            labels.append(style.symbol(name) + ("/10" if factor < 1 else ""))
        style.x_axis(panel, xscale, x)
        panel.set_ylabel("$x f(x)$")
        top = np.max([0.1 if n in ("g", "sea", "Sigma") else 1.0 for n in names] * curves.upper.max(axis=1))
        panel.set_ylim(0 if curves.lower.min() > -0.05 else None, min(1.08 * top, 1.1) if xscale == "log" else None)
        panel.set_title(f"{style.scale_words(scale)},  {_band_words(curves)}", loc="right", fontsize=9.5)
    style.legend_above(figure, handles, labels, columns=6)
    return figure


def _band_words(curves: _Curves) -> str:
    n = len(curves.replicas)
    return f"68 % band of {n} replicas" if curves.has_band else "one replica"


def _finish(figure: Any, curves: list[_Curves], scale: float) -> Any:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    labels = []
    for k, c in enumerate(curves):
        handles.append(
            Patch(facecolor=style.colour(k), alpha=0.35) if c.has_band else Line2D([], [], color=style.colour(k))
        )
        labels.append(f"{c.label}, {style.scale_words(scale)}" if k == 0 else c.label)
    if any(c.has_band for c in curves):
        handles.append(Line2D([], [], color=style.GREY, lw=0.8, ls=(0, (4, 2))))
        labels.append(r"band: 68 %, dashed: mean $\pm$ 1$\sigma$")
    style.legend_above(figure, handles, labels)
    return figure


_KINDS: dict[str, tuple[bool, Callable[..., Any]]] = {
    "pdfs": (True, plot_pdfs),
    "ratio": (True, plot_ratio),
    "replicas": (True, plot_replicas),
    "chi2": (False, plot_chi2),
    "data": (False, plot_data),
    "training": (False, plot_training),
    "validation": (False, plot_validation),
}
