"""Small made-up datasets and tables, so that tests need no files beyond the package."""

from pathlib import Path

import numpy as np
from partonfit.data._data import collect
from partonfit.data._dataset import build_dataset
from partonfit.data._entries import Entry
from partonfit.data._record import Record
from partonfit.theory import FKTable, Theory

X = np.array([0.001, 0.01, 0.1, 0.3, 0.7, 1.0])


def fake_record(name="FAKE_NC_1GEV_EP-F2", n=6, *, seed=0, sources=(), tables=None, operation="NULL", process="DIS_NC"):
    """A dataset of n points: 10 % statistical errors and the given (treatment, type) sources of about 5 %."""
    rng = np.random.default_rng([seed, n])
    values = rng.uniform(0.5, 1.5, n)
    errors = [0.1 * values] + [0.05 * values * rng.uniform(0.5, 1.5, n) for _ in sources]
    theory = {
        "operation": operation,
        "tables": tables if tables is not None else [[name.replace("-", "_")]],
        "conversion_factor": 1.0,
        "normalization": {},
        "shifts": {},
    }
    return Record(
        name=name,
        variant=(),
        values=values,
        errors=np.stack(errors, axis=1),
        error_names=("stat", *(f"sys_{i}" for i in range(len(sources)))),
        treatments=("ADD", *(s[0] for s in sources)),
        types=("UNCORR", *(s[1] for s in sources)),
        kinematics={
            "x": np.geomspace(0.001, 0.9, n) if n > 1 else np.array([0.1]),
            "Q2": np.full(n, 100.0),
            "y": np.full(n, 0.5),
        },
        description={
            "title": "", "label": name, "units": "", "process": process, "experiment": "FAKE", "arxiv": "",
            "hepdata": "", "plotting": {}, "variables": {}, "theory": theory,
        },
    )  # fmt: skip


def fake_dataset(*args, frac=None, weight=1.0, **kwargs):
    """The dataset of a fake record without cuts."""
    record = fake_record(*args, **kwargs)
    return build_dataset(record, Entry(record.name, frac=frac, weight=weight), [])


def fake_data(*datasets):
    """Several fake datasets together."""
    return collect(datasets)


def fake_table(name, n=6, *, x=X, flavours=("Sigma", "g", "T3"), quadratic=False, q0=1.65, seed=1):
    """A table of random positive weights."""
    rng = np.random.default_rng([seed, n, len(x)])
    if quadratic:
        flavours = tuple((one, other) for i, one in enumerate(flavours) for other in flavours[i:])
    shape = (n, len(flavours), *([len(x)] * (2 if quadratic else 1)))
    return FKTable(name, np.array(x), flavours, rng.uniform(0.1, 1, shape), q0, {}, f"hash of {name} {seed}")


def fake_theory(*tables):
    """A theory that holds the given tables in memory."""
    theory = Theory("fake", (), {table.name: table for table in tables})
    theory.__dict__["paths"] = {table.name: Path(table.name) for table in tables}
    return theory


def write_set(folder, observable="F2", *, n=4, **changes):
    """Write a dataset in the layout of nnpdf-data; ``changes`` replace the text of single files."""
    folder.mkdir(parents=True)
    numbers = "\n".join(f"- {1 + i / 10}" for i in range(n))
    bins = "\n".join("- {stat: 0.1, lumi: 0.02, corr: 0.01}" for _ in range(n))
    points = "\n".join(
        f"- {{x: {{min: null, mid: {0.1 + i / 10}, max: null}}, Q2: {{min: 90, mid: null, max: 110}}, "
        f"y: {{min: null, mid: 0.5, max: null}}}}"
        for i in range(n)
    )
    files = {
        "metadata": f"""
setname: {folder.name}
version: 1
version_comment: made up
nnpdf_metadata: {{nnpdf31_process: DIS NC, experiment: MADEUP}}
implemented_observables:
- observable_name: {observable}
  observable: {{description: Made up, label: made up F2, units: ''}}
  process_type: DIS_NC
  ndata: {n}
  kinematic_coverage: [x, Q2, y]
  kinematics: {{file: kinematics.yaml, variables: {{x: {{label: $x$, units: ''}}}}}}
  plotting: {{plot_x: x}}
  theory: {{operation: 'null', FK_tables: [[MADEUP_F2]]}}
  data_central: data.yaml
  data_uncertainties: [uncertainties.yaml]
  variants: {{wide: {{data_uncertainties: [wide.yaml]}}}}
""",
        "data": f"data_central:\n{numbers}\n",
        "kinematics": f"bins:\n{points}\n",
        "uncertainties": f"""
definitions:
  stat: {{description: '', treatment: ADD, type: UNCORR}}
  lumi: {{description: '', treatment: MULT, type: MADEUPLUMI}}
  corr: {{description: '', treatment: ADD, type: CORR}}
bins:
{bins}
""",
    }
    files["wide"] = files["uncertainties"].replace("stat: 0.1", "stat: 0.2")
    for name, text in (files | changes).items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder.parent
