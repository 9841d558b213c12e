"""Monte Carlo replicas: one fit per fluctuation of the data, all in one compiled program."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import jax
import keras
import numpy as np
from threadpoolctl import threadpool_limits

from partonfit import _seeds
from partonfit._memory import check_memory
from partonfit._precision import keras_floatx, precision_context
from partonfit._threads import cores, threads
from partonfit._vocabulary import completion
from partonfit.data import Data, TheoryCovariance, pseudodata, split_masks, split_modes
from partonfit.data._covariance import eigenmodes
from partonfit.inference._compression import Compression, compress
from partonfit.inference._constraints import Penalty
from partonfit.inference._control import FitControl
from partonfit.inference._objective import ReplicaForms, make_judge, make_objective, replica_forms, shared_arrays
from partonfit.theory import ForwardMap
from partonfit.training import (
    Judge,
    Objective,
    Progress,
    TrainResult,
    check_precision,
    gather_result,
    initial_states,
    initial_values,
    make_step,
    my_members,
    optimizer_values,
    run,
    update_with,
)


@dataclass(frozen=True)
class Replicas:
    """What the replicas of a fit were given.

    Attributes
    ----------
    pseudodata
        (replica, data) values that each replica fitted.
    training
        (replica, data) mask of the points, or of the eigenmodes, in its training set.
    """

    pseudodata: np.ndarray
    training: np.ndarray

    def __len__(self) -> int:
        return len(self.pseudodata)


def draw_replicas(
    data: Data,
    t0: np.ndarray | None,
    count: int,
    seed: int,
    control: FitControl,
    first: int = 0,
    theory: TheoryCovariance | None = None,
) -> Replicas:
    """Draw pseudodata and splits of the replicas from number ``first`` on.

    Each replica and dataset has streams of its own. ``theory`` is on the points of the data.
    """
    noise: dict[str, Any] = {
        "t0": t0 if control.t0_in_sampling else None,
        "theory": theory if control.theory_in_sampling else None,
        "separate_multiplicative": control.separate_multiplicative,
        "positive_tries": control.positive_tries,
    }
    split = split_modes if control.split == "modes" else split_masks
    values, masks = [], []
    for replica in range(first, first + count):

        def rng(purpose: str, *names: str, replica: int = replica) -> np.random.Generator:
            return _seeds.stream(seed, purpose, replica, *names)

        values.append(pseudodata(data, rng=rng, **noise) if control.pseudodata else data.values)
        masks.append(split(data, rng, fraction=control.training_fraction))
    return Replicas(np.stack(values), np.stack(masks))


def all_forms(compression: Compression, replicas: Replicas, precision: str) -> Any:
    """Return the stacked quadratic forms of every replica (LAPACK on a pool of threads)."""
    sets = [compression.nonlinear_sets(training) for training in replicas.training]
    sizes = max(int(inside.sum()) for inside, _ in sets), max(int(held.sum()) for _, held in sets)

    def forms(number: int) -> ReplicaForms:
        return replica_forms(compression, replicas.pseudodata[number], replicas.training[number], sizes, precision)

    first = forms(0)
    # Here, and once more where they are trained.
    check_memory(2 * len(replicas) * sum(part.nbytes for part in first), len(replicas))
    # Filled in place: they are most of the memory of a fit, and a list to be stacked would double it.
    every = jax.tree.map(lambda part: np.empty((len(replicas), *part.shape), part.dtype), first)

    def fill(number: int) -> None:
        for whole, part in zip(every, forms(number) if number else first, strict=True):
            whole[number] = part

    # One BLAS thread for each of ours: left to themselves they wait for each other most of the time.
    with threadpool_limits(1, user_api="blas"):
        list(threads(cores()).map(fill, range(len(replicas))))
    return every


def fitting_covariance(
    data: Data, t0: np.ndarray | None, control: FitControl, theory: TheoryCovariance | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the covariance (data, data) of the chi2, and the modes that the split divides (None: points)."""
    covariance = data.covariance(t0, theory=theory if control.theory_in_fitting else None)
    data.cholesky(covariance)  # names the dataset when the matrix is singular
    return covariance, eigenmodes(covariance, data.order) if control.split == "modes" else None


