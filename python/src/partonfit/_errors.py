"""The exceptions that partonfit raises, and the nearest-name suggestion their messages share.

A message says what is wrong (name, index, value), what was expected and what to do. The R package
turns each class into a condition of the same kind, so the class names are part of the interface.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PartonfitError(Exception):
    """Base of every error that partonfit raises on purpose."""

    kind = "error"


class DataError(PartonfitError):
    """A dataset is unknown, incomplete or inconsistent."""

    kind = "data"


class TheoryError(PartonfitError):
    """A theory table is unknown, unreadable or does not match its dataset."""

    kind = "theory"


class SettingError(PartonfitError, ValueError):
    """A setting has the wrong name, type or value."""

    kind = "setting"


class OperatorError(PartonfitError):
    """An observation operator is wrong, or is asked for what it cannot give."""

    kind = "operator"


class FitError(PartonfitError):
    """A fit as a whole cannot go on (a single replica never raises: it carries a status)."""

    kind = "fit"


class StorageError(PartonfitError):
    """A file or folder cannot be read or written."""

    kind = "storage"


class MissingDependencyError(PartonfitError, ImportError):
    """An optional library is needed for what was asked."""

    kind = "dependency"


def nearest(name: str, known: Iterable[str], *, what: str = "name") -> str:
    """Return a sentence that suggests the known name closest to ``name``.

    Parameters
    ----------
    name
        What the user wrote.
    known
        The names that would have been accepted.
    what
        The noun used in the sentence.

    Examples
    --------
    >>> nearest("herra", ["hera", "bcdms"], what="dataset")
    "Did you mean 'hera'?"
    """
    names = sorted(set(known))
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    if not close:
        folded = {n.casefold(): n for n in names}
        close = [folded[m] for m in difflib.get_close_matches(str(name).casefold(), folded, n=1, cutoff=0.4)]
    if close:
        return f"Did you mean '{close[0]}'?"
    several = {"theory": "theories", "basis": "bases"}.get(what, f"{what}s")
    if len(names) <= 12:
        return f"Known {several}: {', '.join(names)}."
    return f"There are {len(names)} known {several}."
