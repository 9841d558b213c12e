"""What the R package calls for surrogates: the part of the bridge beside fits and operators.

Like fits, surrogates live here under an id (a hash of their bytes), a few at a time; R keeps the bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import partonfit as pf
from partonfit import _columns
from partonfit._bridge_keras import callbacks_of, keras_object
from partonfit._bridge_operators import Handle
from partonfit._errors import StorageError
from partonfit.surrogates._storage import surrogate_from_bytes, surrogate_to_bytes

_KEEP = 4
_surrogates: OrderedDict[str, Any] = OrderedDict()


def fit_surrogate(
    handle: Handle,
    states: np.ndarray,
    loss: Mapping[str, Any],
    network: str | None,
    settings: Mapping[str, Any],
    progress: Callable[[int, int, dict[str, float]], Any] | None = None,
) -> dict[str, Any]:
    """Train a surrogate of an operator and return everything the R object holds.

    Parameters
    ----------
    handle
        Of the operator.
    states
        (sample, state).
    loss
        Arguments of :func:`partonfit.surrogate_loss`.
    network
        JSON text of a Keras model, or ``None`` for the default.
    settings
        Further arguments of :func:`partonfit.fit_surrogate`.
    progress
        Called with (step, total, metrics), metrics being plain floats.
    """

    def report(step: int, total: int, metrics: Mapping[str, Any]) -> None:
        if progress is not None:
            progress(int(step), int(total), {name: float(value) for name, value in metrics.items()})

    options = {name: value for name, value in settings.items() if name != "unset"}
    options["hidden"] = tuple(int(n) for n in options["hidden"])
    options["callbacks"] = callbacks_of(options.get("callbacks"))
    found = pf.fit_surrogate(
        handle.value, np.ascontiguousarray(states, dtype=float), loss=pf.surrogate_loss(**loss),
        model=None if network is None else keras_object(network), progress=report, **options,
    )  # fmt: skip
    return {"seed": int(found.settings["seed"]), **_kept(found)}


def _kept(found: Any) -> dict[str, Any]:
    state = surrogate_to_bytes(found)
    name = hashlib.sha256(state).hexdigest()
    _remember(name, found)
    epoch = np.asarray(found.history["epoch"], dtype=np.int64)
    lines = {key: np.asarray(found.history[key], dtype=float).reshape(-1, len(epoch)) for key in ("loss", "validation")}
    lived = np.isfinite(lines["loss"]) | np.isfinite(lines["validation"])
    member = np.broadcast_to(np.arange(len(lived), dtype=np.int64)[:, None], lived.shape)
    numbers = {kind: value for kind, value in found.errors.items() if np.ndim(value) == 0 and value is not None}
    return {
        "id": name,
        "state": bytearray(state),
        "n_state": int(found.n_state),
        "n_obs": int(found.n_obs),
        "n_members": int(found.n_members),
        "name": found.name,
        "settings": json.dumps(found.settings, default=str),
        "statuses": list(found.statuses),
        "errors": {"what": list(numbers), "error": _columns.column(numbers.values(), "number")},
        "observation_errors": np.ascontiguousarray(found.errors["observation"], dtype=float),
        "calls": {kind: int(count) for kind, count in found.settings["calls"].items()},
        "history": {
            "member": member[lived],
            "epoch": np.broadcast_to(epoch, lived.shape)[lived],
            "loss": lines["loss"][lived],
            "validation": lines["validation"][lived],
        },
    }


def _remember(name: str, surrogate: Any) -> None:
    _surrogates[name] = surrogate
    _surrogates.move_to_end(name)
    while len(_surrogates) > _KEEP:
        _surrogates.popitem(last=False)


def is_surrogate_loaded(name: str) -> bool:
    """Say whether the surrogate with this id is in memory."""
    return name in _surrogates


def load_surrogate_state(name: str, state: bytes | bytearray) -> None:
    """Rebuild a surrogate from its bytes and keep it under its id."""
    _remember(name, surrogate_from_bytes(bytes(state)))


def _recall(name: str) -> Any:
    if name not in _surrogates:
        msg = f"The surrogate {name[:12]} is not loaded. Call load_surrogate_state() with its bytes first."
        raise StorageError(msg)
    _surrogates.move_to_end(name)
    return _surrogates[name]


def surrogate_handle(name: str) -> Handle:
    """Return the surrogate as an operator."""
    return Handle(_recall(name))


def predict_surrogate(name: str, x: np.ndarray) -> dict[str, np.ndarray]:
    """Return ``mean`` and ``sd`` (sample, observation) and ``members`` (member, sample, observation)."""
    found = _recall(name).predict(np.ascontiguousarray(x, dtype=float))
    return {part: np.ascontiguousarray(getattr(found, part), dtype=float) for part in ("mean", "sd", "members")}


def save_surrogate(name: str, file: str, overwrite: bool) -> str:
    """Write the surrogate's file, which Python reads too, and return its path."""
    return str(_recall(name).save(file, overwrite=overwrite))


def read_surrogate(file: str) -> dict[str, Any]:
    """Read a surrogate's file and return everything the R object holds."""
    found = pf.load_surrogate(file)
    return {"seed": int(found.settings["seed"]), **_kept(found)}


def export_surrogate(name: str, file: str, parts: list[str] | None, overwrite: bool, form: str) -> dict[str, Any]:
    """Export as ``form`` "onnx" or "stablehlo" and return the written and the refused parts as columns."""
    export = pf.export_onnx if form == "onnx" else pf.export_stablehlo
    found = export(_recall(name), file, parts=parts, overwrite=overwrite)
    return {
        "written": {
            "part": list(found.files),
            "file": [str(path) for path in found.files.values()],
            "error": _columns.column((found.errors[part] for part in found.files), "number"),
        },
        "refused": {"part": list(found.refused), "reason": list(found.refused.values())},
    }
