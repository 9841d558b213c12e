"""Estimate of a state from observations through any operator, with its uncertainty.

The cost function is that of three-dimensional variational assimilation,

    J(x) = 1/2 (x - b)^T B^-1 (x - b) + 1/2 (y - H(x))^T R^-1 (y - H(x)),

minimised over a control variable v with x = b + L v and B = L L^T, in which the prior term is
|v|^2 / 2: well conditioned, and no inverse of B (Lorenc 1986, Q. J. R. Meteorol. Soc. 112, 1177; Courtier
1997, ibid. 123, 2449). Minimising again for perturbed y and b gives draws from the posterior, exactly
where H is linear (randomised maximum likelihood; Oliver, He and Reynolds 1996).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_triangular

from partonfit import _seeds
from partonfit._checks import real, whole
from partonfit._errors import FitError, MissingDependencyError, SettingError, nearest
from partonfit._precision import precision_context
from partonfit.operators import wrap_operator

_MINIMISERS = ("optax", "scipy")


@dataclass(frozen=True, repr=False)
class StateFit:
    """What :func:`fit_state` returns.

    Attributes
    ----------
    state
        (state,) at the minimum of the cost function.
    sd
        (state,) standard deviation of the converged members (NaN without an ensemble).
    members
        (member, state): minima for perturbed observations and priors; NaN where one did not converge.
    observations
        (observation,) what the operator makes of ``state``.
    cost
        J at the minimum; ``chi2`` is (y - H)^T R^-1 (y - H) alone. Twice the cost is about the number of
        observations where B and R are right.
    iterations, converged
        (1 + member,): of the estimate itself, then of the members.
    calls
        Calls of the operator, by function.
    seed
        Of the perturbations.
    """

    state: np.ndarray
    sd: np.ndarray
    members: np.ndarray
    observations: np.ndarray
    cost: float
    chi2: float
    iterations: np.ndarray
    converged: np.ndarray
    calls: dict[str, int]
    seed: int

    def __repr__(self) -> str:
        """Say what was found, without the numbers of the state."""
        count, ended = len(self.members), int(self.converged[1:].sum())
        ensemble = f", {ended} of {count} members converged" if count else ""
        ending = "converged" if self.converged[0] else "not converged"
        return (
            f"<StateFit: {len(self.state)} unknowns, {len(self.observations)} observations, chi2 = {self.chi2:.4g}, "
            f"cost = {self.cost:.4g}, {ending} after {int(self.iterations[0])} iterations{ensemble}>"
        )


def fit_state(
    op: Any,
    y: Any,
    R: Any,
    *,
    prior_mean: Any,
    prior_covariance: Any = None,
    prior_factor: Any = None,
    members: int = 0,
    seed: int | None = None,
    minimiser: str = "optax",
    iterations: int = 200,
    tolerance: float = 1e-6,
) -> StateFit:
    """Estimate a state from observations through an operator, and its posterior spread.

    Parameters
    ----------
    op
        Anything that follows :class:`ObservationOperator`: a black box, a wrapped one, a surrogate, or a
        matrix (observation, state).
    y
        Observations (observation,).
    R
        Covariance of their errors: one variance, variances (observation,), or a matrix.
    prior_mean
        b (state,).
    prior_covariance
        B: one variance, variances (state,), or a matrix.
    prior_factor
        L (state, control) with B = L L^T, instead of B: for large states, with few columns.
    members
        Size of the ensemble of perturbed observations and priors; 0: the estimate alone.
    seed
        Whole number for the perturbations; ``None`` draws one.
    minimiser
        "optax": L-BFGS on all members at once in one compiled program. "scipy": L-BFGS-B member by
        member, with the operator in the calling thread (for operators written in R).
    iterations
        Most iterations of the minimiser.
    tolerance
        Converged when the gradient has fallen by this factor, or has this length.

    Returns
    -------
    StateFit

    Raises
    ------
    SettingError
        When shapes do not fit together, or a covariance is not positive definite.
    MissingDependencyError
        Without optax (``pip install "partonfit[inversion]"``) and ``minimiser="optax"``.
    FitError
        When the operator's values at the prior mean are not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import partonfit as pf
    >>> H = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    >>> fit = pf.fit_state(H, [1.0, 1.0], R=0.5, prior_mean=np.zeros(3), prior_covariance=0.5, minimiser="scipy")
    >>> fit.state.round(4)
    array([0.5   , 0.3333, 0.3333])
    """
    if minimiser not in _MINIMISERS:
        msg = f"Unknown minimiser {minimiser!r}. {nearest(str(minimiser), _MINIMISERS, what='minimiser')}"
        raise SettingError(msg)
    whole("members", members, least=0)
    whole("iterations", iterations, least=1)
    real("tolerance", tolerance, above=0)
    seed = int(np.random.SeedSequence().generate_state(1)[0] >> 1) if seed is None else _seeds.checked_seed(seed)
    h = wrap_operator(_as_operator(op), nonfinite="nan")
    before = dict(h.calls)
    b, y = _vector("prior_mean", prior_mean, h.n_state), _vector("y", y, h.n_obs)
    if (prior_covariance is None) == (prior_factor is None):
        msg = "fit_state needs the prior's spread: prior_covariance= or prior_factor=, one of them."
        raise SettingError(msg)
    left = _factor("prior_covariance", prior_covariance, h.n_state) if prior_factor is None else _given_factor(
        prior_factor, h.n_state
    )  # fmt: skip
    noise = _factor("R", R, h.n_obs)
    problem = _Problem(h, left, noise)
    targets, priors = np.tile(y, (1 + members, 1)), np.tile(b, (1 + members, 1))
    for member in range(members):  # each has streams of its own: the same alone and in company
        for array, factor, what in ((targets, noise, "observations"), (priors, left, "prior")):
            rng = _seeds.stream(seed, "state", what, member)
            array[1 + member] += _times(factor, rng.normal(size=_columns(factor)))
    with precision_context("float64"):
        solve = _with_optax if minimiser == "optax" else _with_scipy
        control, steps, converged = solve(problem, targets, priors, iterations, tolerance)
        states = priors + _times(left, control)
        seen = np.asarray(h.forward(states[0]))
    if not np.isfinite(seen).all():
        msg = "The operator is not finite at the estimate: is the prior mean in its domain?"
        raise FitError(msg)
    residual = _solved(noise, y - seen)
    chi2 = float(residual @ residual)
    drawn = np.where(converged[1:, None], states[1:], np.nan)
    good = states[1:][converged[1:]]
    sd = good.std(axis=0, ddof=1) if len(good) > 1 else np.full(h.n_state, np.nan)
    calls = {kind: h.calls[kind] - before[kind] for kind in before}
    cost = 0.5 * chi2 + 0.5 * float(control[0] @ control[0])
    return StateFit(states[0], sd, drawn, seen, cost, chi2, steps, converged, calls, seed)


# ---- the cost function ---------------------------------------------------------------------------------


class _Problem:
    """The cost of one member as a function of its control variable."""

    def __init__(self, h: Any, left: np.ndarray, noise: np.ndarray) -> None:
        self.h, self.left, self.noise = h, left, noise
        # R^-1/2 is a product in the compiled program; its factor is small beside the operator.
        self.white = 1 / noise if noise.ndim == 1 else solve_triangular(noise, np.eye(len(noise)), lower=True)
        self.n_control = _columns(left)

    def cost_and_gradient(self, v: np.ndarray, y: np.ndarray, b: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the same with its gradient in NumPy, the operator being called in this thread."""
        x = b + _times(self.left, v)
        gap = _times(self.white, y - np.asarray(self.h.forward(x)))
        back = _transposed(self.white, gap)
        gradient = v - _transposed(self.left, np.asarray(self.h.adjoint(x, back)))
        return 0.5 * float(v @ v + gap @ gap), gradient


