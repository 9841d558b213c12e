"""From theory tables to predictions."""

from partonfit.theory._forward import ForwardMap as ForwardMap
from partonfit.theory._forward import union_grid as union_grid
from partonfit.theory._map import forward_map as forward_map
from partonfit.theory._tables import FKTable as FKTable
from partonfit.theory._tables import read_table as read_table
from partonfit.theory._theory import Theory as Theory
from partonfit.theory._theory import load_theory as load_theory
