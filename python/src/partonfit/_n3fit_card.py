"""Translate an n3fit runcard into our short form: every key is honoured, or refused by name.

Only keys whose meaning we keep are honoured. A key that cannot change the numbers of a fit (paths,
printing) is accepted and dropped; any other is refused with the reason, never ignored in silence.
"""

from __future__ import annotations

import hashlib
from typing import Any

from partonfit._errors import nearest
from partonfit._vocabulary import PARTONS

Path = tuple[str | int, ...]
Problem = tuple[Path, str]

_SIGNS = ("dataset_inputs", "parameters", "fitting", "trvlseed", "nnseed", "mcseed", "genrep", "datacuts")
_WITHOUT_EFFECT = ("maxcores", "debug", "parallel_models", "keywords", "save", "load", "tensorboard")
_COVARIANCE = (
    "point_prescriptions", "point_prescription", "theoryids", "pdf", "user_covmat_path", "mult_factor",
    "use_thcovmat_in_sampling", "use_thcovmat_in_fitting", "use_user_uncertainties", "use_scalevar_uncertainties",
)  # fmt: skip
_TRIES = 1000
_EVOL = {"sng": "Sigma", "g": "g", "v": "V", "v3": "V3", "v8": "V8", "t3": "T3", "t8": "T8", "t15": "T15"}
_BASES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "EVOL": (_EVOL, {}),
    "CCBAR_ASYMM": (_EVOL | {"v15": "V15"}, {"charm_asymmetry": True}),
    "FLAVOUR": ({name: name for name in PARTONS}, {"basis": "flavour"}),
}
"""fitbasis: our names of its flavours, and what says the same of a model here."""
_TOP = (
    "description", "dataset_inputs", "datacuts", "theory", "trvlseed", "nnseed", "mcseed", "genrep", "diagonal_basis",
    "diagonal_frac", "separate_multiplicative", "use_t0_sampling", "resample_negative_pseudodata", "theorycovmatconfig",
    "sampling", "parameters", "fitting", "positivity", "integrability", "added_filter_rules", *_WITHOUT_EFFECT,
)  # fmt: skip
_PARAMETERS = (
    "nodes_per_layer", "activation_per_layer", "initializer", "optimizer", "epochs", "stopping_patience",
    "layer_type", "dropout", "threshold_chi2", "positivity", "integrability", "feature_scaling_points",
)  # fmt: skip


def is_n3fit(content: dict[str, Any]) -> bool:
    """Tell an n3fit card by keys that only it has."""
    return any(key in content for key in _SIGNS) or isinstance(content.get("theory"), dict)


def translate(content: dict[str, Any]) -> tuple[dict[str, Any], dict[Path, Path], list[Problem]]:
    """Return the short form, where each of its keys came from, and what was refused."""
    return _Translation(content).run()


