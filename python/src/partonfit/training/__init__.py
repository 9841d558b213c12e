"""The one training engine: stateless Keras on JAX, every member in one compiled program."""

from partonfit.training._control import EngineControl as EngineControl
from partonfit.training._keras import check_precision as check_precision
from partonfit.training._keras import initial_values as initial_values
from partonfit.training._keras import optimizer_values as optimizer_values
from partonfit.training._keras import update_with as update_with
from partonfit.training._keras import write_back as write_back
from partonfit.training._loop import Progress as Progress
from partonfit.training._loop import TrainResult as TrainResult
from partonfit.training._loop import initial_states as initial_states
from partonfit.training._loop import run as run
from partonfit.training._state import Evaluation as Evaluation
from partonfit.training._state import TrainState as TrainState
from partonfit.training._status import Status as Status
from partonfit.training._step import make_step as make_step
from partonfit.training._train import Training as Training
from partonfit.training._train import train as train
