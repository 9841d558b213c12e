"""Observation operators: the protocol, the bridge from NumPy to JAX, and checks of derivatives."""

from partonfit.operators._adapters import finite_difference_operator as finite_difference_operator
from partonfit.operators._adapters import matrix_operator as matrix_operator
from partonfit.operators._adapters import operator as operator
from partonfit.operators._check import OperatorCheck as OperatorCheck
from partonfit.operators._check import check_operator as check_operator
from partonfit.operators._host import original_errors as original_errors
from partonfit.operators._protocol import ObservationOperator as ObservationOperator
from partonfit.operators._protocol import Operator as Operator
from partonfit.operators._store import ResultStore as ResultStore
from partonfit.operators._theory import theory_operator as theory_operator
from partonfit.operators._transport import TransportModel as TransportModel
from partonfit.operators._transport import transport_model as transport_model
from partonfit.operators._wrap import WrappedOperator as WrappedOperator
from partonfit.operators._wrap import wrap_operator as wrap_operator
