"""The parts of a runcard in our short form, as typed settings; :mod:`partonfit.runcard` reads cards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from partonfit._vocabulary import FITTED

if TYPE_CHECKING:
    Combination = str
else:
    Combination = Literal[FITTED]
Bool = Annotated[bool, Field(strict=True)]
SumRules = Literal["all", "momentum", "valence", "off"]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _not_bool(value: Any) -> Any:
    # YAML's true is a bool, which Python counts among the numbers.
    if isinstance(value, bool):
        msg = "expected a number, not true or false"
        raise ValueError(msg)
    return value


Number = BeforeValidator(_not_bool)


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, use_attribute_docstrings=True)


class DataEntry(Settings):
    """One dataset of a fit."""

    dataset: str
    """Name of the dataset, as in nnpdf-data."""
    variant: str | None = None
    """Variant of its uncertainties, e.g. ``legacy``."""
    frac: Annotated[float | None, Field(gt=0, le=1), Number] = None
    """Fraction of its points in the training set."""
    cfac: list[str] = []
    """Names of the C-factors that multiply its theory."""
    weight: Annotated[float, Field(gt=0), Number] = 1.0
    """Weight of its chi2."""


class ConstraintEntry(Settings):
    """One positivity or integrability observable."""

    dataset: str
    """Name of the observable, as in nnpdf-data."""
    maxlambda: Annotated[float | None, Field(ge=0, allow_inf_nan=False), Number] = None
    """Multiplier of its penalty at the last epoch; null: 1e6, 1e10 for DYU, DYD and DYS, 100 for integrability."""
    rule: str | None = None
    """Condition on the points to keep, e.g. ``x > 0.1``."""


class ModelSettings(Settings):
    """The network; see ``partonfit.pdf_model``."""

    nodes: list[Annotated[int, Field(ge=1, le=10_000), Number]] = [25, 20]
    """Widths of the hidden layers."""
    activation: str = "tanh"
    """Keras name of the hidden activation."""
    initializer: str = "glorot_normal"
    """Keras name of the initializer of the weights."""
    preprocessing: Bool = True
    """Multiply the network by x^(1-alpha) (1-x)^beta."""
    alpha: dict[Combination, tuple[float, float]] | None = None
    """Ranges of alpha by combination, where they differ from NNPDF4.0."""
    beta: dict[Combination, tuple[float, float]] | None = None
    """Ranges of beta by combination, where they differ from NNPDF4.0."""
    trainable_exponents: Bool = False
    """Train alpha and beta."""
    sum_rules: SumRules = "all"
    """Sum rules that are imposed."""


class ControlSettings(Settings):
    """The training; see ``partonfit.fit_control``."""

    epochs: Annotated[int, Field(ge=1), Number] = 17000
    """Largest number of updates."""
    patience: Annotated[float, Field(gt=0, le=1), Number] = 0.1
    """Fraction of ``epochs`` without improvement after which a replica stops."""
    learning_rate: Annotated[Positive, Number] = 2.621e-3
    """Learning rate of the optimizer."""
    clipnorm: Annotated[Positive | None, Number] = 6.073e-6
    """Largest norm of a gradient, for each tensor of each replica; null: off."""
    optimizer: str = "Nadam"
    """Keras name of the optimizer."""
    training_fraction: Annotated[float, Field(gt=0, le=1), Number] = 0.75
    """Fraction of every dataset's points in the training set."""
    threshold_chi2: Annotated[Positive | None, Number] = 3.5
    """Validation chi2 per point from which weights count; null: always."""
    pseudodata: Bool = True
    """Let every replica fit its own fluctuated data."""
    precision: Literal["float32", "float64"] = "float32"
    """Precision of the training."""
    compression: Annotated[float, Field(ge=0, le=1e-2), Number] = 3e-7
    """Relative singular value below which a direction of the theory is dropped."""
    block_size: Annotated[int | None, Field(ge=1), Number] = None
    """Replicas in one compiled block; null: chosen for the device."""
    positivity_initial: Annotated[Positive | None, Number] = 184.8
    """First multiplier of positivity observables; null: from the factor, or 1."""
    positivity_multiplier: Annotated[Positive | None, Number] = None
    """Its factor every 100 epochs; null: what reaches maxlambda at the last epoch."""
    positivity_threshold: Annotated[Positive, Number] = 1e-6
    """Weights count only while the penalty of every positivity observable is below."""
    integrability_initial: Annotated[Positive | None, Number] = 10.0
    """First multiplier of integrability observables; null: from the factor, or 1."""
    integrability_multiplier: Annotated[Positive | None, Number] = None
    """Its factor every 100 epochs; null: what reaches maxlambda at the last epoch."""
    quadratic_tolerance: Annotated[float, Field(ge=0, le=0.1), Number] = 1e-4
    """Relative error of data quadratic in the PDF in the training."""
    positivity_tolerance: Annotated[float, Field(ge=0, le=0.1), Number] = 3e-3
    """Relative error of constraints quadratic in the PDF in the training."""
