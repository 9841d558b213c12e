"""Results kept on disk, so that no operator call is paid for twice.

A result belongs to the operator's key, the function called and the bytes of its arguments: the file
name is the hash of all of these, and the file repeats the hash with the result. Files appear by
renaming, so a second process sees a whole file or none.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import threading
import time
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from partonfit._checks import whole
from partonfit._errors import SettingError
from partonfit._files import check_folder
from partonfit.data._commondata import cache_folder

_FORMAT = 1
_LOOK_EVERY = 64  # writes between two looks at the size of the folder
_DAMAGED = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)


class ResultStore:
    """Results of one operator in a folder.

    Parameters
    ----------
    folder
        Where files go; several operators and processes may share it. None is the folder
        ``operators`` of the cache (environment variable ``PARTONFIT_CACHE``, else the user's cache).
    key
        The operator's key.
    max_bytes
        Size that the folder is held to, about: the files longest unused go first.

    Raises
    ------
    SettingError
        When the operator has no key, or the cache is switched off (``PARTONFIT_CACHE=""``).
    StorageError
        When the folder cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> store = ResultStore(tempfile.mkdtemp(), "square, version 1")
    >>> x = np.array([1.0, 2.0])
    >>> store.get("forward", x) is None
    True
    >>> store.put("forward", x**2, x)
    >>> store.get("forward", x)
    array([1., 4.])
    """

    def __init__(self, folder: str | Path | None, key: str | None, *, max_bytes: int = 2**30) -> None:
        if not key:
            msg = (
                "Stored results need the operator's key, a text that names the operator and all its settings: "
                'operator(..., key="my model, 2 km, version 3"). A changed operator must have another key.'
            )
            raise SettingError(msg)
        if folder is None:
            base = cache_folder()
            if base is None:
                msg = "The cache is switched off (PARTONFIT_CACHE is empty): name a folder, reload_results=FOLDER."
                raise SettingError(msg)
            folder = base / "operators"
        self.folder = Path(folder).expanduser().absolute()
        self.max_bytes = whole("max_bytes", max_bytes, least=1)
        self._start = hashlib.sha256(f"partonfit operator results {_FORMAT}|{len(key)}|{key}|".encode())
        self._writes, self._lock = 0, threading.Lock()
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
        check_folder(self.folder, self.folder)

    def get(self, kind: str, *arguments: np.ndarray) -> np.ndarray | None:
        """Return the stored result of ``kind`` for float64 vectors, or None.

        A damaged file is taken away with a warning; the result is then computed anew.
        """
        name = self._name(kind, arguments)
        path = self._path(name)
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
                if str(file["question"]) != name:
                    raise ValueError
                result = np.array(file["result"], dtype=np.float64)
        except FileNotFoundError:
            return None
        except _DAMAGED:
            warnings.warn(f"The stored result {path} is damaged; it is computed again.", RuntimeWarning, stacklevel=2)
            with suppress(OSError):
                path.unlink(missing_ok=True)
            return None
        with suppress(OSError):
            os.utime(path)  # what is used stays longest
        return result

    def put(self, kind: str, result: np.ndarray, *arguments: np.ndarray) -> None:
        """Store a result. A full disk is no error: the result is then computed again another time."""
        if not np.isfinite(result).all():
            return
        name = self._name(kind, arguments)
        path = self._path(name)
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, part = tempfile.mkstemp(prefix=".part", dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as stream:
                    np.savez(stream, question=np.array(name), result=result)
                Path(part).replace(path)
            finally:
                Path(part).unlink(missing_ok=True)
        with self._lock:
            self._writes += 1
            look = self._writes % _LOOK_EVERY == 1
        if look:
            self.shrink()

    def shrink(self) -> None:
        """Delete the files longest unused until the folder is below nine tenths of its limit."""
        files: list[tuple[float, int, Path]] = []
        for path in self.folder.glob("*/*"):
            with suppress(OSError):  # others delete too
                about = path.stat()
                if path.suffix == ".npz":
                    files.append((about.st_mtime, about.st_size, path))
                elif path.name.startswith(".part") and time.time() - about.st_mtime > 3600:
                    path.unlink(missing_ok=True)  # left by a process that was killed
        total = sum(size for _, size, _ in files)
        if total <= self.max_bytes:
            return
        for _, size, path in sorted(files):
            if total <= 0.9 * self.max_bytes:
                break
            with suppress(OSError):
                path.unlink(missing_ok=True)
                total -= size

    def _name(self, kind: str, arguments: tuple[np.ndarray, ...]) -> str:
        sha = self._start.copy()
        sha.update(kind.encode())
        for argument in arguments:
            sha.update(f"|{argument.shape}|".encode())
            sha.update(np.ascontiguousarray(argument, dtype="<f8"))
        return sha.hexdigest()

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / f"{name}.npz"


def open_store(reload_results: Any, key: str | None) -> ResultStore | None:
    """Return the store that ``reload_results`` asks for (False, True, a folder or a store)."""
    if isinstance(reload_results, ResultStore):
        return reload_results
    if reload_results is False or reload_results is None:
        return None
    if reload_results is True:
        return ResultStore(None, key)
    if isinstance(reload_results, (str, Path)):
        return ResultStore(reload_results, key)
    msg = f"reload_results must be False, True, a folder or a ResultStore, not {reload_results!r}."
    raise SettingError(msg)
