"""ONNX export, checked with onnxruntime before anything is kept."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from partonfit._errors import MissingDependencyError, OperatorError, SettingError, nearest
from partonfit._files import check_writable, write_file
from partonfit.surrogates._network import tracing
from partonfit.surrogates._surrogate import Surrogate

TOLERANCE = 1e-5
PARTS = ("forward", "tangent_linear", "adjoint")
_OPSET = 21  # understood by every onnxruntime since 1.20
_INLINE = {"pjit", "jit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint"}
_INPUTS = {"forward": ("x",), "tangent_linear": ("x", "dx"), "adjoint": ("x", "dy")}
_OUTPUTS = {"forward": "y", "tangent_linear": "dy", "adjoint": "dx"}


@dataclass(frozen=True)
class Export:
    """What :func:`export_onnx` or :func:`export_stablehlo` wrote.

    Attributes
    ----------
    files
        Path per part ("forward", "tangent_linear", "adjoint").
    errors
        Largest difference per part between the file, run by the library that reads it, and the surrogate
        in float64, relative to the largest element of the output.
    refused
        Reason per part that was not written.
    """

    files: dict[str, Path]
    errors: dict[str, float]
    refused: dict[str, str]


def export_onnx(
    surrogate: Surrogate, file: str | Path, *, parts: Iterable[str] | None = None, overwrite: bool = False
) -> Export:
    """Write a surrogate as ONNX, for programs without Python or JAX.

    Each part is a model of its own: ``forward`` (x -> y) in ``file``, and the derivatives beside it in
    ``<name>_tangent_linear.onnx`` (x, dx -> dy) and ``<name>_adjoint.onnx`` (x, dy -> dx). Inputs and
    outputs are float32 with shape (batch, size) and any batch, in physical units: the normalisation is
    part of the graph, and an ensemble gives its mean. Every part is run by onnxruntime with several
    batches before it is written, and must agree with the surrogate to 1e-5.

    Parameters
    ----------
    surrogate
        Made by :func:`fit_surrogate`.
    file
        File of the forward part, ``.onnx``.
    parts
        Of "forward", "tangent_linear" and "adjoint"; one that cannot be right is then an error. ``None``:
        the forward part, and the derivatives where they can be exported.
    overwrite
        Whether existing files are replaced.

    Returns
    -------
    Export
        Files, measured errors, and the reasons of what was refused. Sizes, normalisation and versions
        are in the metadata of each model.

    Raises
    ------
    MissingDependencyError
        Without jax2onnx, onnx and onnxruntime: ``pip install "partonfit[onnx]"``.
    OperatorError
        When a part cannot be exported, or its values do not agree; nothing is written then.

    Examples
    --------
    >>> import partonfit as pf
    >>> surrogate = pf.fit_surrogate(op, states)  # doctest: +SKIP
    >>> pf.export_onnx(surrogate, "surrogate.onnx").errors  # doctest: +SKIP
    {'forward': 2.1e-07, 'tangent_linear': 3.3e-07, 'adjoint': 2.7e-07}
    """
    wanted = checked_parts(surrogate, parts)
    path = Path(file)
    if path.suffix != ".onnx":
        msg = f"An ONNX file is called something.onnx, not {path.name!r}."
        raise SettingError(msg)
    for name in ("jax2onnx", "onnx", "onnxruntime"):
        try:
            import_module(name)
        except ImportError as error:
            msg = f'ONNX export needs {name}: pip install "partonfit[onnx]".'
            raise MissingDependencyError(msg) from error
    places = {part: path if part == "forward" else path.with_name(f"{path.stem}_{part}.onnx") for part in wanted}
    for place in places.values():
        check_writable(place, overwrite=overwrite)
    return write_parts(surrogate, places, parts is not None, _onnx_part, overwrite)


def checked_parts(surrogate: Any, parts: Iterable[str] | None) -> tuple[str, ...]:
    """Return the parts to export."""
    if not isinstance(surrogate, Surrogate):
        msg = f"Only a surrogate can be exported, not {type(surrogate).__name__}: train one with fit_surrogate()."
        raise SettingError(msg)
    wanted = PARTS if parts is None else (parts,) if isinstance(parts, str) else tuple(parts)
    for part in wanted:
        if part not in PARTS:
            msg = f"Unknown part {part!r}. {nearest(str(part), PARTS, what='part')}"
            raise SettingError(msg)
    if not wanted:
        msg = f"parts must name at least one of {', '.join(PARTS)}."
        raise SettingError(msg)
    return wanted


def write_parts(
    surrogate: Surrogate,
    places: dict[str, Path],
    strict: bool,
    make: Callable[[Surrogate, str], tuple[bytes, Callable[..., np.ndarray]]],
    overwrite: bool,
) -> Export:
    """Make, verify and write each part; refusals of derivatives are reasons, not errors, unless ``strict``."""
    contents: dict[str, bytes] = {}
    errors: dict[str, float] = {}
    refused: dict[str, str] = {}
    for part in places:
        try:
            contents[part], run = make(surrogate, part)
            errors[part] = _verified(surrogate, part, run)
        except Exception as error:
            contents.pop(part, None)
            reason = (
                f"{type(error).__name__}: {error}".splitlines()[0] if not isinstance(error, OperatorError) else error
            )
            if strict or part == "forward":
                msg = f"The {part} part of {surrogate.name} cannot be exported: {reason}"
                raise OperatorError(msg) from error
            refused[part] = str(reason)
    for part, content in contents.items():
        write_file(places[part], content, overwrite=overwrite)
    return Export({part: places[part] for part in contents}, errors, refused)


def exported_function(surrogate: Surrogate, part: str) -> tuple[Callable[..., Any], tuple[int, ...]]:
    """Return the float32 function of a part, without a member axis, and the sizes of its inputs."""
    forward = surrogate.evaluator("float32").one_by_one
    if part == "forward":
        return forward, (surrogate.n_state,)
    if part == "tangent_linear":
        return lambda x, dx: jax.jvp(forward, (x,), (dx,))[1], (surrogate.n_state, surrogate.n_state)
    return lambda x, dy: jax.vjp(forward, x)[1](dy)[0], (surrogate.n_state, surrogate.n_obs)


def described(surrogate: Surrogate, part: str) -> dict[str, str]:
    """Return the metadata of an exported part."""
    s = surrogate.scaling
    return {
        "partonfit": surrogate.versions["partonfit"],
        "versions": json.dumps(surrogate.versions),
        "part": part,
        "name": surrogate.name,
        "n_state": str(surrogate.n_state),
        "n_obs": str(surrogate.n_obs),
        "members": str(surrogate.n_members),
        "normalisation": json.dumps({name: getattr(s, name).tolist() for name in vars(s)}),
        "held_out_errors": json.dumps({k: v for k, v in surrogate.errors.items() if isinstance(v, float)}),
        "key": surrogate.key or "",
    }


def _verified(surrogate: Surrogate, part: str, run: Callable[..., np.ndarray]) -> float:
    """Return the largest relative difference from the surrogate, or raise when it is too large."""
    rng, s = np.random.default_rng(0), surrogate.scaling
    worst = 0.0
    for batch in (1, 3, 8):
        states = s.state_mean + s.state_sd * rng.normal(size=(batch, surrogate.n_state))
        given = [states.astype(np.float32)]
        if part != "forward":
            scale = s.state_sd if part == "tangent_linear" else 1 / s.obs_sd
            given.append((scale * rng.normal(size=(batch, len(scale)))).astype(np.float32))
        right = getattr(surrogate, part)(*given)
        found = np.asarray(run(*given))
        if found.shape != right.shape:
            msg = f"with a batch of {batch} it gives shape {found.shape}, not {right.shape}."
            raise OperatorError(msg)
        gap = float(np.abs(found - right).max() / (np.abs(right).max() or 1.0))
        worst = max(worst, gap if np.isfinite(gap) else np.inf)
    if not worst <= TOLERANCE:
        msg = f"its values differ from the surrogate's by {worst:.1e} of the largest, more than {TOLERANCE:.0e}."
        raise OperatorError(msg)
    return worst


# ---- ONNX ---------------------------------------------------------------------------------------------


def _onnx_part(surrogate: Surrogate, part: str) -> tuple[bytes, Callable[..., np.ndarray]]:
    import onnx
    import onnxruntime
    from jax.export import symbolic_shape
    from jax2onnx import to_onnx

    function, sizes = exported_function(surrogate, part)
    with tracing("float32"), _quiet():
        (batch,) = symbolic_shape("batch")
        shapes = [jax.ShapeDtypeStruct((batch, size), jnp.float32) for size in sizes]
        # Traced here, not by the converter: it replaces functions of jax.numpy while it traces, and
        # those replacements cannot be differentiated.
        closed = jax.make_jaxpr(function)(*shapes)
        model: Any = to_onnx(
            lambda *a: _evaluated(closed.jaxpr, closed.consts, a)[0], shapes, model_name=part, opset=_OPSET,
            input_names=_INPUTS[part], output_names=[_OUTPUTS[part]],
        )  # fmt: skip
    model.producer_name, model.producer_version = "partonfit", surrogate.versions["partonfit"]
    metadata = described(surrogate, part) | {f"{n}_version": version(n) for n in ("jax2onnx", "onnx", "onnxruntime")}
    onnx.helper.set_model_props(model, metadata)
    onnx.checker.check_model(model)
    content = model.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def run(*given: np.ndarray) -> np.ndarray:
        return np.asarray(session.run(None, dict(zip(_INPUTS[part], given, strict=True)))[0])

    return content, run


def _evaluated(jaxpr: Any, constants: Iterable[Any], arguments: Iterable[Any]) -> list[Any]:
    """Evaluate a traced function with the functions that it calls written out."""
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, constants, strict=True))
    known |= dict(zip(jaxpr.invars, arguments, strict=True))

    def read(v: Any) -> Any:
        return v.val if hasattr(v, "val") else known[v]

    for eqn in jaxpr.eqns:
        given = [read(v) for v in eqn.invars]
        inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
        if eqn.primitive.name in _INLINE and inner is not None:
            results = _evaluated(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), given)
        else:
            found = eqn.primitive.bind(*given, **eqn.params)
            results = found if eqn.primitive.multiple_results else [found]
        known |= dict(zip(eqn.outvars, results, strict=True))
    return [read(v) for v in jaxpr.outvars]


@contextmanager
def _quiet() -> Any:
    """Keep the converter's own remarks to itself: what counts is whether the result verifies."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
