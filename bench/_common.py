"""What the benchmarks share: where the reference tables lie, and what machine this is."""

from __future__ import annotations

import json
import os
import platform
import resource
from pathlib import Path
from typing import Any

import jax


def shared() -> Path:
    """Return the folder of reference tables (environment variable PARTONFIT_SHARED, else ../shared)."""
    return Path(os.environ.get("PARTONFIT_SHARED", Path(__file__).parents[2] / "shared"))


def dis_entries() -> list[dict[str, Any]]:
    """Return the 15 inclusive DIS datasets of the reference runcard."""
    card = json.loads((shared() / "reference" / "dis_validphys.json").read_text())
    return [{"dataset": entry["dataset"], "variant": entry["variant"]} for entry in card["datasets"]]


def machine() -> dict[str, Any]:
    """Return what a number was measured on."""
    load = os.getloadavg()[0]
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": platform.processor() or platform.machine(),
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "load_before": round(load, 2),
    }


def peak_memory_gb() -> float:
    """Return the largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def show(rows: dict[str, Any], file: str | None) -> None:
    """Print a table, and write it as JSON when a file is named."""
    width = max(len(name) for name in rows)
    for name, value in rows.items():
        print(f"{name:<{width}}  {value:.4g}" if isinstance(value, float) else f"{name:<{width}}  {value}")
    if file:
        Path(file).write_text(json.dumps(rows, indent=1) + "\n")
