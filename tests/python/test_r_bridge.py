"""R and Python are two doors to one core: the same seed gives the same PDFs through both."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import partonfit as pf
import pytest
from partonfit import bridge

X = (1e-4, 1e-3, 1e-2, 0.1, 0.3, 0.7)
FLAVOURS = ("g", "Sigma", "u_v", "T8")
SETTINGS = {"epochs": 200, "threshold_chi2": None}
TOLERANCE = 1e-6

R_CODE = """
suppressMessages(library(partonfit))
fit <- fit_pdf("hera", replicas = 2, seed = 11, control = fit_control(epochs = 200, threshold_chi2 = NULL))
rows <- expand.grid(x = c(1e-4, 1e-3, 1e-2, 0.1, 0.3, 0.7), flavour = c("g", "Sigma", "u_v", "T8"))
values <- predict(fit, rows)$.pred
"""


def _missing() -> str:
    if shutil.which("Rscript") is None:
        return "R is not installed"
    found = subprocess.run(
        ["Rscript", "-e", "cat(requireNamespace('partonfit', quietly = TRUE))"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return "" if found.stdout.endswith("TRUE") else "the R package partonfit is not installed"


@pytest.fixture(scope="module")
def r_package() -> None:
    reason = _missing()
    if reason and os.environ.get("CI"):
        pytest.fail(f"{reason}, and in CI that is a failure")
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="module")
def here() -> np.ndarray:
    """PDFs (flavour, x) of the same fit made in Python."""
    fit = pf.fit_pdf("hera", replicas=2, seed=11, control=pf.fit_control(**SETTINGS))
    return fit.predict(X, flavour=FLAVOURS).mean


@pytest.mark.slow
@pytest.mark.usefixtures("r_package")
def test_two_processes_agree(here: np.ndarray, tmp_path: Path) -> None:
    script, out = tmp_path / "fit.R", tmp_path / "values.txt"
    script.write_text(R_CODE + f"writeLines(format(values, digits = 17), '{out}')\n")
    subprocess.run(["Rscript", str(script)], check=True, capture_output=True)
    there = np.loadtxt(out).reshape(here.shape)
    np.testing.assert_allclose(there, here, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.slow
@pytest.mark.usefixtures("r_package")
@pytest.mark.skipif(find_spec("rpy2") is None, reason="rpy2 is not installed")
@pytest.mark.filterwarnings("ignore")
def test_one_process_agrees(here: np.ndarray) -> None:
    import rpy2.robjects as ro

    ro.r(R_CODE)
    there = np.array(ro.globalenv["values"]).reshape(here.shape)
    np.testing.assert_allclose(there, here, rtol=TOLERANCE, atol=TOLERANCE)
    # One interpreter, one core: R's fit is in the memory of this very module.
    name = str(ro.r("fit$id")[0])
    assert bridge.is_loaded(name)
    assert int(ro.r("reticulate::py_eval('__import__(\"os\").getpid()')")[0]) == os.getpid()
