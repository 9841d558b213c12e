"""Building tables: integration, grouping, resuming, refusals; and the proof that the tables are right."""

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from partonfit._errors import MissingDependencyError, SettingError, StorageError, TheoryError
from partonfit._vocabulary import EVOLUTION
from partonfit.models._toy import toy_pdf
from partonfit.theory import read_table
from partonfit.theory.building import (
    _assemble,
    _build,
    _environment,
    _groups,
    _requests,
    _run,
    _schemes,
    build,
    check,
    info,
)
from partonfit.theory.evolution import _contour, default_card, evolve
from scipy.integrate import quad

sys.path.insert(0, str(_run.WORKER))
import itertools

import quadrature

GOLDEN = Path(__file__).parents[1] / "golden" / "yadism_points.npz"


def _areas(x):
    """Basis functions in eko's form: for each, rows of (ln xmin, ln xmax, coefficients of ln x)."""
    basis, log = _contour.Basis(x), np.log(x)
    areas = [[] for _ in x]
    for i, first in enumerate(basis._first):
        for k in range(5):
            local = np.polynomial.Polynomial(basis._coefficients[i][:, k])
            shifted = local(np.polynomial.Polynomial([-log[i], 1.0])).coef
            areas[first + k].append([log[i], log[i + 1], *np.pad(shifted, (0, 5 - len(shifted)))])
    return [np.array(rows) for rows in areas]


@pytest.mark.parametrize("z_max", [1.0, 0.6])
def test_product_integration_equals_adaptive_quadrature(z_max):
    """A regular function with logarithms at both ends and a plus distribution."""
    x_grid = np.geomspace(1e-3, 1, 12)
    basis = quadrature.Basis(x_grid, _areas(x_grid))
    panels = quadrature.Panels(z_max)
    x = 0.05

    def reg(z):
        return np.log(z) ** 2 * np.log1p(-z / z_max) / z

    def sing(z):
        return np.log1p(-z) / (1 - z) if z_max == 1 else 0.0

    regular, singular = panels.matrices(x, basis)
    ours = regular @ [reg(z) for z in panels.nodes] + singular @ [sing(z) for z in panels.nodes]
    for j in (6, 8, 11):
        at_x = basis(np.array([x]))[0, j]

        def integrand(z, j=j, at_x=at_x):
            f = basis(np.array([x / z]))[0, j] / z
            return reg(z) * f + sing(z) * (f - at_x)

        cuts = sorted({x, z_max * (1 - 1e-11), *[x / g for g in x_grid if x < x / g < z_max]})
        pieces = [quad(integrand, a, b, epsabs=1e-12, limit=200)[0] for a, b in itertools.pairwise(cuts)]
        assert ours[j] == pytest.approx(sum(pieces), rel=3e-7, abs=1e-9)


def test_worker_runs_without_partonfit():
    for file in _run.WORKER.glob("*.py"):
        assert "import partonfit" not in file.read_text()
        assert "from partonfit" not in file.read_text()


def test_every_point_above_the_lowest_scale_is_in_one_group(tmp_path):
    requests = _requests.hera()
    groups = _groups.groups(requests, _schemes.scheme("fonll-c"), tmp_path)
    grouped = {(g.probe, point) for g in groups for point in g.points}
    wanted = {(r.probe, point) for r in requests for point, there in zip(r.points, r.computed, strict=True) if there}
    assert grouped == wanted
    assert sum(len(r.points) for r in requests) == 1306
    assert len({g.file for g in groups}) == len(groups)
    other = _groups.groups(requests, _schemes.scheme("zm-vfns"), tmp_path)
    assert not {g.file for g in groups} & {g.file for g in other}


def _fake_group(folder, q2=10.0):
    return _groups.Group(
        folder / f"g{q2:g}.npz", _groups.Probe("XSHERANC", "NC", "positron"), ((0.01, q2, 0.1), (0.1, q2, 0.01))
    )


def _save(group, scale=1.0):
    values = np.full((len(group.points), 3, 14, 50), scale)
    np.savez(group.file, values=values, orders=np.arange(3), pids=np.arange(14), points=np.array(group.points))


