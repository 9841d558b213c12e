"""Checks of scalar settings, shared by every layer."""

from __future__ import annotations

import math
import operator
from typing import Any

from partonfit._errors import SettingError


def whole(name: str, value: Any, *, least: int) -> int:
    """Return ``value`` as an int of at least ``least``, or raise :class:`SettingError`."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        msg = f"{name} must be a whole number, not {value!r}."
        raise SettingError(msg) from None
    if number < least:
        msg = f"{name} must be at least {least}, not {number}."
        raise SettingError(msg)
    return number


def real(name: str, value: Any, *, above: float = -math.inf, most: float = math.inf) -> float:
    """Return ``value`` as a finite float in (above, most], or raise :class:`SettingError`."""
    try:
        if isinstance(value, (bool, str)):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError):
        msg = f"{name} must be a number, not {value!r}."
        raise SettingError(msg) from None
    if not (above < number <= most) or math.isinf(number):
        limits = f"above {above:g}" + ("" if math.isinf(most) else f" and at most {most:g}")
        msg = f"{name} must be {limits}, not {value!r}."
        raise SettingError(msg)
    return number
