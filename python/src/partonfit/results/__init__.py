"""The result of a fit: predictions with uncertainty, tables, plots, LHAPDF sets, reports."""

from partonfit.results._fit_object import PDFFit as PDFFit
from partonfit.results._prediction import Prediction as Prediction
from partonfit.results._replicas import ReplicaStatus as ReplicaStatus
