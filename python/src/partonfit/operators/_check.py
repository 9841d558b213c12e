"""Does an operator keep its promises? Dot test, Taylor test, and the plain things first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partonfit._checks import real, whole
from partonfit._errors import OperatorError, SettingError
from partonfit.operators._protocol import Array, sizes
from partonfit.operators._stages import Problem, Stages


@dataclass(frozen=True)
class OperatorCheck:
    """What :func:`check_operator` found; printing it says all.

    Attributes
    ----------
    name
        The operator.
    problems
        In the order found; empty when all is well.
    measured
        The largest relative disagreement of each test that ran: "dot test", "Taylor test", ...
    """

    name: str
    problems: tuple[Problem, ...]
    measured: dict[str, float] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether nothing serious was found (there may be remarks)."""
        return not any(problem.serious for problem in self.problems)

    def __str__(self) -> str:
        """Return the verdict, then a line for each problem and each number."""
        serious = [problem for problem in self.problems if problem.serious]
        verdict = "passed" if self.passed else f"{len(serious)} problem{'s' * (len(serious) > 1)}"
        lines = [f"Check of operator '{self.name}': {verdict}"]
        lines += [f"  {'x' if p.serious else '!'} {p.test}: {p.text}" for p in self.problems]
        lines += [f"    {test}: {value:.1e}" for test, value in self.measured.items()]
        return "\n".join(lines)

    __repr__ = __str__

    def raise_if_failed(self) -> None:
        """Raise :class:`OperatorError` with this report unless the check passed."""
        if not self.passed:
            raise OperatorError(str(self))


def check_operator(
    op: Any, x: Any = None, *, samples: int = 3, tolerance: float = 1e-10, seed: int = 0
) -> OperatorCheck:
    """Test an operator's derivatives and manners, and say in a sentence what is wrong.

    The dot test compares <H dx, dy> with <dx, H^T dy>; the Taylor test compares H dx with
    differences of ``forward``. Also looked at: shapes, types, finite results, exceptions, arguments
    that are written into, results that differ from call to call, linearity of the derivatives in
    their second argument, batched against single calls, overlapping calls of an operator that says
    it is thread-safe, and derivatives that ignore the state of one that does not say it is linear.

    Parameters
    ----------
    op
        Anything that follows :class:`ObservationOperator`.
    x
        States to test at: (state,) or (sample, state). Standard normal ones when left out, so give
        some where the operator has a domain (positive emissions, ...).
    samples
        Number of states when ``x`` is left out or is one state, which is then varied by 10 %.
    tolerance
        Largest disagreement of the dot test, relative to |H dx| |dy|.
    seed
        Of the states and directions.

    Returns
    -------
    OperatorCheck
        ``passed``, ``problems``, ``measured``; print it.

    Raises
    ------
    SettingError
        When ``op`` is no operator, or ``x`` has the wrong shape.

    Notes
    -----
    About 50 forward calls per state, and fewer of the others.

    Examples
    --------
    >>> import partonfit as pf
    >>> op = pf.operator(
    ...     forward=lambda x: x**2, tangent_linear=lambda x, dx: 2 * x * dx,
    ...     adjoint=lambda x, dy: -2 * x * dy, n_state=3, n_obs=3, name="square",
    ... )
    >>> print(pf.check_operator(op))
    Check of operator 'square': 1 problem
      x dot test: adjoint has the wrong sign.
        tangent_linear linear in dx: ...
        adjoint linear in dy: ...
        Taylor test: ...
        dot test: 1.6e+00
    """
    n_state, n_obs = sizes(op)
    samples, seed = whole("samples", samples, least=2), whole("seed", seed, least=0)
    real("tolerance", tolerance, above=0)
    rng = np.random.default_rng([seed, n_state, n_obs])
    states = _states(x, n_state, samples, rng)
    check = Stages(op, states, tolerance, rng)
    problems: list[Problem] = []
    for stage in (check.manners, check.repeats, check.linearity, check.derivatives, check.batches, check.threads):
        problems += stage()
        if stage == check.manners and any(p.serious for p in problems):
            break  # what returns no numbers, or wrong shapes, has no derivatives to test
    return OperatorCheck(check.name, tuple(problems), check.measured)


def _states(x: Any, n_state: int, samples: int, rng: np.random.Generator) -> Array:
    if x is None:
        return rng.normal(size=(samples, n_state))
    given = np.array(x, dtype=np.float64)
    if given.ndim not in (1, 2) or given.shape[-1] != n_state or not given.size or not np.isfinite(given).all():
        msg = f"x must be finite states of shape ({n_state},) or (sample, {n_state}), not {given.shape}."
        raise SettingError(msg)
    states = np.atleast_2d(given)
    if len(states) > 1:
        return states
    return np.concatenate([states, states * rng.uniform(0.9, 1.1, size=(samples - 1, n_state))])
