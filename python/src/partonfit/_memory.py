"""What a fit will need of memory, compared with what there is before the work begins."""

from __future__ import annotations

from pathlib import Path

from partonfit._errors import FitError

_GB = 1e9


def available() -> int | None:
    """Return the bytes that a new process could take without swapping (``None``: not known here)."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:  # not on every system
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), None)


def check_memory(needed: int, count: int) -> None:
    """Raise when ``count`` replicas need more memory than there is.

    Parameters
    ----------
    needed
        Bytes of all replicas.
    count
        Number of replicas.

    Raises
    ------
    FitError
        With how many replicas would fit.
    """
    there = available()
    if there is not None and needed > there:
        fitting = int(count * there / needed)
        msg = (
            f"{count} replicas need about {needed / _GB:.1f} GB of memory and {there / _GB:.1f} GB are free: about "
            f"{fitting} would fit. Fit fewer, or divide them among machines with --processes."
        )
        raise FitError(msg)
