"""Building FK tables: yadism for the coefficient functions, evolution to Q0, PineAPPL for the files."""

from partonfit.theory.building._build import build as build
from partonfit.theory.building._build import check as check
from partonfit.theory.building._build import info as info
from partonfit.theory.building._schemes import SCHEMES as SCHEMES
from partonfit.theory.building._schemes import scheme as scheme
