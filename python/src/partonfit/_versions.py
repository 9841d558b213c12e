"""Versions of the libraries a result was made with."""

from __future__ import annotations

from importlib import metadata


def version(library: str) -> str:
    """Return the version of a library; ``"unknown"`` where no distribution of that name is installed.

    The R package carries this package as plain files, without the metadata that pip writes: this
    package's own version comes from itself, so that a fit also works there.

    Parameters
    ----------
    library
        The name pip knows it by, such as ``"nnpdf-data"``.

    Examples
    --------
    >>> version("no-such-library")
    'unknown'
    """
    if library == "partonfit":
        from partonfit import __version__

        return __version__
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "unknown"
