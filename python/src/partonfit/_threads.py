"""The threads that drive compiled programs and LAPACK: made once, kept for the life of the process.

New threads for every fit would get memory arenas of their own from the C library, which are never
given back: the process would grow for its first dozen fits.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache


@cache
def threads(count: int) -> ThreadPoolExecutor:
    """Return the pool of ``count`` threads."""
    return ThreadPoolExecutor(count, thread_name_prefix="partonfit")


def cores() -> int:
    """Return the number of processor cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


if hasattr(os, "register_at_fork"):
    # A child has none of its parent's threads.
    os.register_at_fork(after_in_child=threads.cache_clear)
