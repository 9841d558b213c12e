"""Figures: every kind can be drawn, from one replica up, and wrong requests say what is wrong."""

import numpy as np
import pytest
from fit_standin import StandInFit, toy
from partonfit._errors import MissingDependencyError, SettingError
from partonfit.results import _plot_style as style
from partonfit.results import _plots as plots
from partonfit.results._plots_data import MAX_PANELS, _groups, _points

SMALL = {"HERA_NC_318GEV_EM-SIGMARED": 30, "HERA_CC_318GEV_EP-SIGMARED": 8}
KINDS = ("pdfs", "ratio", "replicas", "chi2", "data", "training", "validation")


def drawn(figure):
    """Draw for real: many mistakes only show then."""
    content = style.png(figure, dpi=40)
    assert content.startswith(b"\x89PNG")
    return figure


@pytest.fixture(scope="module")
def fit():
    return StandInFit(6, datasets=SMALL)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("replicas", [1, 2])
def test_every_kind_of_plot_works_from_one_replica_up(kind, replicas):
    options = {"flavours": ["g"]} if kind in ("pdfs", "ratio", "replicas") else {}
    drawn(plots.plot(StandInFit(replicas, datasets=SMALL), type=kind, **options))


@pytest.mark.parametrize("xscale", ["log", "linear"])
def test_ratio_panel_to_another_fit(fit, xscale):
    figure = drawn(plots.plot(fit, ["g", "u"], to=StandInFit(4, seed=9), ratio_panel=True, xscale=xscale, Q=100))
    assert len(figure.axes) == 4


def test_overlay_has_one_panel(fit):
    assert len(drawn(plots.plot(fit, overlay=True)).axes) == 1


def test_ratio_to_a_plain_function_is_right(fit):
    figure = plots.plot_ratio(fit, "g", to=toy)
    mean = next(line for line in figure.axes[0].lines if line.get_linewidth() == 1.6 and line.get_color() == "#0072B2")
    x = mean.get_xdata()
    expected = fit.predict(x, flavour="g").mean[0] / toy(x)[2]
    np.testing.assert_allclose(mean.get_ydata(), expected, rtol=1e-12)


def test_band_is_the_68_percent_interval_and_outline_one_sigma(fit):
    figure = plots.plot_pdfs(fit, "g")
    panel = figure.axes[0]
    prediction = fit.predict(panel.lines[0].get_xdata(), flavour="g")
    outline = [line.get_ydata() for line in panel.lines if line.get_linestyle() == "--"]
    np.testing.assert_allclose(outline[0], prediction.mean[0] - prediction.sd[0])
    np.testing.assert_allclose(outline[1], prediction.mean[0] + prediction.sd[0])
    corners = panel.collections[0].get_paths()[0].vertices[:, 1]
    assert corners.max() == pytest.approx(prediction.upper.max())


def test_a_function_has_no_other_scale(fit):
    with pytest.raises(SettingError, match="leave out Q"):
        plots.plot_pdfs(fit, "g", to=toy, Q=100)


def test_unknown_names_suggest_the_nearest(fit):
    with pytest.raises(SettingError, match="'u_v'"):
        plots.plot(fit, ["u_w"])
    with pytest.raises(SettingError, match="'replicas'"):
        plots.plot(fit, type="replica")
    with pytest.raises(SettingError, match="HERA_CC_318GEV_EP-SIGMARED"):
        plots.plot(fit, type="data", dataset="HERA_CC_318GEV_EP-SIGMARD")


@pytest.mark.parametrize("options", [{"xscale": "lin"}, {"x_min": 0}, {"flavours": []}, {"to": 3}])
def test_bad_options_are_named(fit, options):
    flavours = options.pop("flavours", ["g"])
    with pytest.raises(SettingError):
        plots.plot(fit, flavours, **options)


def test_flavours_are_refused_where_they_have_no_meaning(fit):
    with pytest.raises(SettingError, match="has no flavours"):
        plots.plot(fit, ["g"], type="chi2")


@pytest.mark.parametrize("normalised", [None, "theory", "data"])
def test_data_panels_hold_every_point_once(fit, normalised):
    figure = drawn(plots.plot_data(fit, normalised=normalised))
    shown = sum(len(line.get_xdata()) for axes in figure.axes for line in axes.lines if line.get_marker() == "o")
    assert shown == 30


def test_many_scales_are_thinned_out_and_said():
    fit = StandInFit(3, datasets={"HERA_NC_318GEV_EP-SIGMARED": 600})
    groups = _groups(_points(fit, None))
    assert len(groups) <= MAX_PANELS
    left_out = 600 - sum(len(rows) for _, rows in groups)
    legend = plots.plot_data(fit).legends[0]
    assert f"{left_out} points" in legend.get_title().get_text()


def test_history_of_a_replica_that_diverged_at_once_can_be_drawn(fit):
    class Empty(StandInFit):
        @property
        def history(self):
            nothing = np.full((6, 1), np.nan)
            return {"epoch": np.array([0.0]), "training": nothing, "validation": nothing}

    drawn(plots.plot(Empty(6, datasets=SMALL), type="training"))


def test_figures_are_not_kept_by_pyplot(fit):
    import matplotlib.pyplot as plt

    plots.plot(fit, ["g"])
    assert plt.get_fignums() == []


def test_a_notebook_can_show_the_figure(fit):
    assert plots.plot(fit, ["g"])._repr_png_().startswith(b"\x89PNG")


def test_missing_matplotlib_says_what_to_install(monkeypatch, fit):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"partonfit\[report\]"):
        plots.plot(fit, ["g"])
