"""Inference over one likelihood: Monte Carlo replicas now, other methods beside them later."""

from partonfit.inference._compression import Compression as Compression
from partonfit.inference._compression import compress as compress
from partonfit.inference._constraints import Penalty as Penalty
from partonfit.inference._constraints import make_penalty as make_penalty
from partonfit.inference._control import FitControl as FitControl
from partonfit.inference._control import fit_control as fit_control
from partonfit.inference._monte_carlo import Replicas as Replicas
from partonfit.inference._monte_carlo import draw_replicas as draw_replicas
from partonfit.inference._monte_carlo import fit_replicas as fit_replicas
from partonfit.inference._state import StateFit as StateFit
from partonfit.inference._state import fit_state as fit_state
