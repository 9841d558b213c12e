"""The HTML report: complete, self-contained, from one replica up, whole or absent."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from fit_standin import StandInFit
from partonfit._errors import StorageError
from partonfit.results import _report
from partonfit.results._summary import replica_chi2, sum_rules, summarise

SMALL = {"HERA_NC_318GEV_EM-SIGMARED": 12, "HERA_CC_318GEV_EP-SIGMARED": 5}


@pytest.fixture
def quick(monkeypatch):
    """Draw the smallest figure in place of each real one; those are tested with the plots."""
    monkeypatch.setattr(_report.style, "png", lambda figure, dpi: b"\x89PNG")
    for name in (
        "plot_pdfs",
        "plot_ratio",
        "plot_replicas",
        "plot_chi2",
        "plot_data",
        "plot_training",
        "plot_validation",
    ):
        monkeypatch.setattr(_report, name, lambda *_, **__: None)


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.sources, self.links = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.append(tag)
        self.ids += [given["id"]] if "id" in given else []
        self.sources += [given[k] for k in ("src", "srcset") if k in given]
        self.links += [given["href"]] if "href" in given else []


@pytest.mark.parametrize("replicas", [1, 5])
def test_page_is_complete_and_fetches_nothing(quick, tmp_path, replicas):
    steps = []
    path = _report.write_report(
        StandInFit(replicas, datasets=SMALL), tmp_path / "fit.html", title="A <fit> & more",
        progress=lambda step, total, _: steps.append((step, total)),
    )  # fmt: skip
    text = path.read_text()
    page = Page(text)
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert not re.search(r"https?://|@import|url\(", text)
    assert "script" not in page.tags
    assert page.ids == ["summary", "chi2", "data", "pdfs", "rules", "training", "cuts", "provenance"]
    assert "A &lt;fit&gt; &amp; more" in text
    assert steps[-1][0] == steps[-1][1] == len(page.sources)
    for word in (*SMALL, "0123abcd", "covariance", "nan" if replicas < 0 else "Sum rules"):
        assert word in text


def test_a_real_page_holds_real_figures(tmp_path):
    fit = StandInFit(3, datasets={"HERA_CC_318GEV_EP-SIGMARED": 4})
    sections = [s for s in _report._sections(fit, (1.65,), None) if s.anchor in ("chi2", "training")]
    images = list(_report._drawn(sections, 3, None))
    assert len(images) == 3
    assert all(len(image) > 5000 for image in images)


def test_replicas_left_out_are_listed_with_their_sentence(quick, tmp_path):
    text = _report.write_report(StandInFit(5, datasets=SMALL), tmp_path / "fit.html").read_text()
    assert "replica 4: vetoed" in text
    assert "arc length of Sigma" in text


def test_existing_and_unwritable_files_are_refused_before_drawing(tmp_path, monkeypatch):
    monkeypatch.setattr(_report, "_sections", lambda *_: pytest.fail("drawing was started"))
    (tmp_path / "there.html").write_text("precious")
    for name in ("there.html", "missing/fit.html", "there.html/fit.html"):
        with pytest.raises(StorageError, match=re.escape(str(tmp_path))):
            _report.write_report(StandInFit(1), tmp_path / name)
    assert (tmp_path / "there.html").read_text() == "precious"


def test_a_failure_while_drawing_leaves_nothing_behind(quick, tmp_path, monkeypatch):
    def failing(*_, **__):
        raise RuntimeError

    monkeypatch.setattr(_report, "plot_training", failing)
    with pytest.raises(RuntimeError):
        _report.write_report(StandInFit(2, datasets=SMALL), tmp_path / "fit.html")
    assert list(tmp_path.iterdir()) == []


def test_a_fit_without_t0_has_a_report_that_leaves_t0_out(tmp_path, quick):
    class Experimental(StandInFit):
        has_t0 = False

        def chi2(self, covariance="experimental"):
            assert covariance == "experimental"
            return super().chi2(covariance)

    page = _report.write_report(Experimental(2, datasets=SMALL), tmp_path / "fit.html").read_text()
    assert "experimental covariance" in page
    assert "t<sub>0</sub>" not in page
    assert summarise(Experimental(2, datasets=SMALL)).chi2_central_t0 is None


def test_figures_of_merit_follow_their_definitions():
    fit = StandInFit(8, datasets=SMALL)
    summary = summarise(fit)
    inverse = np.linalg.inv(fit.data.covariance())
    by_hand = np.array([r @ inverse @ r for r in fit.predictions() - fit.data.values])
    np.testing.assert_allclose(replica_chi2(fit), by_hand, rtol=1e-9)
    assert summary.chi2_replicas[0] == pytest.approx(by_hand.mean() / 17)
    assert (summary.n_data, summary.n_replicas, summary.n_kept) == (17, 8, 6)
    assert summary.statuses == {"converged": 6, "vetoed": 2}


def test_phi_is_the_spread_of_the_replicas_in_units_of_the_uncertainty():
    fit = StandInFit(60, datasets=SMALL, vetoed=0)

    class Exact(StandInFit):
        def chi2(self, covariance="experimental"):
            residual = self.predictions().mean(axis=0) - self.data.values
            total = residual @ np.linalg.solve(self.data.covariance(), residual)
            return type(super().chi2())(covariance, (), (), (), float(total))

    exact = Exact(60, datasets=SMALL, vetoed=0)
    spread = fit.predictions() - fit.predictions().mean(axis=0)
    expected = np.einsum("rd,rd->r", spread, np.linalg.solve(fit.data.covariance(), spread.T).T).mean() / 17
    assert summarise(exact).phi == pytest.approx(np.sqrt(expected), rel=1e-6)


def test_sum_rules_of_the_known_pdf():
    class Toy(StandInFit):
        def xf(self, x, kept_only=True):
            from fit_standin import toy

            return toy(x)[None]

    found = {rule.name: rule for rule in sum_rules(Toy(1))}
    for rule in found.values():
        assert rule.mean == pytest.approx(rule.expected, rel=1e-4)
        assert rule.sd == 0
