r"""Theory covariance from scale variations: missing higher orders by point prescriptions.

The shifts :math:`\Delta(\kappa_F, \kappa_R) = T(\kappa_F, \kappa_R) - T(1, 1)` of the predictions are averaged
over a set of points (arXiv:1906.10698, section 4). The factorisation scale is common to all processes; each
process has a renormalisation scale of its own. With the points of a prescription sorted into groups of
which a process picks one, independently of the others,

.. math::
    S_{ij} = N \sum_g \begin{cases}
        \sum_{k \in g} \Delta^k_i \Delta^k_j & \text{same process} \\
        \frac{1}{|g|} \sum_{k \in g} \Delta^k_i \sum_{l \in g} \Delta^l_j & \text{different processes}
    \end{cases}

with N the number of independent scales over the number of points. That is a sum over sources: for each
group the mean shift, common to all processes, and for each process the deviations from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from partonfit._errors import SettingError, nearest
from partonfit.data import Data, TheoryCovariance, load_data, load_theory_covariance
from partonfit.data._processes import process_group
from partonfit.models import resolve_pdf
from partonfit.theory import Theory, forward_map, load_theory

Scales = tuple[float, float]
"""Factors of the factorisation and the renormalisation scale."""

_UP, _DOWN = 2.0, 0.5

PRESCRIPTIONS: dict[str, tuple[float, tuple[tuple[Scales, ...], ...]]] = {
    "3 point": (1 / 2, (((_UP, _UP), (_DOWN, _DOWN)),)),
    "3f point": (1 / 2, (((_UP, 1.0),), ((_DOWN, 1.0),))),
    "3r point": (1 / 2, (((1.0, _UP), (1.0, _DOWN)),)),
    "5 point": (1 / 2, (((_UP, 1.0),), ((_DOWN, 1.0),), ((1.0, _UP), (1.0, _DOWN)))),
    "5bar point": (1 / 2, (((_UP, _UP), (_UP, _DOWN)), ((_DOWN, _UP), (_DOWN, _DOWN)))),
    "7 point": (
        1 / 3,
        (((_UP, 1.0),), ((_DOWN, 1.0),), ((1.0, _UP), (1.0, _DOWN)), ((_UP, _UP), (_DOWN, _DOWN))),
    ),
    "9 point": (
        1 / 4,
        (
            ((_UP, 1.0), (_UP, _UP), (_UP, _DOWN)),
            ((_DOWN, 1.0), (_DOWN, _UP), (_DOWN, _DOWN)),
            ((1.0, _UP), (1.0, _DOWN)),
        ),
    ),
}
"""Prescription: N and the groups of points (kappa_F, kappa_R)."""


def scale_covariance(
    data: Data | str | list,
    theories: Mapping[Any, Theory | str | Path],
    *,
    prescription: str | int = "7 point",
    pdf: Any = "toy",
    correlated: str | Mapping[str, str] = "process",
) -> TheoryCovariance:
    """Return the covariance of missing higher orders from theories at varied scales.

    Parameters
    ----------
    data
        :class:`Data`, or what :func:`load_data` accepts.
    theories
        The theories (or their folders) by the factors (kappa_F, kappa_R) of the scales, written as a pair
        of numbers or as a text such as ``"(2, 1)"``. The central one, (1, 1), is needed too.
    prescription
        ``"3 point"``, ``"3f point"``, ``"3r point"``, ``"5 point"``, ``"5bar point"``, ``"7 point"`` or
        ``"9 point"`` (3, 5, 7 and 9 for short).
    pdf
        The PDF of the predictions: a pdf callable, a fit, or ``"toy"``.
    correlated
        Which datasets share a renormalisation scale: those of one ``"process"`` (as NNPDF groups them), of
        ``"all"`` processes, none (``"dataset"``), or those that a mapping from names gives the same group.

    Returns
    -------
    TheoryCovariance
        On the points of ``data``; give it to :func:`fit_pdf`.

    Raises
    ------
    SettingError
        For an unknown prescription, and when theories that it needs are missing.
    TheoryError
        When a table is missing in one of the theories.

    Notes
    -----
    Formulas: arXiv:1906.10698, section 4.

    Examples
    --------
    >>> import partonfit as pf
    >>> hera = pf.load_theory("hera")
    >>> same = dict.fromkeys([(1, 1), (2, 2), (0.5, 0.5)], hera)  # no variation: no uncertainty
    >>> float(pf.scale_covariance("hera", same, prescription="3 point").matrix().max())
    0.0
    """
    name = _prescription(prescription)
    found = _opened(theories, name)
    data = data if isinstance(data, Data) else load_data(data)
    groups = _groups(data, correlated)
    law = resolve_pdf(pdf)
    predictions, hashes = {}, {}
    for scales, theory in found.items():
        forward = forward_map(data, theory)
        predictions[scales] = forward.predict(np.asarray(law(forward.x), dtype=np.float64))
        hashes[scales] = forward.hash
    shifts = {scales: values - predictions[1.0, 1.0] for scales, values in predictions.items()}
    sizes, sources = _sources(name, shifts, groups)
    description = {
        "made": "scale variations",
        "prescription": name,
        "pdf": pdf if isinstance(pdf, str) else type(pdf).__name__,
        "theories": {_text(scales): {"name": found[scales].name, "hash": hashes[scales]} for scales in found},
        "processes": {dataset.name: groups[data.slices[dataset.name].start] for dataset in data.datasets},
    }
    return TheoryCovariance(data.labels, sizes, sources, description)


def _sources(
    name: str, shifts: Mapping[Scales, np.ndarray], groups: Sequence[str]
) -> tuple[np.ndarray, tuple[tuple[str, ...], ...]]:
    """Return the sources of a prescription (data, source) and their labels."""
    norm, sets = PRESCRIPTIONS[name]
    columns, labels = [], []
    where = np.array(groups)
    for points in sets:
        own = np.stack([shifts[scales] for scales in points])
        mean = own.mean(axis=0)
        columns.append(np.sqrt(norm * len(points)) * mean)
        labels.append((name, *map(_text, points)))
        if len(points) == 1:
            continue
        for process in sorted(set(groups)):
            for scales, shift in zip(points, own, strict=True):
                columns.append(np.sqrt(norm) * np.where(where == process, shift - mean, 0.0))
                labels.append((name, *map(_text, points), process, _text(scales)))
    return np.stack(columns, axis=1), tuple(labels)


def _prescription(given: str | int) -> str:
    name = f"{given} point" if isinstance(given, int) or str(given) in ("3", "5", "7", "9") else str(given)
    if name not in PRESCRIPTIONS:
        msg = f"Unknown prescription {given!r}. {nearest(name, PRESCRIPTIONS, what='prescription')}"
        raise SettingError(msg)
    return name


def _opened(theories: Mapping[Any, Theory | str | Path], name: str) -> dict[Scales, Theory]:
    """Return the theories that a prescription needs, by scales."""
    if not isinstance(theories, Mapping):
        msg = f"theories must map (kappa_F, kappa_R) to theories, not {type(theories).__name__}."
        raise SettingError(msg)
    given = {_scales(key): value for key, value in theories.items()}
    needed = [(1.0, 1.0), *(scales for points in PRESCRIPTIONS[name][1] for scales in points)]
    missing = [_text(scales) for scales in needed if scales not in given]
    if missing:
        msg = f"The {name} prescription needs theories at (kappa_F, kappa_R) = {', '.join(missing)} too."
        raise SettingError(msg)
    return {scales: _theory(given[scales]) for scales in needed}


def _theory(given: Theory | str | Path) -> Theory:
    return given if isinstance(given, Theory) else load_theory(given)


def _scales(key: Any) -> Scales:
    numbers = re.findall(r"[-+.\deE]+", key) if isinstance(key, str) else key
    try:
        one, other = (float(number) for number in numbers)
    except (TypeError, ValueError):
        msg = f"{key!r} is no pair of scale factors (kappa_F, kappa_R), such as (2, 1)."
        raise SettingError(msg) from None
    return one, other


def _text(scales: Scales) -> str:
    return f"({scales[0]:g}, {scales[1]:g})"


def _groups(data: Data, correlated: str | Mapping[str, str]) -> list[str]:
    """Return for each point what its renormalisation scale belongs to."""
    if isinstance(correlated, Mapping):
        lost = [name for name in data.names if name not in correlated]
        if lost:
            msg = f"correlated= gives no group for dataset {lost[0]}."
            raise SettingError(msg)
        by_name = {name: str(correlated[name]) for name in data.names}
    elif correlated in ("process", "all", "dataset"):
        by_name = {
            d.name: {"process": process_group(d), "all": "all", "dataset": d.name}[correlated] for d in data.datasets
        }
    else:
        msg = f"correlated must be 'process', 'all', 'dataset' or a mapping from dataset names, not {correlated!r}."
        raise SettingError(msg)
    return [by_name[name] for name, _ in data.labels]


_THREE = (_DOWN, 1.0, _UP)
_NINE = [(kf, kr) for kf in _THREE for kr in _THREE]

PUBLIC: dict[int, dict[Scales, int]] = {
    717: dict(zip(_NINE, range(713, 722), strict=True)),
    708: dict(zip(_NINE, range(704, 713), strict=True)),
    722: dict(zip(_NINE, (786, 784, 789, 787, 722, 790, 788, 785, 791), strict=True)),
    41_000_000: {
        (_DOWN, _DOWN): 41_000_012, (_DOWN, 1.0): 41_000_011, (1.0, _DOWN): 41_000_010, (1.0, 1.0): 41_000_000,
        (1.0, _UP): 41_000_013, (_UP, 1.0): 41_000_014, (_UP, _UP): 41_000_015,
    },
}  # fmt: skip
"""Numbers of NNPDF's public theories at varied scales, by their central theory (NLO, NNLO, N3LO; NNLO of 4.1)."""


