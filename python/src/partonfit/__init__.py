"""Parton distribution functions fitted with neural networks on JAX and Keras 3.

The public names are those in ``__all__``; every other module may change.
"""

import importlib as _importlib
import os as _os
import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

# Keras reads its backend once, at import: everything here is written for JAX.
_os.environ.setdefault("KERAS_BACKEND", "jax")
if _os.environ["KERAS_BACKEND"] != "jax" or (
    "keras" in _sys.modules and _sys.modules["keras"].backend.backend() != "jax"
):
    _message = (
        "partonfit runs Keras on JAX, but another Keras backend is chosen. Set the environment variable "
        "KERAS_BACKEND=jax, or import partonfit before keras."
    )
    raise ImportError(_message)

__version__ = "0.1.0"

# Names are loaded when first used: starting Keras and JAX takes seconds that ``partonfit --help``,
# a data listing or an R session that only prints a stored fit should not wait for.
_HOME = {
    "CSVLogger": "training",
    "Chi2Table": "_compare",
    "ClosureTest": "results",
    "Data": "data",
    "DataError": "_errors",
    "FitComparison": "results",
    "FitError": "_errors",
    "MissingDependencyError": "_errors",
    "ObservationOperator": "operators",
    "OperatorError": "_errors",
    "PDFFit": "results",
    "PartonfitError": "_errors",
    "SettingError": "_errors",
    "StateFit": "inference",
    "StorageError": "_errors",
    "Surrogate": "surrogates",
    "SurrogateDesign": "surrogates",
    "TensorBoard": "training",
    "Theory": "theory",
    "TheoryCovariance": "data",
    "TheoryError": "_errors",
    "check_operator": "operators",
    "chi2": "_compare",
    "closure_data": "_compare",
    "closure_test": "_closure",
    "export_onnx": "surrogates",
    "export_stablehlo": "surrogates",
    "compare": "results",
    "finite_difference_operator": "operators",
    "fit_control": "inference",
    "fit_pdf": "_fit",
    "fit_state": "inference",
    "fit_surrogate": "surrogates",
    "load_closure": "results",
    "load_constraints": "data",
    "load_data": "data",
    "load_fit": "_fit",
    "load_surrogate": "surrogates",
    "load_theory": "theory",
    "load_theory_covariance": "data",
    "matrix_operator": "operators",
    "operator": "operators",
    "pdf_model": "models",
    "postfit": "_postfit",
    "predictions": "_compare",
    "read_lhapdf": "results",
    "scale_covariance": "_scale_variations",
    "surrogate_design": "surrogates",
    "surrogate_loss": "surrogates",
    "theory_operator": "operators",
    "toy_pdf": "models",
    "train": "training",
    "transport_model": "operators",
    "wrap_operator": "operators",
}
_PACKAGES = ("data", "inference", "models", "operators", "results", "surrogates", "theory", "training")

if _TYPE_CHECKING:
    from partonfit import data as data
    from partonfit import inference as inference
    from partonfit import models as models
    from partonfit import operators as operators
    from partonfit import results as results
    from partonfit import surrogates as surrogates
    from partonfit import theory as theory
    from partonfit import training as training
    from partonfit._closure import closure_test as closure_test
    from partonfit._compare import Chi2Table as Chi2Table
    from partonfit._compare import chi2 as chi2
    from partonfit._compare import closure_data as closure_data
    from partonfit._compare import predictions as predictions
    from partonfit._errors import DataError as DataError
    from partonfit._errors import FitError as FitError
    from partonfit._errors import MissingDependencyError as MissingDependencyError
    from partonfit._errors import OperatorError as OperatorError
    from partonfit._errors import PartonfitError as PartonfitError
    from partonfit._errors import SettingError as SettingError
    from partonfit._errors import StorageError as StorageError
    from partonfit._errors import TheoryError as TheoryError
    from partonfit._fit import fit_pdf as fit_pdf
    from partonfit._fit import load_fit as load_fit
    from partonfit._postfit import postfit as postfit
    from partonfit._scale_variations import scale_covariance as scale_covariance
    from partonfit.data import Data as Data
    from partonfit.data import TheoryCovariance as TheoryCovariance
    from partonfit.data import load_constraints as load_constraints
    from partonfit.data import load_data as load_data
    from partonfit.data import load_theory_covariance as load_theory_covariance
    from partonfit.inference import StateFit as StateFit
    from partonfit.inference import fit_control as fit_control
    from partonfit.inference import fit_state as fit_state
    from partonfit.models import pdf_model as pdf_model
    from partonfit.models import toy_pdf as toy_pdf
    from partonfit.operators import ObservationOperator as ObservationOperator
    from partonfit.operators import check_operator as check_operator
    from partonfit.operators import finite_difference_operator as finite_difference_operator
    from partonfit.operators import matrix_operator as matrix_operator
    from partonfit.operators import operator as operator
    from partonfit.operators import theory_operator as theory_operator
    from partonfit.operators import transport_model as transport_model
    from partonfit.operators import wrap_operator as wrap_operator
    from partonfit.results import ClosureTest as ClosureTest
    from partonfit.results import FitComparison as FitComparison
    from partonfit.results import PDFFit as PDFFit
    from partonfit.results import compare as compare
    from partonfit.results import load_closure as load_closure
    from partonfit.results import read_lhapdf as read_lhapdf
    from partonfit.surrogates import Surrogate as Surrogate
    from partonfit.surrogates import SurrogateDesign as SurrogateDesign
    from partonfit.surrogates import export_onnx as export_onnx
    from partonfit.surrogates import export_stablehlo as export_stablehlo
    from partonfit.surrogates import fit_surrogate as fit_surrogate
    from partonfit.surrogates import load_surrogate as load_surrogate
    from partonfit.surrogates import surrogate_design as surrogate_design
    from partonfit.surrogates import surrogate_loss as surrogate_loss
    from partonfit.theory import Theory as Theory
    from partonfit.theory import load_theory as load_theory
    from partonfit.training import CSVLogger as CSVLogger
    from partonfit.training import TensorBoard as TensorBoard
    from partonfit.training import train as train

__all__ = [
    "CSVLogger",
    "Chi2Table",
    "ClosureTest",
    "Data",
    "DataError",
    "FitComparison",
    "FitError",
    "MissingDependencyError",
    "ObservationOperator",
    "OperatorError",
    "PDFFit",
    "PartonfitError",
    "SettingError",
    "StateFit",
    "StorageError",
    "Surrogate",
    "SurrogateDesign",
    "TensorBoard",
    "Theory",
    "TheoryCovariance",
    "TheoryError",
    "check_operator",
    "chi2",
    "closure_data",
    "closure_test",
    "compare",
    "export_onnx",
    "export_stablehlo",
    "finite_difference_operator",
    "fit_control",
    "fit_pdf",
    "fit_state",
    "fit_surrogate",
    "load_closure",
    "load_constraints",
    "load_data",
    "load_fit",
    "load_surrogate",
    "load_theory",
    "load_theory_covariance",
    "matrix_operator",
    "operator",
    "pdf_model",
    "postfit",
    "predictions",
    "read_lhapdf",
    "scale_covariance",
    "surrogate_design",
    "surrogate_loss",
    "theory_operator",
    "toy_pdf",
    "train",
    "transport_model",
    "wrap_operator",
]


def __getattr__(name: str) -> _Any:
    if name in _HOME:
        value = getattr(_importlib.import_module(f"partonfit.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name in _PACKAGES:
        return _importlib.import_module(f"partonfit.{name}")
    message = f"module 'partonfit' has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    return sorted([*__all__, *_PACKAGES, "__version__"])
