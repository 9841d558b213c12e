"""A PDF fit through an operator written in NumPy is the fit with the native tables."""

import numpy as np
import partonfit as pf
import pytest


@pytest.fixture(scope="module")
def sources():
    data = pf.load_data("hera")
    return data, pf.load_theory("hera")


@pytest.mark.parametrize("basis", ["evolution", "fitted"])
def test_the_fit_is_that_of_the_tables(sources, basis):
    data, theory = sources
    from partonfit.theory import forward_map

    op = pf.theory_operator(data, theory, basis=basis)
    control = pf.fit_control(epochs=12, threshold_chi2=None, precision="float64", compression=0)
    rest = {"replicas": 2, "seed": 3, "control": control}
    native = pf.fit_pdf(data, theory, **rest)
    box = pf.fit_pdf(data, operator=op, grid=forward_map(data, theory).x, **rest)
    x = np.geomspace(1e-4, 0.9, 20)
    np.testing.assert_allclose(box.xf(x, kept_only=False), native.xf(x, kept_only=False), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(box.history["training"], native.history["training"], rtol=1e-7)
    np.testing.assert_allclose(box.history["validation"], native.history["validation"], rtol=1e-7)
    assert box.settings["theory"] == "operator: theory tables"


def test_what_does_not_fit_is_named(sources):
    data, theory = sources
    op = pf.theory_operator(data, theory)
    with pytest.raises(pf.SettingError, match="needs grid="):
        pf.fit_pdf(data, operator=op)
    with pytest.raises(pf.SettingError, match=r"14 x 3 numbers .* or 8 x 3 .* not 588"):
        pf.fit_pdf(data, operator=op, grid=[0.1, 0.2, 0.3])
    with pytest.raises(pf.SettingError, match="theory= needs theory tables"):
        pf.fit_pdf(data, "hera", operator=op, grid=[0.1])
    with pytest.raises(pf.SettingError, match="gives 1 predictions, but there are 1145"):
        pf.fit_pdf(data, operator=pf.matrix_operator(np.ones((1, 14))), grid=[0.1])
