"""DGLAP evolution of PDFs at up to NNLO, many scales at once."""

from partonfit.theory.evolution._card import EvolutionCard as EvolutionCard
from partonfit.theory.evolution._card import default_card as default_card
from partonfit.theory.evolution._coupling import alpha_s as alpha_s
from partonfit.theory.evolution._evolve import evolve as evolve
from partonfit.theory.evolution._evolve import input_grid as input_grid
from partonfit.theory.evolution._evolve import lambert_grid as lambert_grid
