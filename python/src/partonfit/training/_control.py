"""Settings of the engine, checked when they are made."""

from __future__ import annotations

from dataclasses import dataclass

from partonfit._checks import real, whole
from partonfit._errors import SettingError

PRECISIONS = ("float32", "float64")


@dataclass(frozen=True)
class EngineControl:
    """How long and how to train; nothing in it changes what a member would reach alone.

    Parameters
    ----------
    epochs
        Largest number of updates of each member.
    patience
        A member stops after this many epochs without improvement (``None``: never).
    min_delta
        How much lower than the best so far a validation must be to count as an improvement.
    keep
        Which weights a member ends with: ``"best"`` (lowest validation) or ``"last"``.
    precision
        ``"float32"`` (highest matmul precision) or ``"float64"``.
    block_size
        Members in one compiled program; ``None`` chooses for the device.
    steps_per_dispatch
        Epochs that one call of the compiled program makes.
    record_every
        Epochs between two entries of the history.
    """

    epochs: int = 17000
    patience: int | None = None
    precision: str = "float32"
    block_size: int | None = None
    steps_per_dispatch: int = 500
    record_every: int = 100
    min_delta: float = 0.0
    keep: str = "best"

    def __post_init__(self) -> None:
        whole("epochs", self.epochs, least=1)
        if self.patience is not None:
            whole("patience", self.patience, least=1)
        real("min_delta", self.min_delta, above=-1e-300)
        if self.keep not in ("best", "last"):
            msg = f"keep must be 'best' or 'last', not {self.keep!r}."
            raise SettingError(msg)
        if self.keep == "last" and self.patience is not None:
            msg = "patience waits for better weights, so it needs keep='best'."
            raise SettingError(msg)
        if self.precision not in PRECISIONS:
            msg = f"precision must be one of {', '.join(PRECISIONS)}, not {self.precision!r}."
            raise SettingError(msg)
        if self.block_size is not None:
            whole("block_size", self.block_size, least=1)
        whole("steps_per_dispatch", self.steps_per_dispatch, least=1)
        whole("record_every", self.record_every, least=1)
