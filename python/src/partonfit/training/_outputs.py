"""Losses, labels and metrics of models with one or several outputs."""

from __future__ import annotations

from typing import Any

import keras

from partonfit._errors import SettingError


def by_output(wanted: Any, outputs: Any, names: list[str], what: str) -> list[Any]:
    """Return one entry of ``wanted`` per output of the model, in the order of the outputs.

    A dict is looked up by the outputs' names, a list by position; one entry alone serves all.
    """
    if isinstance(outputs, dict):
        names = sorted(outputs)
    count = len(outputs) if isinstance(outputs, (dict, list, tuple)) else 1
    if isinstance(wanted, dict):
        unknown = sorted(set(wanted) - set(names))
        if unknown or len(names) != count:
            msg = f"{what}: the model has the outputs {', '.join(names)}; it has no {', '.join(unknown)}."
            raise SettingError(msg)
        return [wanted.get(name) for name in names]
    if isinstance(wanted, (list, tuple)):
        if len(wanted) != count:
            msg = f"{what} has {len(wanted)} entries, but the model has {count} output{'s' if count > 1 else ''}."
            raise SettingError(msg)
        return list(wanted)
    return [wanted] * count


def as_list(outputs: Any) -> list[Any]:
    """Return the outputs of a model (one, a list or a dict) as a list."""
    # JAX sorts the keys of a dict whenever one goes through it.
    return [outputs[name] for name in sorted(outputs)] if isinstance(outputs, dict) else keras.tree.flatten(outputs)


def output_names(model: keras.Model) -> list[str]:
    """Return the names of the model's outputs, where it knows them."""
    return list(getattr(model, "output_names", None) or [])
