"""What the command line shows: live progress, tables, and errors as one message."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from typer.core import TyperGroup

from partonfit._errors import PartonfitError, SettingError, StorageError, nearest

USAGE, FAILURE, INTERRUPTED = 2, 1, 130


def console() -> Console:
    """Return the console for results (standard output), made afresh so that redirection is seen."""
    width = None if sys.stdout.isatty() else 160  # a file or pipe has no width to respect
    return Console(highlight=False, soft_wrap=True, width=width)


def errors() -> Console:
    """Return the console for progress and errors (standard error): pipes get results only."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def existing_card(card: str) -> str:
    """Return the path of a runcard, or raise :class:`StorageError` with the nearest one in this folder."""
    if not Path(card).is_file():
        hint = nearest(card, ["hera", *(p.name for p in Path().glob("*.y*ml"))], what="card")
        msg = f"There is no runcard '{card}'. {hint}"
        raise StorageError(msg)
    return card


def load_fit(folder: Path) -> Any:
    """Read the fit in ``folder``."""
    from partonfit._fit import load_fit as read

    return read(folder)


def load_reference(folder: Path) -> Any:
    """Read what a fit is compared with: another fit, or an LHAPDF set."""
    if (folder / "fit.json").is_file():
        return load_fit(folder)
    from partonfit.results import read_lhapdf

    return read_lhapdf(folder)


class Commands(TyperGroup):
    """The group of all commands: a known error becomes one message and an exit code, no traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; exit with 2 for a wrong setting, with 1 when the work failed."""
        try:
            return super().invoke(ctx)
        except PartonfitError as error:
            errors().print(f"[bold red]Error:[/] {escape(str(error))}")
            raise typer.Exit(USAGE if isinstance(error, SettingError) else FAILURE) from None
        except KeyboardInterrupt:
            errors().print("[bold]Interrupted.[/] Nothing was written.")
            raise typer.Exit(INTERRUPTED) from None


@contextmanager
def fit_progress(*, shown: bool = True) -> Iterator[Any]:
    """Give a callback ``(step, total, metrics)`` that shows epochs, chi2, living replicas and time left."""
    if not shown:
        yield None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("{task.fields[chi2]}"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with _quiet_progress(*columns) as bar:
        task = bar.add_task("loading and compiling", total=None, chi2="")

        def show(step: int, total: int, metrics: dict[str, float]) -> None:
            bar.update(task, description="epoch", completed=step, total=total, chi2=chi2_words(metrics))

        yield show


def chi2_words(metrics: dict[str, float]) -> str:
    """Return the metrics of a fit as a few words.

    Examples
    --------
    >>> chi2_words({"training": 1.21, "validation": 1.34, "running": 7, "members": 10})
    'chi2/N 1.21 training, 1.34 validation, 7/10 running'
    """
    words = []
    training = metrics.get("training", metrics.get("loss"))
    if training is not None and "validation" in metrics:
        words.append(f"chi2/N {training:.3g} training, {metrics['validation']:.3g} validation")
    if "running" in metrics and "members" in metrics:
        words.append(f"{metrics['running']:.0f}/{metrics['members']:.0f} running")
    return ", ".join(words)


@contextmanager
def step_progress(what: str) -> Iterator[Any]:
    """Give a callback ``(step, total, metrics)`` for a plain count of steps."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with _quiet_progress(*columns, TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn()) as bar:
        task = bar.add_task(what, total=None)

        def show(step: int, total: int, metrics: dict[str, float]) -> None:
            words = what if "q2" not in metrics else f"{what}, Q2 = {metrics['q2']:.4g} GeV2"
            bar.update(task, completed=step, total=total, description=words)

        yield show


def _quiet_progress(*columns: Any) -> Progress:
    """Return a bar that is live in a terminal and silent in a log file."""
    return Progress(*columns, console=errors(), transient=True, disable=not sys.stderr.isatty())


def table(title: str, headings: Sequence[str], rows: Sequence[Sequence[Any]], *, left: int = 1) -> None:
    """Print rows as a table; the first ``left`` columns are text, the others numbers."""
    shown = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for i, heading in enumerate(headings):
        shown.add_column(heading, justify="left" if i < left else "right", overflow="fold")
    for row in rows:
        shown.add_row(*(escape(str(cell)) for cell in row))
    console().print(shown)
