"""The Python environment in which yadism runs: made once, kept in the cache folder.

yadism's versions hold NumPy, pandas and rich below what partonfit needs, so they cannot share one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from partonfit._errors import MissingDependencyError
from partonfit.theory.building._schemes import Scheme

_MARK = "complete.json"


def cache_folder() -> Path:
    """Return the folder for environments and partial results (``PARTONFIT_CACHE``, else the user's)."""
    chosen = os.environ.get("PARTONFIT_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "partonfit"


def python_for(scheme: Scheme) -> str:
    """Return an interpreter that can run the scheme's packages.

    Raises
    ------
    MissingDependencyError
        When none is found.
    """
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    for version in scheme.python:
        if version == here:
            return sys.executable
        found = shutil.which(f"python{version}")
        if found and _answers(found, version):
            return found
    wanted = " or ".join(scheme.python)
    msg = (
        f"Building {scheme.name} tables needs Python {wanted} for {scheme.requirements[0]}, and none is on "
        f"the PATH. Install one (Debian 12: apt install python3.11-venv), or use the tables in the package."
    )
    raise MissingDependencyError(msg)


def environment(scheme: Scheme) -> Path:
    """Return the interpreter of the scheme's environment, making the environment when it is absent.

    Raises
    ------
    MissingDependencyError
        When it cannot be made; the message ends with pip's own reason.
    """
    key = hashlib.sha256("\n".join(scheme.requirements).encode()).hexdigest()[:12]
    folder = cache_folder() / "environments" / f"{scheme.name}-{key}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if (folder / _MARK).exists() and python.exists():
        return python
    base = python_for(scheme)
    shutil.rmtree(folder, ignore_errors=True)  # what an interrupted attempt left
    folder.parent.mkdir(parents=True, exist_ok=True)
    _run([base, "-m", "venv", str(folder)], scheme)
    _run([str(python), "-m", "pip", "install", "--disable-pip-version-check", *scheme.requirements], scheme)
    (folder / _MARK).write_text(json.dumps({"requirements": scheme.requirements, "python": base}))
    return python


def _answers(python: str, version: str) -> bool:
    try:
        done = subprocess.run(
            [python, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and done.stdout.strip() == version


def _run(command: list[str], scheme: Scheme) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        reason = next((line for line in reversed(lines) if "error" in line.lower()), (lines or ["no message"])[-1])
        msg = (
            f"The environment for {scheme.requirements[0]} could not be made ({' '.join(command[1:3])}): "
            f"{reason.strip()} Check the network and that Python has its venv module, then try again."
        )
        raise MissingDependencyError(msg)