def public_variations(theory: str | Path) -> dict[Scales, Path]:
    """Return the folders of NNPDF's public theories at varied scales that lie beside their central one.

    Parameters
    ----------
    theory
        Folder ``theory_<number>`` of the central theory.

    Raises
    ------
    SettingError
        When the number is not known to have variations.
    """
    path = Path(theory).expanduser()
    number = re.fullmatch(r"(?:theory_)?(\d[\d_]*)", path.name)
    family = PUBLIC.get(int(number[1])) if number else None
    if family is None:
        known = ", ".join(map(str, PUBLIC))
        msg = (
            f"Where the theories at varied scales lie is not known for the theory {path.name} (known: {known}). "
            "Name them: theory_covariance.theories, by (kappa_F, kappa_R)."
        )
        raise SettingError(msg)
    return {scales: path.with_name(f"theory_{identity}") for scales, identity in family.items()}


def of_card(wanted: Any, data: Data, theory: Theory, law: Any, place: Callable[[str], str]) -> TheoryCovariance:
    """Return the theory covariance that the settings of a card ask for: prescriptions, plus a matrix from a file.

    Parameters
    ----------
    wanted
        ``TheoryCovarianceSettings`` of the card.
    data, theory, law
        Data, central theory and PDF.
    place
        From a name in the card to a path.
    """
    parts = []
    if wanted.prescriptions:
        named: dict[Any, Any] = {scales: place(name) for scales, name in wanted.theories.items()}
        varied = {**(named or public_variations(theory.name)), (1, 1): theory}
        parts = [
            scale_covariance(data, varied, prescription=name, pdf=law, correlated=wanted.correlated)
            for name in wanted.prescriptions
        ]
    if wanted.matrix is not None:
        parts.append(load_theory_covariance(place(wanted.matrix), factor=wanted.factor).on(data))
    if not parts:
        msg = "theory_covariance needs 'prescriptions' or 'matrix'."
        raise SettingError(msg)
    return reduce(lambda one, other: one + other, parts)
