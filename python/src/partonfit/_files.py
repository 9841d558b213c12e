"""Writing so that a file or folder is complete or absent."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from partonfit._errors import StorageError


def check_writable(target: str | Path, *, overwrite: bool = False) -> Path:
    """Return ``target`` as a path after checking that it can be written.

    Raises
    ------
    StorageError
        When it exists (unless ``overwrite``), or its parent is missing, no folder or read-only.

    Examples
    --------
    >>> check_writable("/no/such/folder/fit")
    Traceback (most recent call last):
        ...
    partonfit._errors.StorageError: Cannot write /no/such/folder/fit: the folder /no/such/folder does not exist. ...
    """
    path = Path(target).expanduser()
    parent = path.absolute().parent
    if path.exists() and not overwrite:
        msg = f"{path} exists already. Choose another name, or set overwrite to replace it."
        raise StorageError(msg)
    if not parent.is_dir():
        reason = "does not exist" if not parent.exists() else "is not a folder"
        msg = f"Cannot write {path}: the folder {parent} {reason}. Create it first or choose another."
        raise StorageError(msg)
    check_folder(parent, path)
    return path


def check_folder(folder: Path, path: Path) -> None:
    """Raise :class:`StorageError` when nothing can be written in ``folder``, where ``path`` is to go."""
    try:
        # Permission bits say nothing to root or on read-only mounts: only trying does.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        msg = f"Cannot write {path}: {error.strerror or error}. Choose a folder you may write to."
        raise StorageError(msg) from None


@contextmanager
def new_folder(target: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Give a fresh folder to fill; it becomes ``target`` when the block ends without an error."""
    path = check_writable(target, overwrite=overwrite)
    work = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.absolute().parent))
    try:
        yield work
        _umask_mode(work, 0o777)
        if path.exists():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        work.rename(path)
    except OSError as error:
        msg = f"Writing {path} failed: {error.strerror or error}. Nothing was left behind."
        raise StorageError(msg) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def write_file(target: str | Path, content: bytes | str, *, overwrite: bool = False) -> Path:
    """Write ``content`` to ``target`` by way of a temporary file beside it."""
    path = check_writable(target, overwrite=overwrite)
    raw = content.encode() if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.absolute().parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(raw)
        _umask_mode(Path(name), 0o666)
        Path(name).replace(path)
    except OSError as error:
        msg = f"Writing {path} failed: {error.strerror or error}. Nothing was left behind."
        raise StorageError(msg) from error
    finally:
        Path(name).unlink(missing_ok=True)
    return path


def _umask_mode(path: Path, mode: int) -> None:
    """Give ``path`` the permissions an ordinary new file has (temporary ones are private)."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(mode & ~mask)
