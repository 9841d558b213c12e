"""How the training of one member ended: failure is data, never an exception."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """State of one member; everything but ``RUNNING`` is final.

    Examples
    --------
    >>> Status.DIVERGED.sentence(412)
    'diverged at epoch 412: the loss or its gradient was not finite'
    """

    RUNNING = 0
    STOPPED = 1
    FINISHED = 2
    DIVERGED = 3
    INTERRUPTED = 4
    NEVER_PASSED = 5

    @property
    def label(self) -> str:
        """Lower-case name used in tables."""
        return self.name.lower()

    @property
    def usable(self) -> bool:
        """Whether the best weights of such a member may enter a result."""
        return self in {Status.STOPPED, Status.FINISHED, Status.INTERRUPTED}

    def sentence(self, epoch: int) -> str:
        """Say what happened, for a user."""
        return {
            Status.RUNNING: f"still running at epoch {epoch}",
            Status.STOPPED: f"stopped at epoch {epoch}: no improvement within the patience",
            Status.FINISHED: f"finished all {epoch} epochs",
            Status.DIVERGED: f"diverged at epoch {epoch}: the loss or its gradient was not finite",
            Status.INTERRUPTED: f"interrupted at epoch {epoch}: best weights so far",
            Status.NEVER_PASSED: f"never passed the threshold within {epoch} epochs",
        }[self]
