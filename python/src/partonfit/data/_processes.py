"""Which process a dataset belongs to, as NNPDF groups them (``nnpdf31_process`` in the metadata)."""

from __future__ import annotations

from partonfit._errors import MissingDependencyError
from partonfit.data._commondata import data_folders, find_folder, load_yaml
from partonfit.data._dataset import Dataset


def process_group(dataset: Dataset) -> str:
    """Return the process of a dataset: "DIS NC", "DIS CC", "DY NC", "JETS", ...

    Inclusive and heavy-quark DIS are told by their process; others are looked up in nnpdf-data, and a
    dataset that is not there is a process of its own kind.
    """
    for start in ("DIS_NC", "DIS_CC"):
        if dataset.process.startswith(start):
            return start.replace("_", " ")
    try:
        found = find_folder(dataset.name, data_folders())
    except MissingDependencyError:
        found = None
    if found is None:
        return dataset.process
    metadata = load_yaml(found[0] / "metadata.yaml").get("nnpdf_metadata") or {}
    return str(metadata.get("nnpdf31_process") or dataset.process)