def _cost(h: Any, v: Any, y: Any, b: Any, left: Any, white: Any) -> Any:
    """Return J at x = b + L v."""
    x = b + (left * v if left.ndim == 1 else left @ v)
    gap = y - h.forward(x)
    gap = gap * white if white.ndim == 1 else white @ gap
    return 0.5 * jnp.sum(v**2) + 0.5 * jnp.sum(gap**2)


def _with_optax(problem: _Problem, y: np.ndarray, b: np.ndarray, most: int, tolerance: float) -> tuple[Any, ...]:
    """Return control variables (member, control), iterations and whether they converged."""
    try:
        import optax  # noqa: F401
    except ImportError as error:
        msg = 'minimiser="optax" needs optax: pip install "partonfit[inversion]", or take minimiser="scipy".'
        raise MissingDependencyError(msg) from error
    solve = _compiled_lbfgs(problem.h, most, tolerance)
    return tuple(np.asarray(part) for part in solve(y, b, problem.left, problem.white))


@lru_cache(maxsize=4)
def _compiled_lbfgs(h: Any, most: int, tolerance: float) -> Any:
    """Return the compiled minimiser of all members: compiling takes longer than most estimates."""
    import optax

    rule = optax.lbfgs(memory_size=20)

    def one(y: Any, b: Any, left: Any, white: Any) -> tuple[Any, Any, Any]:
        def cost(v: Any) -> Any:
            return _cost(h, v, y, b, left, white)

        start = jnp.zeros(left.shape[-1])
        value, gradient = jax.value_and_grad(cost)(start)
        goal = tolerance * jnp.maximum(1.0, jnp.linalg.norm(gradient))

        def going(carry: Any) -> Any:
            _, value, gradient, _, step = carry
            return (step < most) & jnp.isfinite(value) & (jnp.linalg.norm(gradient) > goal)

        def advance(carry: Any) -> Any:
            v, value, gradient, state, step = carry
            change, state = rule.update(gradient, state, v, value=value, grad=gradient, value_fn=cost)
            # The line search has seen the cost at its last point: no second call of the operator.
            value, gradient = (optax.tree_utils.tree_get(state, name) for name in ("value", "grad"))
            return optax.apply_updates(v, change), value, gradient, state, step + 1

        v, value, gradient, _, step = jax.lax.while_loop(going, advance, (start, value, gradient, rule.init(start), 0))
        return v, step, jnp.isfinite(value) & (jnp.linalg.norm(gradient) <= goal)

    # The line search is a large program that runs few times: compiling it is most of the cost.
    options: Any = {"xla_llvm_disable_expensive_passes": True} if jax.default_backend() == "cpu" else None
    return jax.jit(jax.vmap(one, in_axes=(0, 0, None, None)), compiler_options=options)


