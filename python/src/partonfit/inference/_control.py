"""Settings of a PDF fit."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import keras

from partonfit._checks import real, whole
from partonfit._errors import SettingError, nearest
from partonfit.inference._constraints import Multipliers
from partonfit.training import EngineControl

SPLITS = ("points", "modes")
"""What is divided into training and validation: points, by dataset, or eigenmodes of all data together."""


@dataclass(frozen=True)
class FitControl:
    """How a PDF fit is run; made and checked by :func:`fit_control`. Fields as there."""

    epochs: int = 17000
    patience: float = 0.1
    learning_rate: float = 2.621e-3
    clipnorm: float | None = 6.073e-6
    optimizer: Any = "Nadam"
    training_fraction: float = 0.75
    threshold_chi2: float | None = 3.5
    pseudodata: bool = True
    split: str = "points"
    separate_multiplicative: bool = False
    t0_in_sampling: bool = True
    positive_tries: int = 0
    theory_in_sampling: bool = True
    theory_in_fitting: bool = True
    precision: str = "float32"
    compression: float = 3e-7
    block_size: int | None = None
    positivity_initial: float | None = 184.8
    positivity_multiplier: float | None = None
    positivity_threshold: float = 1e-6
    integrability_initial: float | None = 10.0
    integrability_multiplier: float | None = None
    quadratic_tolerance: float = 1e-4
    positivity_tolerance: float = 3e-3

    def __post_init__(self) -> None:
        whole("epochs", self.epochs, least=1)
        real("patience", self.patience, above=0, most=1)
        real("learning_rate", self.learning_rate, above=0)
        if self.clipnorm is not None:
            real("clipnorm", self.clipnorm, above=0)
        real("training_fraction", self.training_fraction, above=0, most=1)
        if self.threshold_chi2 is not None:
            real("threshold_chi2", self.threshold_chi2, above=0)
        for name in (
            "pseudodata",
            "separate_multiplicative",
            "t0_in_sampling",
            "theory_in_sampling",
            "theory_in_fitting",
        ):
            if not isinstance(getattr(self, name), bool):
                msg = f"{name} must be True or False, not {getattr(self, name)!r}."
                raise SettingError(msg)
        if self.split not in SPLITS:
            msg = f"Unknown split {self.split!r}. {nearest(str(self.split), SPLITS, what='split')}"
            raise SettingError(msg)
        whole("positive_tries", self.positive_tries, least=0)
        real("compression", self.compression, above=-1e-300, most=1e-2)
        for kind in ("positivity", "integrability"):
            for name in (f"{kind}_initial", f"{kind}_multiplier"):
                if getattr(self, name) is not None:
                    real(name, getattr(self, name), above=0)
        real("positivity_threshold", self.positivity_threshold, above=0)
        for name in ("quadratic_tolerance", "positivity_tolerance"):
            real(name, getattr(self, name), above=-1e-300, most=0.1)
        known = optimizers()
        if isinstance(self.optimizer, keras.optimizers.Optimizer):
            # Settings are plain values that are stored with the fit.
            object.__setattr__(self, "optimizer", json.dumps(keras.optimizers.serialize(self.optimizer)))
        if self.optimizer not in known and not str(self.optimizer).startswith("{"):
            msg = f"Unknown optimizer {self.optimizer!r}. {nearest(self.optimizer, known, what='optimizer')}"
            raise SettingError(msg)
        self.engine()

    def engine(self) -> EngineControl:
        """Return the part that the training engine reads."""
        return EngineControl(
            epochs=self.epochs,
            patience=max(1, round(self.patience * self.epochs)),
            precision=self.precision,
            block_size=self.block_size,
            record_every=max(1, self.epochs // 170),
        )

    def multipliers(self, kind: str) -> Multipliers:
        """Return how the multipliers of ``"positivity"`` or ``"integrability"`` observables grow."""
        return Multipliers(getattr(self, f"{kind}_initial"), getattr(self, f"{kind}_multiplier"))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self)


def optimizers() -> tuple[str, ...]:
    """Return the names of Keras' optimizers that need nothing but a learning rate."""
    base, wrappers = keras.optimizers.Optimizer, {"LossScaleOptimizer", "MultiOptimizer"}
    found = {name: getattr(keras.optimizers, name) for name in set(dir(keras.optimizers)) - wrappers}
    return tuple(n for n, c in sorted(found.items()) if isinstance(c, type) and issubclass(c, base) and c is not base)


def fit_control(**settings: Any) -> FitControl:
    """Return the settings of a fit; the defaults are those of NNPDF4.0.

    Parameters
    ----------
    epochs
        Largest number of full-batch updates of each replica.
    patience
        Fraction of ``epochs`` without improvement after which a replica stops.
    learning_rate, clipnorm, optimizer
        Of the Keras optimizer, which is named; ``clipnorm`` acts per tensor and per replica (``None``: off).
        An optimizer object of Keras has its own settings, and the first two are not used.
    training_fraction
        Fraction of each dataset's points in the training set, per replica (a dataset's ``frac``
        takes precedence).
    threshold_chi2
        Validation chi2 per point that a replica must reach before its weights count (``None``: off).
    pseudodata
        Whether each replica fits its own fluctuated data; ``False`` fits the data as they are.
    split
        ``"points"``: each dataset's points are divided into training and validation; ``"modes"``: the eigenmodes of
        the correlation matrix of all data are (a dataset's ``frac`` then has no meaning).
    separate_multiplicative
        Whether multiplicative uncertainties act on pseudodata as factors, ``(values + additive) * prod(1 + delta)``.
    t0_in_sampling
        Whether multiplicative uncertainties of pseudodata scale with the t0 predictions, as in the fit, or with the
        data.
    positive_tries
        How often the pseudodata of a replica are drawn again while a cross section is negative; 0 accepts them.
        Drawing again biases the mean.
    theory_in_sampling, theory_in_fitting
        Where the theory covariance that a fit is given counts: in the noise of pseudodata, in the chi2.
    precision
        ``"float32"`` or ``"float64"``.
    compression
        Relative singular value below which a direction of the theory map is dropped; 0 keeps all.
    block_size
        Replicas per compiled block (``None``: chosen for the device).
    positivity_initial, integrability_initial
        Multiplier of the penalty of each observable in the first epochs (``None``: what reaches the
        maximum with the given factor, or 1).
    positivity_multiplier, integrability_multiplier
        Factor by which it grows every 100 epochs (``None``: what reaches the observable's maximum at
        the last epoch).
    positivity_threshold
        Weights count only while the penalty of every positivity observable is below.
    quadratic_tolerance, positivity_tolerance
        Error that the short form of rows quadratic in the PDF may make in the training, of data and of
        positivity observables, relative to the size of a row (0: none).

    Raises
    ------
    SettingError
        When a name or value is not valid.

    Examples
    --------
    >>> fit_control(epochs=1000).patience
    0.1
    """
    known = FitControl.__dataclass_fields__
    for name in settings:
        if name not in known:
            msg = f"Unknown fit setting {name!r}. {nearest(name, known, what='setting')}"
            raise SettingError(msg)
    return FitControl(**settings)
