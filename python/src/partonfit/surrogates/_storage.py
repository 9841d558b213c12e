"""A surrogate in one file: arrays and a JSON text; nothing in it is ever executed."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from partonfit._errors import StorageError
from partonfit._files import write_file
from partonfit.surrogates._scaling import Scaling
from partonfit.surrogates._surrogate import Surrogate

FORMAT = 1
_PLAIN = ("n_state", "n_obs", "statuses", "settings", "versions", "model", "key", "name", "linear")
_SCALING = ("state_mean", "state_sd", "obs_mean", "obs_sd")


def surrogate_to_bytes(surrogate: Surrogate) -> bytes:
    """Return the content of a surrogate's file."""
    description = {name: getattr(surrogate, name) for name in _PLAIN} | {"format": FORMAT}
    arrays = {f"scaling_{name}": getattr(surrogate.scaling, name) for name in _SCALING}
    arrays |= {f"history_{name}": values for name, values in surrogate.history.items()}
    arrays |= {f"error_{name}": np.asarray(value) for name, value in surrogate.errors.items()}
    for group, leaves in zip(("trainable", "non_trainable"), surrogate.weights, strict=True):
        arrays |= {f"{group}_{i:04d}": leaf for i, leaf in enumerate(leaves)}
    text = json.dumps(description, allow_nan=False).encode()
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, description=np.frombuffer(text, dtype=np.uint8), **arrays)
    return stream.getvalue()


def surrogate_from_bytes(content: bytes, where: str = "this file") -> Surrogate:
    """Rebuild a surrogate from the content of its file."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        description = json.loads(arrays.pop("description").tobytes())
        version = description.pop("format")
        if version != FORMAT:
            msg = f"{where} has format {version!r}; this version of partonfit reads format {FORMAT}."
            raise StorageError(msg)
        description["statuses"] = tuple(description["statuses"])
        errors = {name: _number(value) for name, value in _group(arrays, "error_").items()}
        weights: Any = tuple(
            tuple(v for _, v in sorted(_group(arrays, g).items())) for g in ("trainable_", "non_trainable_")
        )
        scaling = Scaling(**_group(arrays, "scaling_"))
        return Surrogate(
            **description, errors=errors, history=_group(arrays, "history_"), scaling=scaling, weights=weights
        )  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError, zipfile.BadZipFile, EOFError, OSError) as error:
        msg = f"{where} is not a complete partonfit surrogate ({type(error).__name__}: {error})."
        raise StorageError(msg) from error


def save_surrogate(surrogate: Surrogate, file: str | Path, *, overwrite: bool = False) -> Path:
    """Write ``surrogate`` to ``file``, which is complete or absent afterwards."""
    return write_file(file, surrogate_to_bytes(surrogate), overwrite=overwrite)


def load_surrogate(file: str | Path) -> Surrogate:
    """Read a surrogate that :meth:`Surrogate.save` wrote.

    Parameters
    ----------
    file
        Its file. Networks with layers of your own need those registered with Keras first
        (``keras.saving.register_keras_serializable``).

    Returns
    -------
    Surrogate

    Raises
    ------
    StorageError
        When there is no such file, or it holds no complete surrogate.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import partonfit as pf
    >>> op = pf.matrix_operator([[1.0, 2.0], [0.0, 3.0]])
    >>> surrogate = pf.fit_surrogate(op, lambda rng, n: rng.normal(size=(n, 2)), samples=40, epochs=20, seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = surrogate.save(pathlib.Path(folder) / "surrogate.npz")
    ...     again = pf.load_surrogate(file)
    >>> bool((again.forward([1.0, 2.0]) == surrogate.forward([1.0, 2.0])).all())
    True
    """
    path = Path(file).expanduser()
    try:
        content = path.read_bytes()
    except OSError as error:
        msg = f"Cannot read {path}: {error.strerror or error}."
        raise StorageError(msg) from error
    return surrogate_from_bytes(content, str(path))


def _group(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def _number(value: np.ndarray) -> Any:
    return float(value) if value.ndim == 0 else value
