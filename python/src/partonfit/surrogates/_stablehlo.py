"""Export to StableHLO by ``jax.export``: for other JAX versions, and for compilers that read it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from partonfit._files import check_writable, write_file
from partonfit.surrogates._network import tracing
from partonfit.surrogates._onnx import Export, checked_parts, described, exported_function, write_parts
from partonfit.surrogates._surrogate import Surrogate


def export_stablehlo(
    surrogate: Surrogate,
    file: str | Path,
    *,
    parts: Iterable[str] | None = None,
    platforms: Sequence[str] = ("cpu", "cuda"),
    overwrite: bool = False,
) -> Export:
    """Write a surrogate as StableHLO, to be called from JAX without partonfit and Keras.

    ``jax.export.deserialize(bytearray(file content)).call(x)`` gives y (batch, observation) for x
    (batch, state), float32, for any batch. The derivatives are files of their own beside the first,
    and ``<file>.json`` holds sizes, normalisation and versions. Each part is read back and compared with
    the surrogate to 1e-5 before it is written.

    Parameters
    ----------
    surrogate
        Made by :func:`fit_surrogate`.
    file
        File of the forward part.
    parts
        Of "forward", "tangent_linear" and "adjoint"; ``None``: all.
    platforms
        What the program is to run on.
    overwrite
        Whether existing files are replaced.

    Returns
    -------
    Export

    Raises
    ------
    OperatorError
        When a part cannot be exported or does not agree.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import jax, numpy as np, partonfit as pf
    >>> op = pf.matrix_operator([[1.0, 2.0], [0.0, 3.0]])
    >>> surrogate = pf.fit_surrogate(op, lambda rng, n: rng.normal(size=(n, 2)), samples=40, epochs=20, seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = pf.export_stablehlo(surrogate, pathlib.Path(folder) / "surrogate.bin")
    ...     program = jax.export.deserialize(bytearray(written.files["forward"].read_bytes()))
    >>> program.call(np.ones((7, 2), dtype="float32")).shape
    (7, 2)
    """
    path = Path(file)
    places = {
        part: path if part == "forward" else path.with_name(f"{path.stem}_{part}{path.suffix}")
        for part in checked_parts(surrogate, parts)
    }
    note = path.with_name(path.name + ".json")
    for place in (*places.values(), note):
        check_writable(place, overwrite=overwrite)

    def make(surrogate: Surrogate, part: str) -> tuple[bytes, Callable[..., np.ndarray]]:
        function, sizes = exported_function(surrogate, part)
        with tracing("float32"):
            (batch,) = jax.export.symbolic_shape("batch")
            shapes = [jax.ShapeDtypeStruct((batch, size), jnp.float32) for size in sizes]
            content = bytes(jax.export.export(jax.jit(function), platforms=tuple(platforms))(*shapes).serialize())
        program = jax.export.deserialize(bytearray(content))
        return content, lambda *given: np.asarray(program.call(*given))

    result = write_parts(surrogate, places, True, make, overwrite)
    metadata = {part: described(surrogate, part) for part in result.files}
    write_file(note, json.dumps(metadata, indent=1), overwrite=overwrite)
    return result