def make_optimizer(control: FitControl) -> keras.optimizers.Optimizer:
    """Return the Keras optimizer that ``control`` names or describes."""
    if control.optimizer.startswith("{"):
        found: Any = keras.optimizers.deserialize(json.loads(control.optimizer))
        return found
    return getattr(keras.optimizers, control.optimizer)(learning_rate=control.learning_rate, clipnorm=control.clipnorm)


def fit_replicas(
    data: Data,
    forward: ForwardMap,
    t0: np.ndarray | None,
    model: keras.Model,
    replicas: Replicas,
    seed: int,
    control: FitControl,
    reference: Any,
    progress: Progress | None,
    penalty: Penalty | None = None,
    theory: TheoryCovariance | None = None,
    **loop: Any,
) -> tuple[TrainResult, Compression]:
    """Fit one replica of ``model`` to each of the drawn ``replicas``.

    Parameters
    ----------
    data, forward
        Data, for their covariance, and the theory map on the same points.
    t0
        Predictions (data,) that scale the multiplicative uncertainties; ``None``: the data do.
    model
        Keras model from x (x, 1) to x f (x, fitted).
    replicas
        Pseudodata and splits, from :func:`draw_replicas`; their number is that of the replicas.
    reference
        A pdf callable on which the compressed chi2 is centred.
    progress
        ``progress(step, total, metrics)``.
    penalty
        Positivity and integrability; ``forward`` is then on its grid.
    theory
        Theory uncertainties on the points of the data, part of the covariance.
    **loop
        ``callbacks``, ``checkpoint`` and ``placement`` of :func:`partonfit.training.run`.

    Notes
    -----
    Of several processes each trains its own replicas, and all get every result.
    """
    mine = my_members(len(replicas))
    precision = control.precision
    check_precision(model, precision)
    covariance, modes = fitting_covariance(data, t0, control, theory)
    compression = compress(forward, covariance, reference, completion(model), control.compression, modes)
    members = all_forms(compression, Replicas(replicas.pseudodata[mine], replicas.training[mine]), precision)
    shared = shared_arrays(compression, precision)
    if penalty is not None:
        shared = shared._replace(constraints=penalty.arrays(precision))
    objective, judge = make_objective(model, compression, penalty), make_judge(control.threshold_chi2)
    return train_replicas(
        model, objective, members, shared, len(replicas), seed, control, progress, judge=judge, **loop
    ), compression


def train_replicas(
    model: keras.Model,
    objective: Objective,
    members: Any,
    shared: Any,
    count: int,
    seed: int,
    control: FitControl,
    progress: Progress | None,
    *,
    judge: Judge | None = None,
    **loop: Any,
) -> TrainResult:
    """Train this process' replicas from their own initial weights; return those of all processes.

    Parameters
    ----------
    objective
        Loss of one replica.
    members
        Arrays (replica, ...) of this process' replicas, see ``my_members``.
    shared
        What all replicas see.
    count
        Number of replicas of all processes.
    judge
        Makes the validation loss of several epochs at once (see :func:`partonfit.training.make_step`).
    """
    with precision_context(control.precision), keras_floatx(control.precision):
        optimizer = make_optimizer(control)
        values = optimizer_values(optimizer, model)
        drawn = [initial_values(model, seed, int(member)) for member in my_members(count)]
        trainable, non_trainable = (
            tuple(np.stack(leaves) for leaves in zip(*group, strict=True)) for group in zip(*drawn, strict=True)
        )
    step = make_step(objective, update_with(optimizer), control.engine(), judge)
    states = initial_states(trainable, non_trainable, values)
    return gather_result(run(step, states, members, shared, control.engine(), progress, **loop), count)