@pytest.mark.parametrize("damage", ["truncated", "nan", "other points", "absent"])
def test_damaged_partial_results_are_not_used(tmp_path, damage):
    group = _fake_group(tmp_path)
    _save(group, np.nan if damage == "nan" else 1.0)
    if damage == "truncated":
        group.file.write_bytes(group.file.read_bytes()[:-100])
    elif damage == "other points":
        group = dataclasses.replace(group, points=((0.02, 10.0, 0.1), (0.1, 10.0, 0.01)))
    elif damage == "absent":
        group.file.unlink()
    assert _run.finished([group]) == []
    assert not group.file.exists()


_FAKE_WORKER = """
import json, sys
import numpy as np
job = json.load(open(sys.argv[1]))
missing = [g for g in job["groups"] if not __import__("os").path.exists(g["file"])]
for k, g in enumerate(missing, 1):
    if g["points"][0]["Q2"] == 666.0:
        sys.exit("ArithmeticError: no such luck")
    points = [[p["x"], p["Q2"], p["y"]] for p in g["points"]]
    np.savez(g["file"], values=np.ones((len(points), 3, 14, 50)), orders=np.arange(3),
             pids=np.arange(14), points=np.array(points))
    print(json.dumps({"event": "group", "done": k, "missing": len(missing), "points": 2,
                      "q2": g["points"][0]["Q2"], "seconds": 0.5}), flush=True)
"""


@pytest.fixture
def fake_worker(tmp_path, monkeypatch):
    script = tmp_path / "worker.py"
    script.write_text(_FAKE_WORKER)
    monkeypatch.setattr(_run, "WORKER", script)
    monkeypatch.setattr(_environment, "environment", lambda _scheme: Path(sys.executable))


def test_a_stopped_run_goes_on_where_it_was(tmp_path, fake_worker):
    scheme = _schemes.scheme("zm-vfns")
    groups = [_fake_group(tmp_path, q2) for q2 in (10.0, 20.0, 666.0)]
    with pytest.raises(TheoryError, match=r"no such luck.*resume=True"):
        _run.compute(groups, scheme, resume=False, progress=None)
    first = groups[0].file.stat().st_mtime_ns
    seen = []
    done = _run.compute(groups[:2], scheme, resume=True, progress=lambda *a: seen.append(a))
    assert len(done) == 2
    assert seen == []
    assert groups[0].file.stat().st_mtime_ns == first
    again = _run.compute(groups[:2], scheme, resume=False, progress=lambda *a: seen.append(a))
    assert [entry[:2] for entry in seen] == [(0, 2), (1, 2), (2, 2)]
    assert seen[1][2] == {"q2": 10.0, "seconds_left": 0.5}
    assert len(again) == 2


def test_without_a_suitable_python_the_error_says_which(monkeypatch):
    scheme = dataclasses.replace(_schemes.scheme("fonll-c"), python=("2.9",))
    with pytest.raises(MissingDependencyError, match=r"needs Python 2\.9 for yadism==0\.12\.5"):
        _environment.python_for(scheme)


def test_an_environment_that_cannot_be_made_gives_pips_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTONFIT_CACHE", str(tmp_path))
    monkeypatch.setattr(_environment, "python_for", lambda _scheme: sys.executable)
    commands = []

    def fail(command, **_options):
        commands.append(command)
        text = "ERROR: No matching distribution found" if "pip" in command else ""
        return type("Done", (), {"returncode": 1 if text else 0, "stderr": text, "stdout": ""})()

    monkeypatch.setattr(_environment.subprocess, "run", fail)
    with pytest.raises(MissingDependencyError, match="No matching distribution"):
        _environment.environment(_schemes.scheme("fonll-c"))
    assert not list(tmp_path.rglob("complete.json"))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"name": "herra"}, SettingError, "Did you mean 'hera'"),
        ({"scheme": "fonl-c"}, SettingError, "Did you mean 'fonll-c'"),
    ],
)
def test_build_refuses_unknown_names(arguments, error, message):
    with pytest.raises(error, match=message):
        build(**arguments)


