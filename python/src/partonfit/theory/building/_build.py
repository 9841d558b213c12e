"""The three verbs of table building: build, check, info."""

from __future__ import annotations

import hashlib
import json
import platform
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from partonfit._errors import SettingError, StorageError, TheoryError, nearest
from partonfit._files import check_folder
from partonfit.theory.building import _assemble, _environment, _groups, _requests, _run, _schemes, _verify
from partonfit.theory.building._groups import Group, Request
from partonfit.theory.building._run import Progress
from partonfit.theory.building._schemes import Scheme

EMBEDDED = Path(__file__).parents[1] / "embedded"
MANIFEST = "manifest.json"


def build(
    name: str = "hera",
    scheme: str = "fonll-c",
    out: str | Path | None = None,
    *,
    resume: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Build the FK tables of a group of datasets from yadism and evolution.

    Parameters
    ----------
    name
        What to build: "hera", the seven inclusive HERA I+II datasets; "fixed-target", BCDMS, NMC and SLAC on protons
        and deuterons; "dis", both.
    scheme
        "fonll-c" (NNLO, massive quarks) or "zm-vfns" (massless).
    out
        Folder for the tables; must not exist yet, or hold tables built here before. By default
        ``theory_<name>_<scheme>`` in the current folder.
    resume
        Keep what an earlier run has finished.
    progress
        Called as ``progress(groups done, groups, {"q2": .., "seconds_left": ..})``.

    Returns
    -------
    pathlib.Path
        The folder: one ``.pineappl.lz4`` per dataset and ``manifest.json`` with theory card, versions,
        hashes and the measured differences from yadism's own predictions.

    Raises
    ------
    SettingError
        For an unknown name or scheme.
    StorageError
        When ``out`` cannot be used.
    MissingDependencyError
        When yadism's environment cannot be made.
    TheoryError
        When yadism fails, or the tables do not reproduce its predictions.
    """
    chosen = _schemes.scheme(scheme)
    if name not in _requests.REQUESTS:
        msg = f"Cannot build {name!r}. {nearest(str(name), _requests.REQUESTS, what='group of datasets')}"
        raise SettingError(msg)
    folder = _output_folder(Path(f"theory_{name}_{scheme}") if out is None else Path(out))
    requests = _requests.REQUESTS[name]()
    work = _environment.cache_folder() / "building" / scheme
    groups = _groups.groups(requests, chosen, work)
    finished = _run.compute(groups, chosen, resume=resume, progress=progress)
    return write(name, chosen, requests, finished, folder)


def write(
    name: str,
    scheme: Scheme,
    requests: Sequence[Request],
    finished: Sequence[tuple[Group, dict[str, np.ndarray]]],
    folder: Path,
) -> Path:
    """Assemble, verify and write the tables of finished groups (see :func:`build`)."""
    card = _schemes.evolution_card(scheme.theory)
    computed = _assemble.rows(finished, card)
    values = {request.table: _assemble.table_array(request, computed) for request in requests}
    proof = _verify.chain(requests, values, finished, card)
    notes = {
        "partonfit_scheme": scheme.name,
        "theory": json.dumps(scheme.theory, sort_keys=True),
        "versions": json.dumps(_versions(scheme), sort_keys=True),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for request in requests:
        about = notes | {"dataset": request.dataset, "initial_state_1": "2212"}
        _assemble.write_table(folder / f"{request.table}.pineappl.lz4", request, values[request.table], about)
    manifest = _manifest(name, scheme, requests, proof, folder)
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".", suffix=".json", delete=False) as stream:
        json.dump(manifest, stream, indent=1, sort_keys=True)
        stream.write("\n")
    Path(stream.name).chmod(0o644)
    Path(stream.name).replace(folder / MANIFEST)
    return folder


def info(folder: str | Path = "hera") -> dict[str, Any]:
    """Return the manifest of a folder of built tables (or of the embedded ones, by name).

    Raises
    ------
    TheoryError
        When there is no manifest, or it is no JSON.

    Examples
    --------
    >>> info("hera")["scheme"] in _schemes.SCHEMES
    True
    """
    parts = _requests.PARTS.get(str(folder), ())
    if len(parts) > 1:
        every = [info(part) for part in parts]
        return every[0] | {"name": str(folder), "tables": {k: v for one in every for k, v in one["tables"].items()}}
    path = EMBEDDED / parts[0] if parts else Path(folder)
    try:
        return json.loads((path / MANIFEST).read_text())
    except OSError:
        msg = f"{path} holds no {MANIFEST}, so its tables were not built by partonfit."
        raise TheoryError(msg) from None
    except ValueError:
        msg = f"{path / MANIFEST} is damaged (no JSON). Build the tables again."
        raise TheoryError(msg) from None


def check(folder: str | Path = "hera") -> list[dict[str, Any]]:
    """Check that built tables are intact and match their manifest.

    Returns
    -------
    list of dict
        For each table: name, n_data, hash, and the largest relative difference from yadism's prediction.

    Raises
    ------
    TheoryError
        At the first table that is missing, damaged or changed.
    """
    from partonfit.theory import read_table

    parts = _requests.PARTS.get(str(folder), ())
    if len(parts) > 1:
        return [row for part in parts for row in check(part)]
    path = EMBEDDED / parts[0] if parts else Path(folder)
    result = []
    for name, entry in info(folder)["tables"].items():
        table = read_table(path / f"{name}.pineappl.lz4")
        if table.hash != entry["sha256"]:
            msg = f"Table {name} in {path} is not the one in its manifest (its hash differs). Build it again."
            raise TheoryError(msg)
        if table.n_data != entry["n_data"]:
            msg = f"Table {name} has {table.n_data} rows; its manifest says {entry['n_data']}."
            raise TheoryError(msg)
        result.append(
            {
                "table": name,
                "n_data": table.n_data,
                "sha256": table.hash,
                "largest_difference": entry["chain"]["fine_grid_max"],
            }
        )
    return result


def _output_folder(path: Path) -> Path:
    """Return ``path`` after checking that tables can be written there."""
    path = path.expanduser().absolute()
    if path.is_file():
        msg = f"{path} is a file. Give a folder for the tables."
        raise StorageError(msg)
    if path.is_dir() and any(path.iterdir()) and not (path / MANIFEST).exists():
        msg = f"{path} holds other files. Choose an empty or new folder for the tables."
        raise StorageError(msg)
    check_folder(next(p for p in (path, *path.parents) if p.is_dir()), path)
    return path


def _versions(scheme: Scheme) -> dict[str, str]:
    versions = {requirement.split("=")[0].split(">")[0]: requirement for requirement in scheme.requirements}
    for package in ("partonfit", "pineappl", "numpy"):
        try:
            versions[f"here {package}"] = version(package)
        except PackageNotFoundError:
            versions[f"here {package}"] = "unknown"
    return versions | {"here Python": platform.python_version()}


def _manifest(
    name: str, scheme: Scheme, requests: Sequence[Request], proof: dict[str, dict[str, float]], folder: Path
) -> dict[str, Any]:
    tables = {}
    for request in requests:
        content = (folder / f"{request.table}.pineappl.lz4").read_bytes()
        tables[request.table] = {
            "dataset": request.dataset,
            "target": request.target,
            "n_data": len(request.points),
            "n_zero_rows": int((~request.computed).sum()),
            "sha256": hashlib.sha256(content).hexdigest(),
            "chain": proof[request.table],
        }
    return {
        "name": name,
        "scheme": scheme.name,
        "description": scheme.description,
        "q0_GeV": scheme.theory["Q0"],
        "zero_rows": f"points with Q2 < {_schemes.LOWEST_Q2} or W2 < {_schemes.LOWEST_W2} GeV2",
        "theory_card": scheme.theory,
        "observable_card": _schemes.observable_card(),
        "evolution": "NNLO, truncated solution, matching in Mellin space at the pole masses",
        "versions": _versions(scheme),
        "built": datetime.now(UTC).isoformat(timespec="seconds"),
        "chain": "relative difference of table times known PDF from yadism's coefficient functions "
        "times the evolved known PDF, over the computed points",
        "tables": tables,
    }