class _Translation:
    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content
        self.card: dict[str, Any] = {"model": {}, "control": {}}
        self.origin: dict[Path, Path] = {}
        self.problems: list[Problem] = []

    def run(self) -> tuple[dict[str, Any], dict[Path, Path], list[Problem]]:
        self._refuse_unknown((), self.content, _TOP)
        self._put("description", ("description",))
        self._put("data", ("dataset_inputs",))
        self._entries()
        self._cuts()
        self._theory()
        self._seeds()
        self._put("pseudodata", ("genrep",), part="control")
        self._sampling()
        self._theory_covariance()
        self._parameters()
        self._fitting()
        self._constraints()
        return self.card, self.origin, self.problems

    def _get(self, path: Path) -> Any:
        found: Any = self.content
        for key in path:
            if not isinstance(found, dict) or key not in found:
                return None
            found = found[key]
        return found

    def _put(self, key: str, path: Path, *, part: str | None = None, change: Any = None) -> None:
        value = self._get(path)
        if value is None:
            return
        target = self.card if part is None else self.card[part]
        target[key] = value if change is None else change(value)
        own: Path = (key,) if part is None else (part, key)
        self.origin[own] = path
        if isinstance(value, list):
            for i, item in enumerate(value):
                self.origin[(*own, i)] = (*path, i)
                for name in item if isinstance(item, dict) else ():
                    self.origin[(*own, i, name)] = (*path, i, name)

    def _refuse(self, path: Path, reason: str) -> None:
        self.problems.append((path, f"'{'.'.join(str(p) for p in path)}' {reason}"))

    def _refuse_unknown(self, path: Path, mapping: Any, known: tuple[str, ...]) -> None:
        if mapping is not None and not isinstance(mapping, dict):
            self._refuse(path, f"must be a mapping, not {mapping!r}.")
            return
        for key in mapping or ():
            if key not in known:
                self._refuse((*path, key), f"is not known. {nearest(str(key), known, what='key')}")

    def _entries(self) -> None:
        if not self.content.get("dataset_inputs"):
            self._refuse(("dataset_inputs",), "must list at least one dataset.")

    def _cuts(self) -> None:
        self._refuse_unknown(("datacuts",), self.content.get("datacuts"), ("t0pdfset", "q2min", "w2min", "use_cuts"))
        self._put("q2min", ("datacuts", "q2min"))
        self._put("w2min", ("datacuts", "w2min"))
        self._put("t0", ("datacuts", "t0pdfset"))
        if self._get(("datacuts", "use_cuts")) not in (None, "internal"):
            self._refuse(("datacuts", "use_cuts"), "can only be 'internal' here.")

    def _theory(self) -> None:
        self._refuse_unknown(("theory",), self.content.get("theory"), ("theoryid",))
        self._put("theory", ("theory", "theoryid"), change=str)

    def _sampling(self) -> None:
        """Split and pseudodata; since 4.1 the other program divides eigenmodes unless it is told not to."""
        given = self.content.get("diagonal_basis", True)
        if not isinstance(given, bool):
            self._refuse(("diagonal_basis",), f"must be true or false, not {given!r}.")
        self.card["control"]["split"] = "modes" if given else "points"
        if given:
            self._put("training_fraction", ("diagonal_frac",), part="control")
        elif "diagonal_frac" in self.content:
            self._refuse(("diagonal_frac",), "has no meaning with diagonal_basis: false. Remove it.")
        self._refuse_unknown(("sampling",), self.content.get("sampling"), ("use_t0", "separate_multiplicative"))
        for own, places in (
            ("separate_multiplicative", (("separate_multiplicative",), ("sampling", "separate_multiplicative"))),
            ("t0_in_sampling", (("use_t0_sampling",), ("sampling", "use_t0"))),
        ):
            for path in places:
                self._put(own, path, part="control")
        again = self.content.get("resample_negative_pseudodata", False)
        if not isinstance(again, bool):
            self._refuse(("resample_negative_pseudodata",), f"must be true or false, not {again!r}.")
        elif again:  # bounded: then the dataset is named
            self.card["control"]["positive_tries"] = _TRIES

    def _theory_covariance(self) -> None:
        at = "theorycovmatconfig"
        given = self.content.get(at)
        self._refuse_unknown((at,), given, _COVARIANCE)
        if not isinstance(given, dict):
            return
        card: dict[str, Any] = {}
        names = given.get("point_prescriptions", given.get("point_prescription"))
        if names is not None:
            card["prescriptions"] = [names] if isinstance(names, str) else names
            key = "point_prescriptions" if "point_prescriptions" in given else "point_prescription"
            self.origin[("theory_covariance", "prescriptions")] = (at, key)
            for i in range(len(names) if isinstance(names, list) else 0):
                self.origin[("theory_covariance", "prescriptions", i)] = (at, key, i)
        for own, theirs in (("pdf", "pdf"), ("matrix", "user_covmat_path"), ("factor", "mult_factor")):
            if given.get(theirs) is not None:
                card[own] = given[theirs]
                self.origin[("theory_covariance", own)] = (at, theirs)
        if given.get("use_user_uncertainties") is False:
            card.pop("matrix", None)
        if given.get("use_scalevar_uncertainties") is False:
            card.pop("prescriptions", None)
        for part in ("sampling", "fitting"):
            self._put(f"theory_in_{part}", (at, f"use_thcovmat_in_{part}"), part="control")
        if not {"prescriptions", "matrix"} & set(card):
            self._refuse((at,), "needs 'point_prescriptions' or 'user_covmat_path'.")
        elif any(given.get(f"use_thcovmat_in_{part}", True) for part in ("sampling", "fitting")):
            self.card["theory_covariance"] = card

    def _seeds(self) -> None:
        """One seed gives every stream here: n3fit's three are hashed into it, so each still counts."""
        given = {key: self.content[key] for key in ("mcseed", "nnseed", "trvlseed") if key in self.content}
        for key, value in given.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                self._refuse((key,), f"must be a whole number from 0, not {value!r}.")
                return
        if given:
            digest = hashlib.sha256(repr(sorted(given.items())).encode()).digest()
            self.card["seed"] = int.from_bytes(digest[:4], "big") & 0x7FFFFFFF

    def _parameters(self) -> None:
        at = ("parameters",)
        given = self.content.get("parameters")
        self._refuse_unknown(at, given, _PARAMETERS)
        if not isinstance(given, dict):
            return
        self._put(
            "nodes",
            (*at, "nodes_per_layer"),
            part="model",
            change=lambda n: n[:-1] if isinstance(n, list) else n,
        )
        nodes, count = given.get("nodes_per_layer"), len(self._flavours())
        if isinstance(nodes, list) and nodes and nodes[-1] != count:
            self._refuse((*at, "nodes_per_layer"), f"must end in {count}, the number of fitted flavours.")
        self._activations(given.get("activation_per_layer"))
        self._put("initializer", (*at, "initializer"), part="model")
        optimizer = (*at, "optimizer")
        self._refuse_unknown(optimizer, given.get("optimizer"), ("clipnorm", "learning_rate", "optimizer_name"))
        self._put("clipnorm", (*optimizer, "clipnorm"), part="control")
        self._put("learning_rate", (*optimizer, "learning_rate"), part="control")
        self._put("optimizer", (*optimizer, "optimizer_name"), part="control")
        self._put("epochs", (*at, "epochs"), part="control")
        self._put("patience", (*at, "stopping_patience"), part="control")
        self._put("threshold_chi2", (*at, "threshold_chi2"), part="control")
        self._multipliers(given)
        self._put("layer_type", (*at, "layer_type"), part="model")
        self._put("dropout", (*at, "dropout"), part="model")
        self._put("scaling", (*at, "feature_scaling_points"), part="model")

    def _activations(self, names: Any) -> None:
        if names is None:
            return
        path = ("parameters", "activation_per_layer")
        hidden = names[:-1] if isinstance(names, list) else []
        if not hidden or names[-1] != "linear":
            self._refuse(path, "must list the hidden layers and end in 'linear'.")
            return
        self.card["model"]["activation"] = hidden[0] if len(set(map(str, hidden))) == 1 else hidden
        self.origin[("model", "activation")] = path

    def _flavours(self) -> dict[str, str]:
        """Return our names of the flavours of the card's basis (of EVOL where it is refused)."""
        return _BASES.get(str(self._get(("fitting", "fitbasis")) or "EVOL"), _BASES["EVOL"])[0]

    def _fitting(self) -> None:
        given = self.content.get("fitting")
        known = ("fitbasis", "savepseudodata", "basis", "sum_rules", "genrep", "trvlseed", "nnseed", "mcseed")
        self._refuse_unknown(("fitting",), given, known)
        if not isinstance(given, dict):
            return
        fitbasis = given.get("fitbasis", "EVOL")
        if fitbasis not in _BASES:
            self._refuse(("fitting", "fitbasis"), f"can only be {', '.join(_BASES)} here, not {fitbasis!r}.")
        else:
            self.card["model"] |= _BASES[fitbasis][1]
        self._put("sum_rules", ("fitting", "sum_rules"), part="model", change=_sum_rules)
        self._basis(given.get("basis"))

    def _basis(self, rows: Any) -> None:
        ranges: dict[str, dict[str, Any]] = {"alpha": {}, "beta": {}}
        trainable: set[bool] = set()
        for i, row in enumerate(rows or ()):
            path: Path = ("fitting", "basis", i)
            self._refuse_unknown(path, row, ("fl", "trainable", "smallx", "largex"))
            if not isinstance(row, dict):
                continue
            known, given = self._flavours(), str(row.get("fl", ""))
            name = known.get(given)
            if name is None:
                self._refuse((*path, "fl"), f"is {given!r}. {nearest(given, known, what='flavour')}")
                continue
            trainable.add(bool(row.get("trainable", True)))
            for own, theirs in (("alpha", "smallx"), ("beta", "largex")):
                if theirs in row:
                    ranges[own][name] = row[theirs]
                    self.origin[("model", own, name)] = (*path, theirs)
        if len(trainable) > 1:
            self._refuse(("fitting", "basis"), "must make all exponents trainable, or none.")
        elif trainable:
            self.card["model"]["trainable_exponents"] = trainable.pop()
        self.card["model"] |= {own: found for own, found in ranges.items() if found}

    def _constraints(self) -> None:
        """Join both lists of observables, with their conditions among the added filter rules."""
        rules = self._added_rules()
        for key, listed, start in (
            ("positivity", "posdatasets", "NNPDF_POS"), ("integrability", "integdatasets", "NNPDF_INTEG"),
        ):  # fmt: skip
            given = self.content.get(key)
            self._refuse_unknown((key,), given, (listed,))
            names = given.get(listed) if isinstance(given, dict) else None
            if names is not None and not isinstance(names, list):
                self._refuse((key, listed), f"must be a list of observables, not {names!r}.")
                continue
            for i, entry in enumerate(names or ()):
                self._constraint((key, listed, i), entry, start, rules)
        for name, (path, conditions) in rules.items():
            self.card.setdefault("cuts", {})[name] = conditions
            self.origin[("cuts", name)] = path

    def _constraint(self, path: Path, entry: Any, start: str, rules: dict[str, tuple[Path, list[str]]]) -> None:
        self._refuse_unknown(path, entry, ("dataset", "maxlambda"))
        name = entry.get("dataset") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name.startswith(start):
            self._refuse((*path, "dataset"), f"must be the name of an observable {start}_..., not {name!r}.")
            return
        constraints = self.card.setdefault("constraints", [])
        place: Path = ("constraints", len(constraints))
        own = {key: value for key, value in entry.items() if key in ("dataset", "maxlambda")}
        self.origin |= {place: path} | {(*place, key): (*path, key) for key in own}
        if name in rules:
            where, conditions = rules.pop(name)
            own["rule"] = conditions[0] if len(conditions) == 1 else " and ".join(f"({c})" for c in conditions)
            self.origin[(*place, "rule")] = where
        constraints.append(own)

    def _added_rules(self) -> dict[str, tuple[Path, list[str]]]:
        """Return the conditions of ``added_filter_rules`` by dataset, and where the first of each stands."""
        found: dict[str, tuple[Path, list[str]]] = {}
        given = self.content.get("added_filter_rules")
        if given is not None and not isinstance(given, list):
            self._refuse(("added_filter_rules",), f"must be a list of rules, not {given!r}.")
            return found
        for i, rule in enumerate(given or ()):
            path: Path = ("added_filter_rules", i)
            self._refuse_unknown(path, rule, ("dataset", "rule", "reason"))
            if not isinstance(rule, dict):
                continue
            name, condition = rule.get("dataset"), rule.get("rule")
            if not isinstance(name, str) or not isinstance(condition, str):
                self._refuse(path, "needs 'dataset: NAME' and 'rule: CONDITION', both text.")
                continue
            found.setdefault(name, ((*path, "rule"), []))[1].append(condition)
        return found

    def _multipliers(self, given: dict[str, Any]) -> None:
        for kind, known in (
            ("positivity", ("initial", "multiplier", "threshold")), ("integrability", ("initial", "multiplier")),
        ):  # fmt: skip
            path = ("parameters", kind)
            self._refuse_unknown(path, given.get(kind), known)
            # Without a number the other program starts at 1, or where the factor leads to the maximum.
            self.card["control"][f"{kind}_initial"] = None
            for key in known:
                self._put(f"{kind}_{key}", (*path, key), part="control")


def _sum_rules(value: Any) -> Any:
    names = {True: "all", False: "off", "MSR": "momentum", "VSR": "valence", "ALL": "all"}
    return names.get(value, value) if isinstance(value, bool | str) else value
