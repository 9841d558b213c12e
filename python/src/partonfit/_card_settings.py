"""The parts of a runcard in our short form, as typed settings; :mod:`partonfit.runcard` reads cards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from partonfit._vocabulary import FITTED_V15, PARTONS_CBAR

if TYPE_CHECKING:
    Output = str
else:
    Output = Literal[tuple(dict.fromkeys((*FITTED_V15, *PARTONS_CBAR)))]
Bool = Annotated[bool, Field(strict=True)]
SumRules = Literal["all", "momentum", "valence", "off"]
Prescription = Literal["3 point", "3f point", "3r point", "5 point", "5bar point", "7 point", "9 point"]
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


class TheoryCovarianceSettings(Settings):
    """Uncertainties of the theory; see ``partonfit.scale_covariance`` and ``partonfit.load_theory_covariance``."""

    prescriptions: list[Prescription] = []
    """Point prescriptions for scale variations, e.g. ``7 point``; several add up."""
    theories: dict[str, str] = {}
    """Folders of theories at varied scales by "(kappa_F, kappa_R)"; empty: NNPDF's public ones beside the theory."""
    pdf: str | None = None
    """PDF of the predictions: ``toy``, or a folder with an LHAPDF set or a saved fit; null: that of t0."""
    correlated: Literal["process", "dataset", "all"] = "process"
    """Which datasets share a renormalisation scale."""
    matrix: str | None = None
    """File of a covariance with labels, added to those of the prescriptions."""
    factor: Annotated[float, Field(ge=0, allow_inf_nan=False), Number] = 1.0
    """Number that multiplies the matrix of the file."""


Range = tuple[float, float]


class ModelSettings(Settings):
    """The network; see ``partonfit.pdf_model``."""

    nodes: list[Annotated[int, Field(ge=1, le=10_000), Number]] = [25, 20]
    """Widths of the hidden layers."""
    activation: str | list[str] = "tanh"
    """Keras name of the hidden activation, or one per layer."""
    initializer: str = "glorot_normal"
    """Keras name of the initializer of the weights."""
    layer_type: Literal["dense", "dense_per_flavour"] = "dense"
    """One network, or one for each output."""
    dropout: Annotated[float, Field(ge=0, lt=1), Number] = 0.0
    """Fraction of the last hidden layer's nodes that is dropped at random in training."""
    form: Literal["herapdf", "les_houches"] | None = None
    """A function with parameters in the place of the network."""
    parameters: dict[str, float | Range] | None = None
    """Ranges or held values of the form's parameters, where they differ from its own."""
    basis: Literal["evolution", "flavour"] | None = None
    """What the network gives; null: flavours for a form, else combinations of the evolution basis."""
    charm_asymmetry: Bool = False
    """Fit V15 (or cbar) too."""
    scaling: Annotated[int, Number] | list[float] | None = None
    """Map x to [-1, 1] for the network: number of knots, or their x; null: the network sees x and ln x."""
    subtract_one: Bool | None = None
    """Subtract the network's value at x = 1; null: with scaling."""
    preprocessing: Bool | None = None
    """Multiply the network by x^(1-alpha) (1-x)^beta; null: not for a form, nor with scaling alone."""
    alpha: dict[Output, Range] | None = None
    """Ranges of alpha by output, where they differ from NNPDF4.0."""
    beta: dict[Output, Range] | None = None
    """Ranges of beta by output, where they differ from NNPDF4.0."""
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
    """Fraction of every dataset's points (or of the modes) in the training set."""
    threshold_chi2: Annotated[Positive | None, Number] = 3.5
    """Validation chi2 per point from which weights count; null: always."""
    pseudodata: Bool = True
    """Let every replica fit its own fluctuated data."""
    split: Literal["points", "modes"] = "points"
    """What is divided into training and validation: points of every dataset, or eigenmodes of all data."""
    separate_multiplicative: Bool = False
    """Let multiplicative uncertainties act on pseudodata as factors."""
    t0_in_sampling: Bool = True
    """Scale multiplicative uncertainties of pseudodata with the t0 predictions; false: with the data."""
    positive_tries: Annotated[int, Field(ge=0), Number] = 0
    """How often pseudodata are drawn again while a cross section is negative; 0: they are accepted."""
    theory_in_sampling: Bool = True
    """Count the theory covariance in the noise of pseudodata."""
    theory_in_fitting: Bool = True
    """Count the theory covariance in the chi2."""
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
