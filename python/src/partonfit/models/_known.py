"""What users may give where a PDF is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from partonfit._errors import SettingError, nearest
from partonfit.models._toy import toy_pdf

PDF = Callable[[np.ndarray], Any]
"""``pdf(x) -> (14, x)``: x f at Q0 in the evolution basis."""

_NAMED: dict[str, PDF] = {"toy": toy_pdf}


def resolve_pdf(pdf: Any) -> PDF:
    """Return a pdf callable from a name or a callable, checked on a few points.

    Examples
    --------
    >>> resolve_pdf("toy")(np.array([0.1])).shape
    (14, 1)
    """
    if isinstance(pdf, str):
        if pdf not in _NAMED:
            msg = f"Unknown PDF {pdf!r}. {nearest(pdf, _NAMED, what='PDF')}"
            raise SettingError(msg)
        return _NAMED[pdf]
    if not callable(pdf):
        msg = f"A PDF is a name or a function of x that returns (14, x); got {type(pdf).__name__}."
        raise SettingError(msg)
    probe = np.asarray(pdf(np.array([1e-3, 0.1, 0.5])))
    if probe.shape != (14, 3):
        msg = f"pdf(x) must return an array (14, len(x)); for 3 points this one returned {probe.shape}."
        raise SettingError(msg)
    if not np.isfinite(probe).all():
        msg = "pdf(x) returned values that are not finite at x = 1e-3, 0.1 or 0.5."
        raise SettingError(msg)
    return pdf
