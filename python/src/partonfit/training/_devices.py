"""Where members, data and programs lie: on one device, or divided over several.

Members share nothing, so dividing them needs no communication: every device runs the same program
on its own part of the block. One model over a sharded batch is the other way round: the values are
everywhere, the samples are divided, and the compiler inserts the sums over devices.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from partonfit._checks import whole
from partonfit._errors import SettingError

_CPU_BLOCK = 10


def chosen_devices(devices: int | Sequence[Any] | None = None) -> list[Any]:
    """Return the local devices to use.

    Parameters
    ----------
    devices
        ``None`` for all devices of this process, a number of them, or the devices themselves.

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
        return here
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


def cores() -> int:
    """Return the number of processor cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _compiled_for_one_core(lowered: Any) -> Callable:
    """Compile a block that one of our threads drives: XLA's own threads would only get in its way."""
    alone: dict[str, bool | str] = {"xla_cpu_multi_thread_eigen": False}
    try:
        return lowered.compile(compiler_options=alone | {"xla_cpu_experimental_ynn_fusion_type": ""})
    except jax.errors.JaxRuntimeError:  # the second option comes and goes with the version of XLA
        return lowered.compile(compiler_options=alone)


class ByMember:
    """Blocks of members divided over devices; a device sees ``block // devices`` of them.

    The part of one device has the same size whatever the number of devices and members, so that the
    same program runs on each and a member's numbers depend on neither.
    """

    lockstep = False

    def __init__(self, devices: int | Sequence[Any] | None = None) -> None:
        self.devices = chosen_devices(devices)
        self.mesh = Mesh(np.array(self.devices), ("member",))
        self.each = NamedSharding(self.mesh, PartitionSpec("member"))
        self.all = NamedSharding(self.mesh, PartitionSpec())

    def block_size(self, wanted: int | None, count: int) -> int:
        """Return the members of one block, a multiple of the number of devices."""
        number = len(self.devices)
        if wanted is None:
            wanted = _CPU_BLOCK if self.devices[0].platform == "cpu" else -(-count // number)
        return wanted * number

    @property
    def workers(self) -> int:
        """Threads that drive blocks: a CPU device runs several at a time, an accelerator one."""
        return max(1, cores() // len(self.devices)) if self.devices[0].platform == "cpu" else 1

    def put(self, tree: Any) -> Any:
        """Place values with a leading member axis."""
        return jax.device_put(tree, self.each)

    def put_shared(self, tree: Any) -> Any:
        """Place what all members see."""
        return jax.device_put(tree, self.all)

    def compile(self, program: Callable, *arguments: Any) -> Callable:
        """Compile ``program(states, members, shared, count)`` for the given arguments, once."""
        if len(self.devices) > 1:
            each, whole_ = PartitionSpec("member"), PartitionSpec()
            program = jax.shard_map(
                program, mesh=self.mesh, in_specs=(each, each, whole_, whole_),
                out_specs=(each, PartitionSpec(None, "member")), check_vma=False,
            )  # fmt: skip
        lowered = jax.jit(program).lower(*arguments)
        members = len(arguments[0].status) // len(self.devices)
        if self.devices[0].platform == "cpu" and members > 1:
            return _compiled_for_one_core(lowered)
        return lowered.compile()

    def agree(self, value: int) -> int:
        """Return what every process does next: here each goes its own way."""
        return value
