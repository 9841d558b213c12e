"""How far a step of the DIS fit is from what the machine can do, and where the rest goes.

    python bench/floor.py --json floor.json

Operations are counted from the shapes: multiply-adds of the network (forward, and twice that
backward), of the theory map, and of the two quadratic forms. The machine's rates are measured here: a
large float32 matrix product on one core (operations), and the products of a block's quadratic forms
alone (bytes: they are larger than the caches; training's is read in every epoch, validation's once for
many). The profile is XLA's own, summed by the kind of work, of one block on one core.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import os
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from _common import machine, show
from _dis_fit import STRIDE, Parts, parts
from partonfit._precision import precision_context
from partonfit.models._sum_rules import NODES
from partonfit.training._devices import _CPU_BLOCK, _compiled_for_one_core

STEPS = 100


def best_seconds(call: Callable[[], Any], repeats: int = 9) -> float:
    """Return the shortest of several runs."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - begun)
    return min(times)


def counted(fit: Parts) -> dict[str, float]:
    """Return million operations (two per multiply-add) of one epoch of one replica."""
    compression = fit.compression
    points = len(compression.forward.x) + NODES
    widths = [2, *(layer.units for layer in fit.model.network.layers)]
    network = sum(a * b for a, b in itertools.pairwise(widths)) * points
    spread = 0 if compression.spread is None else compression.spread.size
    features = len(fit.members.training_vector[0]), len(fit.members.validation_vector[0])
    return {
        "network": 3 * 2e-6 * network,
        "theory": 2 * 2e-6 * (compression.project.size + spread),
        "forms": 2e-6 * sum(n**2 for n in features),
    }


def matmul_rate() -> float:
    """Return million operations per second of a large product on one core."""
    n = 768
    a = jnp.asarray(np.random.default_rng(0).normal(size=(n, n)), jnp.float32)
    call = _compiled_for_one_core(jax.jit(lambda m: m @ m).lower(a))
    return 2e-6 * n**3 / best_seconds(lambda: call(a))


def form_seconds(members: Any) -> float:
    """Return the seconds per epoch that the products with a block's quadratic forms alone take on one core."""
    forms, vectors = (members.training_matrix, members.validation_matrix), jnp.ones_like(members.training_vector)
    held = jnp.ones((len(vectors), STRIDE, members.validation_vector.shape[-1]), vectors.dtype)

    def program(f: Any, v: Any, h: Any) -> Any:
        def body(carry: Any, _: None) -> tuple[Any, None]:
            return jnp.tanh(jax.vmap(lambda a, b: a @ b)(f[0], carry)), None

        return jax.lax.scan(body, v, None, length=STRIDE)[0], h @ f[1]

    call = _compiled_for_one_core(jax.jit(program).lower(forms, vectors, held))
    return best_seconds(lambda: call(forms, vectors, held)) / STRIDE


def profile(compiled: Any, arguments: tuple, size: int) -> dict[str, float]:
    """Return microseconds per epoch and replica by kind of work."""
    shapes = dict(re.findall(r"%?([\w.\-]+) = (\w+\[[\d,]*\])", compiled.as_text()))
    totals: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(compiled(*arguments))
        for plane in jax.profiler.ProfileData.from_file(str(next(Path(folder).rglob("*.xplane.pb")))).planes:
            for event in (e for line in plane.lines for e in line.events):
                if event.name in shapes and not event.name.startswith("while"):
                    totals[_kind(event.name, shapes[event.name])] += event.duration_ns
    return {kind: 1e-3 * total / STEPS / size for kind, total in totals.most_common()}


def _kind(name: str, shape: str) -> str:
    dimensions = [int(d) for d in re.findall(r"\d+", shape.split("[")[1])]
    product = name.startswith(("dot", "ynn"))
    if product and len(dimensions) == 3 and (1 in dimensions[1:] or dimensions[-1] > 50):
        return "forms"
    if product and len(dimensions) == 2 and dimensions[-1] > 50:
        return "theory"
    if product or "tanh" in name or (len(dimensions) == 3 and dimensions[1] > 60):
        return "network"
    return "optimizer, best weights, the rest"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    about, size = machine(), _CPU_BLOCK
    with precision_context("float32"):
        fit = parts(size)
        arguments = (*fit.block(0, size), jax.device_put(fit.shared))
        compiled = _compiled_for_one_core(jax.jit(fit.program(STEPS)).lower(*arguments))
        jax.block_until_ready(compiled(*arguments))
        seconds = best_seconds(lambda: compiled(*arguments)) / STEPS / size
        operations, rate = counted(fit), matmul_rate()
        in_forms = form_seconds(arguments[1]) / size
        kinds = profile(compiled, arguments, size)
    members = arguments[1]
    form_bytes = 1e-6 * (members.training_matrix.nbytes + members.validation_matrix.nbytes / STRIDE) / size
    total = sum(operations.values())
    floor = 1e6 * ((total - operations["forms"]) / rate + in_forms)
    rows: dict[str, Any] = {f"mega_operations_{kind}": value for kind, value in operations.items()}
    rows |= {
        "mega_operations": total,
        "matmul_mega_operations_per_second": rate,
        "form_megabytes": form_bytes,
        "form_megabytes_per_second": form_bytes / in_forms,
        "floor_us": floor,
        "step_us": 1e6 * seconds,
        "fraction_of_floor": floor / (1e6 * seconds),
        "fraction_of_matmul_rate": total / rate / seconds,
    }
    show(rows | {f"profile_us_{kind}": value for kind, value in kinds.items()} | about, options.json)


if __name__ == "__main__":
    main()
