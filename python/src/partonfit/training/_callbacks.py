"""What is called between chunks of epochs: progress, logs, a user's own function.

A callback is a function ``(step, total, metrics)``, called on the caller's thread. It may have the
methods ``open(resumed)``, called before training, and ``close()``, called at the end. An exception
in one ends the training and keeps the best so far: hours of work are not lost to a typing error.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from partonfit._errors import MissingDependencyError, SettingError, StorageError
from partonfit._files import check_folder

Callback = Callable[[int, int, dict[str, float]], Any]
"""``callback(step, total, metrics)``."""


class CSVLogger:
    """Write a line to a CSV file after every chunk of epochs.

    The columns are ``epoch`` (mean of the running members), ``seconds`` (since training began),
    ``running`` and ``members`` (numbers of members), ``training`` and ``validation`` (medians of the
    best so far; chi2 per point for a PDF fit, else the losses). An unknown value is left empty.

    Parameters
    ----------
    file
        Where to write. A file that exists is replaced, except by a fit that is resumed: that one
        goes on below the lines that are there.

    Raises
    ------
    StorageError
        When the file cannot be written, before training begins.

    Examples
    --------
    >>> import partonfit as pf
    >>> fit = pf.fit_pdf("hera", replicas=1, callbacks=[pf.CSVLogger("fit.csv")])  # doctest: +SKIP
    """

    columns = ("epoch", "seconds", "running", "members", "training", "validation")

    def __init__(self, file: str | Path) -> None:
        self.file = Path(file).expanduser()
        self._stream: Any = None

    def open(self, resumed: bool = False) -> None:
        """Start the file, or go on with it."""
        goes_on = resumed and self.file.is_file() and self.file.stat().st_size > 0
        try:
            self._stream = self.file.open("a" if goes_on else "w", newline="", encoding="utf-8")
        except OSError as error:
            msg = f"Cannot write {self.file}: {error.strerror}. Choose a file in a folder you may write to."
            raise StorageError(msg) from None
        if not goes_on:
            csv.writer(self._stream).writerow(self.columns)
            self._stream.flush()

    def __call__(self, step: int, total: int, metrics: dict[str, float]) -> None:
        """Write one line."""
        if self._stream is None:
            self.open()
        stream: Any = self._stream
        values = {"training": metrics.get("loss"), **metrics, "epoch": step}
        row = ["" if values.get(name) is None else format(values[name], ".9g") for name in self.columns]
        csv.writer(stream).writerow(row)
        stream.flush()  # a fit that is killed leaves every line it got to

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None


class TensorBoard:
    """Write the metrics after every chunk of epochs for TensorBoard.

    Parameters
    ----------
    folder
        Where the event files go; look at them with ``tensorboard --logdir FOLDER``.

    Raises
    ------
    MissingDependencyError
        When the library tensorboardX is not installed.
    StorageError
        When the folder cannot be written, before training begins.

    Examples
    --------
    >>> import partonfit as pf
    >>> fit = pf.fit_pdf("hera", replicas=1, callbacks=[pf.TensorBoard("runs/first")])  # doctest: +SKIP
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            import tensorboardX  # noqa: F401
        except ImportError:
            msg = (
                "TensorBoard logs need the library tensorboardX. Install it with: pip install 'partonfit[tensorboard]'"
            )
            raise MissingDependencyError(msg) from None
        self.folder = Path(folder).expanduser()
        self._writer: Any = None

    def open(self, resumed: bool = False) -> None:
        """Start an event file; TensorBoard joins it to those of the same folder."""
        from tensorboardX import SummaryWriter

        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            msg = f"Cannot write {self.folder}: {error.strerror}. Choose a folder you may write to."
            raise StorageError(msg) from None
        check_folder(self.folder, self.folder)
        self._writer = SummaryWriter(str(self.folder))

    def __call__(self, step: int, total: int, metrics: dict[str, float]) -> None:
        """Write every metric at epoch ``step``."""
        if self._writer is None:
            self.open()
        writer: Any = self._writer
        for name, value in metrics.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    def close(self) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def checked_callbacks(callbacks: Any) -> tuple[Callback, ...]:
    """Return ``callbacks`` (one, several or ``None``) as a tuple, or raise :class:`SettingError`.

    Examples
    --------
    >>> checked_callbacks(print)
    (<built-in function print>,)
    """
    if callbacks is None:
        return ()
    several = isinstance(callbacks, Iterable) and not callable(callbacks)
    found: tuple[Any, ...] = tuple(callbacks) if several else (callbacks,)
    for callback in found:
        if not callable(callback):
            msg = (
                "A callback must be a function (step, total, metrics), CSVLogger or TensorBoard of partonfit, not "
                f"{type(callback).__module__}.{type(callback).__name__}. Those of Keras' own fit() do not work here."
            )
            raise SettingError(msg)
    return found


class Callbacks:
    """Calls the callbacks in their order, and keeps what the first failing one raised."""

    def __init__(self, callbacks: Iterable[Callback], shown: Callable[[dict], dict] | None = None) -> None:
        self.callbacks, self.shown = tuple(callbacks), shown or dict
        self.error: Exception | None = None
        self.words = ""
        self.interrupted = False

    @property
    def stopped(self) -> bool:
        """Whether one of them ended the training."""
        return self.interrupted or self.error is not None

    def open(self, resumed: bool) -> None:
        """Call every ``open``; an error here is raised, for nothing has been trained yet."""
        for callback in self.callbacks:
            if hasattr(callback, "open"):
                callback.open(resumed)

    def __call__(self, step: int, total: int, metrics: dict[str, float]) -> None:
        """Call each once, with the metrics as they are shown."""
        metrics = self.shown(metrics)
        for callback in self.callbacks:
            try:
                callback(step, total, dict(metrics))
            except KeyboardInterrupt:
                self.interrupted = True
            except Exception as error:
                self._failed(callback, step, error)

    def close(self) -> None:
        """Call every ``close``, whatever the others do."""
        for callback in self.callbacks:
            if hasattr(callback, "close"):
                try:
                    callback.close()
                except Exception as error:
                    self._failed(callback, -1, error)

    def _failed(self, callback: Callback, step: int, error: Exception) -> None:
        name = getattr(callback, "__qualname__", type(callback).__name__)
        when = f"at epoch {step} and ended the fit; the best so far is kept" if step >= 0 else "at the end"
        if self.error is None:
            self.error, self.words = error, f"The callback {name} raised {type(error).__name__}: {error} ({when})."

    def warn(self) -> None:
        """Say what one of them raised, once everything is safe."""
        if self.error is not None:
            warnings.warn(self.words, RuntimeWarning, stacklevel=4)
