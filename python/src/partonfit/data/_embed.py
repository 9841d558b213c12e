"""Writes the datasets that travel with the package: ``python -m partonfit.data._embed``.

Run it when nnpdf-data changes the numbers; the tests compare the stored arrays with a fresh reading of
the published files.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

from partonfit.data._catalogue import EMBEDDED, VARIANTS, embedded_path
from partonfit.data._commondata import data_folders, find_folder, parse_record
from partonfit.data._record import to_bytes, write_atomically

REFERENCES = {
    "hera": "H1 and ZEUS, Eur. Phys. J. C75 (2015) 580, arXiv:1506.06042",
    "fixed-target": "BCDMS, Phys. Lett. B223 (1989) 485 and B237 (1990) 592; NMC, Nucl. Phys. B483 (1997) 3 and B487 "
    "(1997) 3; SLAC, Phys. Lett. B282 (1992) 475",
}


def embed(group: str = "hera", path: Path | None = None) -> Path:
    """Read the datasets of a group from nnpdf-data and store them as plain arrays with their hashes.

    Parameters
    ----------
    group
        Name of the group.
    path
        Where to write; the package's own folder when left out.

    Returns
    -------
    pathlib.Path
        The file of arrays; a JSON file beside it states source, version and hashes.
    """
    records = []
    for name in EMBEDDED[group]:
        located = find_folder(name, data_folders())
        if located is None:
            raise FileNotFoundError(name)
        records.append(parse_record(*located, VARIANTS.get(name, ())))
    target = path or embedded_path(group)
    write_atomically(target, to_bytes(records))
    about = {
        "source": "nnpdf-data (GPL-3.0-or-later)",
        "version": version("nnpdf-data"),
        "reference": REFERENCES[group],
        "sha256": {record.name: record.digest() for record in records},
    }
    text = json.dumps(about, indent=2) + "\n"
    write_atomically(target.with_suffix(".json"), text.encode())
    return target


if __name__ == "__main__":
    for name in REFERENCES:
        embed(name)