def _with_scipy(problem: _Problem, y: np.ndarray, b: np.ndarray, most: int, tolerance: float) -> tuple[Any, ...]:
    from scipy.optimize import minimize

    control, steps, converged = [], [], []
    for target, prior in zip(y, b, strict=True):
        start = np.zeros(problem.n_control)
        size = np.linalg.norm(problem.cost_and_gradient(start, target, prior)[1])
        goal = tolerance * max(1.0, float(size))
        options = {"maxiter": most, "gtol": goal / np.sqrt(problem.n_control), "ftol": 0.0, "maxcor": 20}
        function: Callable[..., Any] = problem.cost_and_gradient
        found = minimize(function, start, (target, prior), "L-BFGS-B", jac=True, options=options)
        control.append(found.x)
        steps.append(found.nit)
        # With ftol = 0 it ends where rounding lets the cost fall no further: judge by the gradient.
        converged.append(bool(np.linalg.norm(found.jac) <= 10 * goal))
    return np.array(control), np.array(steps), np.array(converged)


# ---- what the user gives -------------------------------------------------------------------------------


def _as_operator(op: Any) -> Any:
    if hasattr(op, "forward"):
        return op
    from partonfit.operators import matrix_operator

    return matrix_operator(op)


def _vector(name: str, value: Any, size: int) -> np.ndarray:
    array = np.array(value, dtype=np.float64)
    if array.shape != (size,) or not np.isfinite(array).all():
        msg = f"{name} must be finite with shape ({size},), not {array.shape}."
        raise SettingError(msg)
    return array


def _factor(name: str, value: Any, size: int) -> np.ndarray:
    """Return L of a covariance: standard deviations (size,) or a lower triangle (size, size)."""
    array = np.array(value, dtype=np.float64)
    if array.shape not in ((), (size,), (size, size)) or not np.isfinite(array).all():
        msg = f"{name} must be one variance, ({size},) variances or a ({size}, {size}) matrix, not {array.shape}."
        raise SettingError(msg)
    if array.ndim < 2:
        if not (array > 0).all():
            msg = f"{name} holds a variance that is not above zero: {array.min():g}."
            raise SettingError(msg)
        return np.sqrt(np.broadcast_to(array, (size,)))
    if not np.allclose(array, array.T, rtol=1e-8, atol=1e-12 * np.abs(array).max()):
        msg = f"{name} is not symmetric."
        raise SettingError(msg)
    try:
        return np.linalg.cholesky(array)
    except np.linalg.LinAlgError:
        least = np.linalg.eigvalsh(array)[0]
        msg = (
            f"{name} is not positive definite: its smallest eigenvalue is {least:.2g}. Add a small variance to its "
            f"diagonal" + (", or give prior_factor=." if name == "prior_covariance" else ".")
        )
        raise SettingError(msg) from None


def _given_factor(value: Any, size: int) -> np.ndarray:
    array = np.array(value, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != size or not np.isfinite(array).all():
        msg = f"prior_factor must be finite with shape ({size}, control), not {array.shape}."
        raise SettingError(msg)
    return array


def _columns(factor: np.ndarray) -> int:
    return factor.shape[-1]


def _times(factor: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return L v for vectors (..., column)."""
    return v * factor if factor.ndim == 1 else v @ factor.T


def _transposed(factor: np.ndarray, v: np.ndarray) -> np.ndarray:
    return v * factor if factor.ndim == 1 else v @ factor


def _solved(factor: np.ndarray, v: np.ndarray) -> np.ndarray:
    return v / factor if factor.ndim == 1 else solve_triangular(factor, v, lower=True)
