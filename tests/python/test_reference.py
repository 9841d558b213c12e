"""Against validphys: predictions, covariances and chi2 for a known PDF on the reference tables."""

import json
from pathlib import Path

import numpy as np
import pytest
from partonfit._compare import chi2, closure_data, predictions
from partonfit._vocabulary import combination
from partonfit.data import load_data
from partonfit.models import toy_pdf
from partonfit.theory import forward_map, load_theory

GOLDEN = Path(__file__).parents[1] / "golden"


def golden(name):
    return json.loads((GOLDEN / name).read_text())


@pytest.fixture(scope="module")
def reference(shared):
    return json.loads((shared / "reference" / "dis_validphys.json").read_text())


@pytest.fixture(scope="module")
def data():
    rows = golden("dis_reference.json")["datasets"]
    return load_data([{"dataset": row["dataset"], "variant": row["variant"]} for row in rows])


@pytest.fixture(scope="module")
def forward(shared, data):
    return forward_map(data, load_theory(shared / "theory" / "dis_nnlo"))


# ---- without the reference tables -------------------------------------------------------------------


def test_toy_pdf_is_the_formula():
    known = golden("toy_pdf.json")
    xf = toy_pdf(np.array(known["x"]))
    for name, values in known["xf"].items():
        np.testing.assert_allclose(combination(name) @ xf, values, rtol=1e-12, atol=1e-14)


def test_cuts_values_and_log_determinants(data):
    for dataset, row in zip(data.datasets, golden("dis_reference.json")["datasets"], strict=True):
        assert (dataset.n_data, dataset.operation) == (row["n_data"], row["operation"])
        chosen = np.searchsorted(dataset.kept, row["rows"])
        assert dataset.kept[chosen].tolist() == row["rows"]
        assert dataset.values[chosen].tolist() == row["values"]
        logdet = np.linalg.slogdet(data.select(dataset.name).covariance())[1]
        assert logdet == pytest.approx(row["logdet"], rel=1e-8)


def test_total_log_determinant(data):
    factor = data.cholesky(data.covariance())
    total = golden("dis_reference.json")["total"]["logdet_exp"]
    assert 2 * np.log(np.diag(factor)).sum() == pytest.approx(total, rel=1e-8)


def test_embedded_hera_data():
    data, known = load_data("hera"), golden("hera_data.json")
    assert data.n_data == known["n_data"]
    for row in known["datasets"]:
        dataset = data[row["dataset"]]
        assert (dataset.n_data, dataset.values[0]) == (row["n_data"], row["first_value"])
        logdet = np.linalg.slogdet(data.select(dataset.name).covariance())[1]
        assert logdet == pytest.approx(row["logdet"], rel=1e-8)


# ---- with the reference tables ----------------------------------------------------------------------


def test_every_prediction(data, forward, reference):
    expected = np.concatenate([row["prediction"] for row in reference["datasets"]])
    np.testing.assert_allclose(predictions(data, forward, "toy"), expected, rtol=1e-8)


def test_every_data_point_and_error(data, reference):
    for dataset, row in zip(data.datasets, reference["datasets"], strict=True):
        assert dataset.kept.tolist() == row["cut_indices"]
        assert dataset.values.tolist() == row["data"]
        np.testing.assert_allclose(dataset.total_error, row["sqrt_diag_cov"], rtol=1e-12)


def test_chi2_with_the_experimental_covariance(data, forward):
    table, known = chi2(data, forward, "toy"), golden("dis_reference.json")
    for i, row in enumerate(known["datasets"]):
        assert table.dataset[i] == row["dataset"]
        assert table.chi2[i] / table.n_data[i] == pytest.approx(row["chi2_per_point"], rel=1e-8)
        assert table.logdet[i] == pytest.approx(row["logdet"], rel=1e-8)
    assert table.n_total == known["total"]["n_data"]
    assert table.total == pytest.approx(6134.196836578739, rel=1e-8)
    assert table.total_logdet == pytest.approx(known["total"]["logdet_exp"], rel=1e-8)
    assert table.covariance == "experimental"


def test_chi2_with_the_t0_covariance(data, forward):
    # The reference's t0 predictions went through an interpolation grid, ours do not.
    table, known = chi2(data, forward, "toy", covariance="t0", t0="toy"), golden("dis_reference.json")["total"]
    assert table.total == pytest.approx(known["chi2_t0_with_toy_t0"], rel=1e-4)
    assert table.total_logdet == pytest.approx(known["logdet_t0_toy"], rel=1e-8)
    assert table.covariance == "t0"


def test_order_of_datasets_changes_nothing(shared, data, forward):
    backwards = data.select(reversed(data.names))
    table = chi2(backwards, load_theory(shared / "theory" / "dis_nnlo"), "toy")
    assert table.total == pytest.approx(chi2(data, forward, "toy").total, rel=1e-11)


def test_linear_matrix_gives_the_linear_points(data, forward):
    xf = toy_pdf(forward.x)
    direct = np.einsum("dfx,fx->d", forward.linear_matrix(), xf)
    np.testing.assert_allclose(direct[forward.linear], forward.predict(xf)[forward.linear], rtol=1e-12)
    assert (~forward.linear).sum() == 121  # the ratio of deuteron to proton


def test_batches_and_jax(data, forward):
    import jax
    import jax.numpy as jnp

    xf = np.stack([toy_pdf(forward.x), 1.1 * toy_pdf(forward.x)])
    rows = forward.rows(xf)
    np.testing.assert_allclose(forward.predict(xf)[0], predictions(data, forward, "toy"), rtol=1e-12)
    compiled = jax.jit(forward.combine)(jnp.asarray(rows, dtype=jnp.float32))
    np.testing.assert_allclose(compiled, forward.combine(rows), rtol=1e-5)


def test_closure_data_of_level_0_has_no_chi2(data, forward):
    fake = closure_data(data, forward, "toy")
    assert chi2(fake, forward, "toy").total == pytest.approx(0, abs=1e-18)
    noisy = closure_data(data, forward, "toy", level=1, seed=3)
    per_point = chi2(noisy, forward, "toy", covariance="t0", t0="toy").per_point
    assert per_point == pytest.approx(1, abs=5 * np.sqrt(2 / data.n_data))
