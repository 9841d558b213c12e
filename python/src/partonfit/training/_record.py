"""What is remembered of the losses while members come and go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

LOSS, VALIDATION = "loss", "validation"


class Record:
    """Every ``every``-th epoch of each number that the step reports, for ``members`` members."""

    def __init__(self, every: int, members: int) -> None:
        self.every, self.members = every, members
        self.rows: dict[int, dict[str, np.ndarray]] = {}

    def add(self, index: np.ndarray, rows: Mapping[str, np.ndarray]) -> None:
        """Add the (step, member) rows of a block of members ``index`` (-1: padding)."""
        epochs = rows["epoch"]
        wanted = (epochs >= 0) & (epochs % self.every == 0) & (index >= 0)
        for step, column in np.argwhere(wanted):
            row = self.rows.setdefault(int(epochs[step, column]), {})
            for name, table in rows.items():
                if name != "epoch":
                    row.setdefault(name, np.full(self.members, np.nan))[index[column]] = table[step, column]

    def table(self) -> dict[str, np.ndarray]:
        """Return ``epoch`` (record,) and every other number (member, record); NaN once a member has ended."""
        epochs = sorted(self.rows)
        names = {LOSS: None, VALIDATION: None} | {name: None for row in self.rows.values() for name in row}
        missing = np.full(self.members, np.nan)
        out = {
            name: np.stack([self.rows[e].get(name, missing) for e in epochs], axis=1)
            if epochs
            else np.empty((self.members, 0))
            for name in names
        }
        return {"epoch": np.array(epochs, dtype=np.int64), **out}

    def fill(self, table: Mapping[str, Any]) -> None:
        """Take over what :meth:`table` gave (of a checkpoint)."""
        names = [name for name in table if name != "epoch"]
        self.rows = {
            int(epoch): {name: np.array(table[name][:, i]) for name in names} for i, epoch in enumerate(table["epoch"])
        }
