"""Where members, data and programs lie: on one device, or divided over several.

Members share nothing, so dividing them needs no communication: every device runs the same program
on blocks of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import keras
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from partonfit._checks import whole
from partonfit._errors import SettingError
from partonfit._threads import cores

_CPU_BLOCK = 10


def chosen_devices(devices: int | Sequence[Any] | None = None) -> list[Any]:
    """Return the local devices to use.

    Parameters
    ----------
    devices
        ``None`` for those of :func:`keras_devices`, or all devices of this process where there are none;
        a number of devices, or the devices themselves.

    Raises
    ------
    SettingError
        When there are fewer than asked for.

    Examples
    --------
    >>> len(chosen_devices(1))
    1
    """
    here = jax.local_devices()
    if devices is None:
        return [device for device in keras_devices() or here if device in here]
    if isinstance(devices, (list, tuple)):
        foreign = [d for d in devices if d not in here]
        if foreign or not devices:
            msg = f"devices must be some of {', '.join(map(str, here))}, not {list(map(str, devices))}."
            raise SettingError(msg)
        return list(devices)
    count = whole("devices", devices, least=1)
    if count > len(here):
        hint = (
            " On a CPU, XLA_FLAGS=--xla_force_host_platform_device_count=N makes N of them, set before the start."
            if here[0].platform == "cpu"
            else ""
        )
        msg = f"devices is {count}, but this process has {len(here)} ({here[0].device_kind}).{hint}"
        raise SettingError(msg)
    return here[:count]


def keras_devices() -> list[Any]:
    """Return the devices of the ``keras.distribution.DataParallel`` that is set (none: an empty list).

    Raises
    ------
    SettingError
        When another distribution is set: its layouts of the weights would have no effect here.
    """
    chosen = keras.distribution.distribution()
    if chosen is None:
        return []
    if not isinstance(chosen, keras.distribution.DataParallel):
        msg = (
            f"keras.distribution is {type(chosen).__name__}, which divides weights; here members or samples are "
            "divided. Set a DataParallel, or none: keras.distribution.set_distribution(None)."
        )
        raise SettingError(msg)
    return list(chosen.device_mesh.backend_mesh.devices.flat)


def _compiled_for_one_core(lowered: Any) -> Callable:
    """Compile a block that one of our threads drives: XLA's own threads would only get in its way."""
    alone: dict[str, bool | str] = {"xla_cpu_multi_thread_eigen": False}
    try:
        return lowered.compile(compiler_options=alone | {"xla_cpu_experimental_ynn_fusion_type": ""})
    except jax.errors.JaxRuntimeError:  # the second option comes and goes with the version of XLA
        return lowered.compile(compiler_options=alone)


class ByMember:
    """Blocks of members divided over devices, each block on one of them.

    A block has the same size whatever the number of devices and members, so that the same program
    runs on each and a member's numbers depend on neither.
    """

    in_step = False

    def __init__(self, devices: int | Sequence[Any] | None = None) -> None:
        self.devices = chosen_devices(devices)

    def block_size(self, wanted: int | None, count: int) -> int:
        """Return the number of members of one block."""
        if wanted is not None:
            return wanted
        return _CPU_BLOCK if self.devices[0].platform == "cpu" else -(-count // len(self.devices))

    @property
    def workers(self) -> int:
        """Threads that drive blocks: a CPU runs one on each core, an accelerator one at a time."""
        return max(cores(), len(self.devices)) if self.devices[0].platform == "cpu" else len(self.devices)

    def put(self, tree: Any, slot: int = 0) -> Any:
        """Place values on the device of block number ``slot``."""
        return jax.device_put(tree, self.devices[slot % len(self.devices)])

    def put_shared(self, tree: Any) -> list[Any]:
        """Place what all members see, on every device."""
        return [jax.device_put(tree, device) for device in self.devices]

    def compile(self, program: Callable, states: Any, members: Any, shared: list[Any]) -> list[Callable]:
        """Compile ``program(states, members, shared, count)`` once for each device."""
        jitted = jax.jit(program)

        def one(slot: int) -> Callable:
            mine = self.put((states, members), slot)
            lowered = jitted.lower(*mine, shared[slot], self.put(np.int32(1), slot))
            if self.devices[0].platform == "cpu" and len(states.status) > 1:
                return _compiled_for_one_core(lowered)
            return lowered.compile()

        return [one(slot) for slot in range(len(self.devices))]


class ByData:
    """All members on all devices, each device with a part of the samples (data parallel).

    The values are everywhere, the samples are divided, and the compiler inserts the sums over
    devices. Samples are padded to a multiple of the devices; a mask leaves the padding out.
    """

    def __init__(self, devices: int | Sequence[Any] | None = None) -> None:
        # Of several processes all devices take part, each process with those it has.
        everywhere = jax.process_count() > 1 and devices is None
        found = (keras_devices() or jax.devices()) if everywhere else chosen_devices(devices)
        mesh = Mesh(np.array(found), ("sample",))
        self.count = len(found)
        self.devices = [mesh]  # one place for every block
        self.each, self.all = NamedSharding(mesh, PartitionSpec("sample")), NamedSharding(mesh, PartitionSpec())
        self.workers = 1
        # The processes sum over all devices in every step: none may make fewer steps than the others.
        self.in_step = jax.process_count() > 1

    def block_size(self, wanted: int | None, count: int) -> int:
        """Return the number of members of one block: all of them."""
        return wanted or count

    def padded(self, data: Any, precision: str) -> tuple[Any, Any]:
        """Return data whose samples divide among the devices, and the mask of the true ones (or ``None``)."""
        samples = len(jax.tree.leaves(data)[0])
        missing = -samples % self.count
        if not missing:
            return data, None
        # Copies of the last sample: zeros could make a loss infinite, and infinity times 0 is no number.
        longer = jax.tree.map(lambda a: np.concatenate([a, np.repeat(a[-1:], missing, axis=0)]), data)
        return longer, np.concatenate([np.ones(samples), np.zeros(missing)]).astype(precision)

    def put(self, tree: Any, slot: int = 0) -> Any:
        """Place values on every device."""
        return self._place(tree, self.all)

    def put_shared(self, tree: Any) -> list[Any]:
        """Divide arrays by their first axis."""
        return [self._place(tree, self.each)]

    def _place(self, tree: Any, where: NamedSharding) -> Any:
        # device_put would compare the values of all processes, and NaN is never the same as NaN.
        def one(leaf: Any) -> Any:
            array = np.asarray(leaf)
            return jax.make_array_from_callback(array.shape, where, lambda part: array[part])

        return jax.tree.map(one, tree)

    def compile(self, program: Callable, states: Any, members: Any, shared: list[Any]) -> list[Callable]:
        """Compile ``program(states, members, shared, count)`` for all devices together."""
        jitted = jax.jit(program, out_shardings=self.all)
        return [jitted.lower(states, members, shared[0], self.put(np.int32(1))).compile()]
