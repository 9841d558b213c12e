"""From measurements to values, covariance, pseudodata and training masks."""

from partonfit.data._catalogue import DatasetInfo as DatasetInfo
from partonfit.data._catalogue import describe_dataset as describe_dataset
from partonfit.data._catalogue import list_datasets as list_datasets
from partonfit.data._constraints import Constraint as Constraint
from partonfit.data._constraints import load_constraints as load_constraints
from partonfit.data._data import CutReport as CutReport
from partonfit.data._data import Data as Data
from partonfit.data._dataset import Dataset as Dataset
from partonfit.data._dataset import Systematics as Systematics
from partonfit.data._entries import Entry as Entry
from partonfit.data._entries import read_entries as read_entries
from partonfit.data._expressions import parse_condition as parse_condition
from partonfit.data._load import load_data as load_data
from partonfit.data._pseudodata import pseudodata as pseudodata
from partonfit.data._split import split_masks as split_masks
from partonfit.data._split import split_modes as split_modes
from partonfit.data._theory_covariance import TheoryCovariance as TheoryCovariance
from partonfit.data._theory_covariance import load_theory_covariance as load_theory_covariance
