"""The result of a fit: predictions with uncertainty, tables, plots, LHAPDF sets, reports."""

from partonfit.results._closure_result import ClosureTest as ClosureTest
from partonfit.results._closure_result import load_closure as load_closure
from partonfit.results._comparison import FitComparison as FitComparison
from partonfit.results._comparison import compare as compare
from partonfit.results._fit_object import PDFFit as PDFFit
from partonfit.results._lhapdf import write_lhapdf as write_lhapdf
from partonfit.results._lhapdf_reader import LhapdfSet as LhapdfSet
from partonfit.results._lhapdf_reader import read_lhapdf as read_lhapdf
from partonfit.results._plots import plot as plot
from partonfit.results._plots import plot_pdfs as plot_pdfs
from partonfit.results._plots import plot_ratio as plot_ratio
from partonfit.results._plots import plot_replicas as plot_replicas
from partonfit.results._plots_data import plot_chi2 as plot_chi2
from partonfit.results._plots_data import plot_data as plot_data
from partonfit.results._plots_training import plot_training as plot_training
from partonfit.results._plots_training import plot_validation as plot_validation
from partonfit.results._prediction import Prediction as Prediction
from partonfit.results._replicas import ReplicaStatus as ReplicaStatus
from partonfit.results._report import write_report as write_report
from partonfit.results._summary import FitSummary as FitSummary
from partonfit.results._summary import summarise as summarise