def test_build_refuses_a_folder_with_other_files(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(StorageError, match="holds other files"):
        build(out=tmp_path)
    with pytest.raises(StorageError, match="is a file"):
        build(out=tmp_path / "thesis.tex")


def test_written_table_reads_back(tmp_path):
    request = _groups.Request("T", "D", "NC", "electron", ((0.1, 10.0, 0.2), (0.2, 20.0, 0.1), (0.1, 1.0, 0.1)))
    values = np.random.default_rng(1).normal(size=(3, 9, 50))
    values[2] = 0
    values[:, :, :7] = 0
    _assemble.write_table(tmp_path / "T.pineappl.lz4", request, values, {"note": "yes"})
    table = read_table(tmp_path / "T.pineappl.lz4")
    assert table.flavours == tuple(_assemble.CHANNELS)
    assert table.x == pytest.approx(_schemes.x_grid()[7:], rel=1e-14)
    assert table.values * table.x == pytest.approx(values[..., 7:], rel=1e-14, abs=0)
    assert table.info["note"] == "yes"
    assert list(tmp_path.iterdir()) == [tmp_path / "T.pineappl.lz4"]


def test_embedded_tables_are_intact_and_were_proved():
    manifest = info("hera")
    assert manifest["scheme"] == "fonll-c"
    assert manifest["theory_card"] == _schemes.scheme("fonll-c").theory
    assert len(check("hera")) == 7
    for entry in manifest["tables"].values():
        assert entry["chain"]["same_grid_max"] < 1e-9
        assert entry["chain"]["fine_grid_max"] < 1e-3


def test_embedded_tables_equal_stock_yadism_with_the_evolved_pdf():
    """The prediction of unmodified yadism 0.12.5 at points of both currents and all scales."""
    with np.load(GOLDEN) as stored:
        golden = dict(stored)
    x, card = _schemes.x_grid(), default_card()
    tables = {r.table: (r, read_table(_build.EMBEDDED / "hera" / f"{r.table}.pineappl.lz4")) for r in _requests.hera()}
    checked = 0
    for k, point in enumerate(golden["points"]):
        q2 = float(point[1])
        arrays = {"values": golden["values"][k : k + 1], "orders": golden["orders"], "pids": golden["pids"]}
        f = evolve(toy_pdf(x)[None], x, x, [q2], card)[0, 0] / x
        theirs = float(np.einsum("ex,ex", _assemble.weights(arrays, q2, card)[0], f))
        for request, table in tables.values():
            if (request.current, request.lepton) != (golden["current"][k], golden["lepton"][k]):
                continue
            for row, known in enumerate(request.points):
                if np.allclose(known, point, rtol=1e-12):
                    assert table.predict(toy_pdf(table.x))[row] == pytest.approx(theirs, rel=5e-6)
                    checked += 1
    assert checked >= len(golden["points"])


def test_embedded_tables_lie_close_to_the_public_ones(shared):
    """Both are NNLO FONLL-C; bench/compare_tables.py says where they differ and why."""
    for request in _requests.hera():
        ours = read_table(_build.EMBEDDED / "hera" / f"{request.table}.pineappl.lz4")
        theirs = read_table(shared / "theory" / "dis_nnlo" / f"{request.table}.pineappl.lz4")
        a, b = ours.predict(toy_pdf(ours.x)), theirs.predict(toy_pdf(theirs.x))
        both = b != 0
        assert (a[both] != 0).all()
        difference = np.abs(a[both] / b[both] - 1)
        assert difference.max() < (1.6e-2 if request.current == "CC" or request.lepton == "electron" else 3e-3)
        assert np.median(difference) < 3e-4
        if request.table == "HERA_NC_318GEV_EP_SIGMARED":  # the one whose grid above bottom is as recent as ours
            scale = np.array(request.points)[both, 1]
            assert difference[scale > 25].max() < 2e-4


def test_manifest_errors_name_the_table(tmp_path):
    source = _build.EMBEDDED / "hera"
    for file in source.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    name = "HERA_CC_318GEV_EM_SIGMARED"
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["tables"][name]["sha256"] = "0" * 64
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(TheoryError, match=rf"{name}.*hash differs"):
        check(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(TheoryError, match="damaged"):
        info(tmp_path)
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(TheoryError, match="not built by partonfit"):
        info(tmp_path)


def test_evolution_basis_rotation_keeps_predictions():
    rng = np.random.default_rng(2)
    pids = [22, -6, -5, -4, -3, -2, -1, 21, 1, 2, 3, 4, 5, 6]
    values, f = rng.normal(size=(14, 5)), rng.normal(size=(14, 5))
    from partonfit._vocabulary import FROM_FLAVOURS, PIDS

    in_order = np.stack([f[pids.index(pid)] for pid in PIDS.values()])
    rotated = _assemble.to_evolution(values, pids)
    assert np.sum(rotated * (FROM_FLAVOURS @ in_order)) == pytest.approx(np.sum(values * f), rel=1e-12)
    assert len(EVOLUTION) == 14
