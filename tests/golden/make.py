"""Writes the golden values that the tests of both languages read.

    PARTONFIT_SHARED=/path/to/reference python tests/golden/make.py

``dis_reference.json`` is a small extract of a validphys run (nnpdf 4.1.5) on the reference tables,
``toy_pdf.json`` the known PDF from its formula, ``hera_data.json`` facts about the embedded data.
"""

import json
import os
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SHARED = Path(os.environ.get("PARTONFIT_SHARED", HERE.parents[2] / "shared"))


def write(name, content):
    (HERE / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def reference():
    full = json.loads((SHARED / "reference" / "dis_validphys.json").read_text())
    rows = []
    for entry in full["datasets"]:
        n = entry["n_data"]
        shown = [0, n // 2, n - 1]
        rows.append(
            {
                **{key: entry[key] for key in ("dataset", "variant", "operation", "n_data")},
                "chi2_per_point": entry["chi2_per_point"],
                "logdet": entry["logdet_cov"],
                "rows": [entry["cut_indices"][i] for i in shown],
                "values": [entry["data"][i] for i in shown],
                "predictions": [entry["prediction"][i] for i in shown],
            }
        )
    write("dis_reference.json", {"made_with": full["made_with"], "total": full["total"], "datasets": rows})


def toy():
    """The formula by itself, in the flavour basis, with no code of the package."""
    x = [1e-5, 1e-3, 0.1, 0.5, 0.9]
    v = np.array(x)
    dbar = 0.1939875 * v**-0.1 * (1 - v) ** 6
    ubar = dbar * (1 - v)
    parts = {
        "u_v": 5.1072 * v**0.8 * (1 - v) ** 3,
        "d_v": 3.06432 * v**0.8 * (1 - v) ** 4,
        "g": 1.7 * v**-0.1 * (1 - v) ** 5,
        "ubar": ubar,
        "dbar": dbar,
        "s": 0.2 * (ubar + dbar),
        "sbar": 0.2 * (ubar + dbar),
        "c": 0 * v,
    }
    write("toy_pdf.json", {"x": x, "xf": {name: values.tolist() for name, values in parts.items()}})


def hera():
    full = json.loads((SHARED / "reference" / "dis_validphys.json").read_text())
    rows = [d for d in full["datasets"] if d["dataset"].startswith("HERA") and "EAVG" not in d["dataset"]]
    content = {
        "n_data": sum(d["n_data"] for d in rows),
        "datasets": [
            {"dataset": d["dataset"], "n_data": d["n_data"], "logdet": d["logdet_cov"], "first_value": d["data"][0]}
            for d in rows
        ],
    }
    write("hera_data.json", content)


if __name__ == "__main__":
    reference()
    toy()
    hera()
