"""Time per epoch and replica beside n3fit's, on the same tables, data, cuts and hyperparameters.

    VENV=/path/to/n3fit/venv python bench/against_n3fit_speed.py --json ratio.json

Runs, one after the other, n3fit by the shared script (TensorFlow with parallel replicas, its best mode,
and its JAX backend with one replica; the time per epoch is the difference of two runs, so that set-up
cancels) and dis_speed.py without and with positivity and integrability (n3fit has them on).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from _common import machine, shared, show


def n3fit(epochs: int, replicas: int, backend: str, work: str) -> float:
    """Return the seconds that n3fit takes for the fit alone."""
    script = shared() / "bench" / "run_n3fit.sh"
    line = subprocess.run(
        [str(script), str(epochs), str(replicas), backend, work], check=True, capture_output=True, text=True
    ).stdout
    found = re.search(r"fit_seconds=([\d.]+)", line)
    if not found:
        msg = f"{script.name} printed no time: {line!r}"
        raise SystemExit(msg)
    return float(found.group(1))


def ours(*arguments: str) -> float:
    """Return ms per epoch and replica of dis_speed.py."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ours.json"
        script = Path(__file__).with_name("dis_speed.py")
        subprocess.run(
            [sys.executable, str(script), *arguments, "--json", str(file)], check=True, stdout=subprocess.PIPE
        )
        return json.loads(file.read_text())["ms_per_epoch_replica"]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--replicas", type=int, default=10, help="n3fit's parallel replicas")
    parser.add_argument("--work", default=str(Path(tempfile.gettempdir()) / "n3fit-peer"))
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    Path(options.work).mkdir(parents=True, exist_ok=True)
    os.environ.pop("OPENBLAS_CORETYPE", None)
    about = machine()
    few, many = (n3fit(epochs, options.replicas, "tensorflow", options.work) for epochs in (300, 1300))
    tensorflow = 1e3 * (many - few) / 1000 / options.replicas
    few, many = (n3fit(epochs, 1, "jax", options.work) for epochs in (30, 130))
    backend = 1e3 * (many - few) / 100
    plain, constrained = ours(), ours("--constraints")
    show(
        {
            "n3fit_tensorflow_ms": tensorflow,
            "n3fit_jax_ms": backend,
            "partonfit_ms": plain,
            "partonfit_constrained_ms": constrained,
            "ratio_tensorflow": tensorflow / plain,
            "ratio_jax": backend / plain,
            "ratio_tensorflow_constrained": tensorflow / constrained,
            "ratio_jax_constrained": backend / constrained,
        }
        | about,
        options.json,
    )


if __name__ == "__main__":
    main()
