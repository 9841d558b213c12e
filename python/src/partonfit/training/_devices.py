"""Where members, data and programs lie: on one device, or divided over several.

Members share nothing, so dividing them needs no communication: every device runs the same program
on blocks of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

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
    """Blocks of members divided over devices, each block on one of them.

    A block has the same size whatever the number of devices and members, so that the same program
    runs on each and a member's numbers depend on neither.
    """

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
