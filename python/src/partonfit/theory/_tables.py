"""FK tables: predictions as sums over the PDF at the starting scale, read from PineAPPL files.

A table is linear for one initial-state hadron (deep inelastic scattering) and quadratic for two::

    O_d = sum_{f, x} T[d, f, x] xf_f(x)
    O_d = sum_{c, x1, x2} T[d, c, x1, x2] xf_a(c)(x1) xf_b(c)(x2)

with ``xf`` the PDF times x in the evolution basis at ``q0``. PineAPPL stores weights for ``f`` and bin
sums; here the factors 1/x and 1/bin width are already inside ``T``. Format: arXiv:2008.12789 and
https://nnpdf.github.io/pineappl.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from partonfit._errors import MissingDependencyError, TheoryError
from partonfit._vocabulary import EVOLUTION

SUFFIX = ".pineappl.lz4"

_EVOLUTION_PIDS = {22: "photon", 100: "Sigma", 21: "g", 200: "V"} | {
    base + n**2 - 1: f"{letter}{n**2 - 1}" for base, letter in ((100, "T"), (200, "V")) for n in range(2, 7)
}
_LZ4_MAGIC, _PLAIN_MAGIC = b"\x04\x22\x4d\x18", b"PineAPPL"
_BLOCK_UNCOMPRESSED = 0x80000000


@dataclass(frozen=True, eq=False)
class FKTable:
    """One FK table.

    Attributes
    ----------
    name
        File name without suffix.
    x
        Momentum fractions (x,), ascending.
    flavours
        What the second axis of ``values`` counts: names of the evolution basis for a linear table,
        pairs of names for a quadratic one.
    values
        Weights (data, flavour, x), or (data, channel, x1, x2) for a quadratic table.
    q0
        Scale of the PDF [GeV].
    info
        The table's own key-value description.
    hash
        SHA-256 of the file.
    """

    name: str
    x: np.ndarray
    flavours: tuple[Any, ...]
    values: np.ndarray = field(repr=False)
    q0: float
    info: dict[str, str] = field(repr=False)
    hash: str = ""

    @property
    def linear(self) -> bool:
        """Whether predictions are linear in the PDF."""
        return self.values.ndim == 3

    @property
    def n_data(self) -> int:
        """Number of rows."""
        return self.values.shape[0]

    def predict(self, xf: np.ndarray) -> np.ndarray:
        """Return the table's own predictions.

        Parameters
        ----------
        xf
            x times the PDF on the table's x points (..., 14, x), evolution basis.

        Returns
        -------
        numpy.ndarray
            Predictions (..., data).
        """
        xf = np.asarray(xf, dtype=np.float64)
        if xf.shape[-2:] != (len(EVOLUTION), len(self.x)):
            msg = f"Table {self.name} needs a PDF of shape (..., 14, {len(self.x)}), not {xf.shape}."
            raise TheoryError(msg)
        if self.linear:
            rows = [EVOLUTION.index(name) for name in self.flavours]
            return np.einsum("dfx,...fx->...d", self.values, xf[..., rows, :], optimize=True)
        first, second = channel_rows(self.flavours)
        one, other = xf[..., first, :], xf[..., second, :]
        return np.einsum("dcxy,...cx,...cy->...d", self.values, one, other, optimize=True)


def channel_rows(channels: tuple[tuple[str, str], ...]) -> tuple[list[int], list[int]]:
    """Return the rows of the evolution basis that the two legs of each channel take."""
    first = [EVOLUTION.index(one) for one, _ in channels]
    return first, [EVOLUTION.index(other) for _, other in channels]


def read_table(path: Path) -> FKTable:
    """Read one table from a ``.pineappl.lz4`` file.

    Raises
    ------
    TheoryError
        When the file is missing, damaged, or no table this program can use.
    """
    content = _intact(path)
    grid = _open(path)
    name = path.name.removesuffix(SUFFIX)
    convolutions = [_convolution(convolution, name) for convolution in grid.convolutions]
    if len(convolutions) > 2:
        msg = f"Table {name} folds {len(convolutions)} distributions; at most two are supported."
        raise TheoryError(msg)
    x = np.asarray(grid.x_grid(), dtype=np.float64)
    values = np.array(grid.table(), dtype=np.float64)
    if len(convolutions) == 1 and values.ndim == 4:  # PineAPPL before 1.0 kept a second leg of length 1
        values = values[..., 0] if values.shape[3] == 1 else values[..., 0, :]
    values /= np.asarray(grid.bin_normalizations()).reshape(-1, *[1] * (values.ndim - 1))
    values /= x if len(convolutions) == 1 else np.multiply.outer(x, x)
    _check_finite(values, name)
    return FKTable(
        name=name,
        x=x,
        flavours=tuple(_channel(channel, len(convolutions), name) for channel in grid.channels()),
        values=values,
        q0=float(np.sqrt(grid.fac0())),
        info={str(key): str(value) for key, value in dict(grid.metadata).items()},
        hash=hashlib.sha256(content).hexdigest(),
    )


def _convolution(convolution: Any, name: str) -> None:
    kind = convolution.convolution_types
    if kind.polarized or kind.time_like:
        msg = f"Table {name} is for polarised PDFs or fragmentation functions, which are not supported."
        raise TheoryError(msg)
    if convolution.pid != 2212:
        msg = f"Table {name} is for the hadron with PDG number {convolution.pid}; expected protons (2212)."
        raise TheoryError(msg)


def _channel(channel: Any, legs: int, name: str) -> Any:
    pids = [int(pid) for pid in np.ravel(channel)][:legs]
    unknown = [pid for pid in pids if pid not in _EVOLUTION_PIDS]
    if unknown:
        msg = (
            f"Table {name} has the flavour number {unknown[0]}, which is not in the evolution basis. "
            "Rotate the table to the evolution basis when building it."
        )
        raise TheoryError(msg)
    names = tuple(_EVOLUTION_PIDS[pid] for pid in pids)
    return names[0] if legs == 1 else names


def _check_finite(values: np.ndarray, name: str) -> None:
    if not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0][0])
        msg = f"Table {name} contains a number that is not finite in row {row}. Build it again."
        raise TheoryError(msg)


def _open(path: Path) -> Any:
    try:
        from pineappl.fk_table import FkTable  # pyright: ignore[reportMissingImports] (compiled module)
    except ImportError:
        msg = "Reading theory tables needs the package pineappl. Install it: pip install pineappl."
        raise MissingDependencyError(msg) from None
    try:
        return FkTable.read(str(path))
    except BaseException as error:
        # A panic inside the Rust library is no Exception; anything else that is none (an interrupt) goes on.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        msg = f"The table {path} cannot be read: it is damaged or no FK table. Copy or build it again."
        raise TheoryError(msg) from None


def _intact(path: Path) -> bytes:
    """Return the bytes of a table file after checking that its LZ4 frame is complete.

    The Rust library panics, and prints, on a damaged file; this finds the usual damage (a copy that
    broke off) before it is asked.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        msg = f"Cannot read the table {path}: {error.strerror}."
        raise TheoryError(msg) from None
    if content.startswith(_PLAIN_MAGIC):
        return content
    if not content.startswith(_LZ4_MAGIC):
        msg = f"The table {path} is no LZ4 file ({len(content)} bytes). Copy or build it again."
        raise TheoryError(msg)
    if not _frame_is_complete(content):
        msg = f"The table {path} is truncated ({len(content)} bytes). Copy or build it again."
        raise TheoryError(msg)
    return content


def _frame_is_complete(content: bytes) -> bool:
    """Walk the blocks of an LZ4 frame to its end mark (LZ4 frame format, version 1.6.2)."""
    try:
        flags = content[4]
        position = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
        while True:
            (size,) = struct.unpack_from("<I", content, position)
            position += 4
            if size == 0:
                return len(content) >= position + (4 if flags & 0x04 else 0)
            position += (size & ~_BLOCK_UNCOMPRESSED) + (4 if flags & 0x10 else 0)
    except (IndexError, struct.error):
        return False
