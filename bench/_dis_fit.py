"""The parts of the reference DIS fit, taken apart for the benchmarks that look inside a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import partonfit as pf
from _common import dis_entries, shared
from partonfit._precision import precision_context
from partonfit._vocabulary import to_evolution
from partonfit.inference._compression import Compression, compress
from partonfit.inference._monte_carlo import all_forms, draw_replicas, make_optimizer
from partonfit.inference._objective import make_judge, make_objective, shared_arrays
from partonfit.models import resolve_pdf
from partonfit.theory import forward_map
from partonfit.training import EngineControl, initial_states, initial_values, make_step, optimizer_values, update_with
from partonfit.training import _step as step_module

STRIDE = step_module._STRIDE


@dataclass
class Parts:
    """What one epoch of one replica is made of."""

    model: Any
    compression: Compression
    objective: Any
    judge: Any
    step: Any
    states: Any
    members: Any
    shared: Any
    optimizer: Any

    def block(self, first: int, size: int) -> tuple[Any, Any]:
        """Return states and members of a block, on the device."""

        def cut(tree: Any) -> Any:
            return jax.tree.map(lambda a: jax.device_put(a[first : first + size]), tree)

        return cut(self.states), cut(self.members)

    def program(self, epochs: int) -> Any:
        """Return a function of (states, members, shared) that makes ``epochs`` epochs of a block."""
        steps, rest = divmod(epochs, STRIDE)
        assert not rest, f"a step makes {STRIDE} epochs"
        batched = jax.vmap(self.step, in_axes=(0, 0, None))
        return lambda states, members, common: jax.lax.scan(
            lambda carry, _: batched(carry, members, common), states, None, length=steps
        )


def parts(replicas: int) -> Parts:
    """Prepare ``replicas`` replicas of the fit to 2181 DIS points, positivity off, float32."""
    data, theory = pf.load_data(dis_entries()), pf.load_theory(shared() / "theory" / "dis_nnlo")
    control, model, forward = pf.fit_control(), pf.pdf_model(), forward_map(data, theory)
    t0 = forward.predict(np.asarray(resolve_pdf("toy")(forward.x)))
    drawn = draw_replicas(data, t0, replicas, 1, control)
    compression = compress(forward, data.covariance(t0), resolve_pdf("toy"), to_evolution(), control.compression)
    with precision_context("float32"):
        optimizer = make_optimizer(control)
        values = optimizer_values(optimizer, model)
        weights = [initial_values(model, 1, member) for member in range(replicas)]
        trainable, fixed = (tuple(map(np.stack, zip(*g, strict=True))) for g in zip(*weights, strict=True))
        objective, judge = make_objective(model, compression), make_judge(control.threshold_chi2)
        step = make_step(objective, update_with(optimizer), EngineControl(epochs=10**6), judge)
    return Parts(
        model, compression, objective, judge, step, initial_states(trainable, fixed, values),
        all_forms(compression, drawn, "float32"), shared_arrays(compression, "float32"), optimizer,
    )  # fmt: skip
