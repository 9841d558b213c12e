"""Surrogates: networks trained to stand for an operator, with its derivatives, and their export."""

from partonfit.surrogates._design import SurrogateDesign as SurrogateDesign
from partonfit.surrogates._design import surrogate_design as surrogate_design
from partonfit.surrogates._fit import fit_surrogate as fit_surrogate
from partonfit.surrogates._loss import SurrogateLoss as SurrogateLoss
from partonfit.surrogates._loss import surrogate_loss as surrogate_loss
from partonfit.surrogates._onnx import Export as Export
from partonfit.surrogates._onnx import export_onnx as export_onnx
from partonfit.surrogates._stablehlo import export_stablehlo as export_stablehlo
from partonfit.surrogates._storage import load_surrogate as load_surrogate
from partonfit.surrogates._surrogate import Surrogate as Surrogate
from partonfit.surrogates._surrogate import SurrogatePrediction as SurrogatePrediction
