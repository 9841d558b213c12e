"""A transport model with its adjoint: what a user of operators typically has, written in NumPy.

Emissions enter a tracer on a two-dimensional grid, winds carry it, diffusion spreads it, a reaction
takes it away, and stations measure it. The state is the emission of each cell.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from partonfit._checks import real, whole
from partonfit._errors import SettingError

_BATCH_FLOATS = 4_000_000  # numbers of a trajectory kept at once: 32 MB


@dataclass(frozen=True, eq=False)
class TransportModel:
    """The operator that :func:`transport_model` makes; follows :class:`ObservationOperator`.

    Attributes
    ----------
    shape
        Cells (y, x); x is periodic, y has walls.
    n_times
        Number of times at which every station measures.
    steps
        Time steps between two measurements.
    stations
        Cells with a station (station,), as indices into the flattened grid.
    loss
        Rate k of the reaction dc/dt = -k c^2.
    saturation
        Stations measure c / (1 + c / saturation).
    coefficients
        What a cell gets from its neighbours in one step: (5, y, x) for itself, west, east, south, north.
    """

    shape: tuple[int, int]
    n_times: int
    steps: int
    stations: np.ndarray = field(repr=False)
    loss: float
    saturation: float
    time_step: float
    coefficients: np.ndarray = field(repr=False)
    name: str = "transport model"
    thread_safe: bool = True

    @property
    def n_state(self) -> int:
        """Number of cells."""
        return self.shape[0] * self.shape[1]

    @property
    def n_obs(self) -> int:
        """Number of observations: stations times times."""
        return len(self.stations) * self.n_times

    @property
    def linear(self) -> bool:
        """Whether there is neither reaction nor saturation."""
        return self.loss == 0 and np.isinf(self.saturation)

    @cached_property
    def key(self) -> str:
        """Content key: every number that a result depends on."""
        import hashlib

        sha = hashlib.sha256(self.coefficients.tobytes() + self.stations.tobytes())
        numbers = (self.shape, self.n_times, self.steps, self.loss, self.saturation, self.time_step)
        return f"partonfit transport model 1 {numbers!r} {sha.hexdigest()}"

    # ---- the three functions, for one state or many ---------------------------------------------------

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return the observations (..., observation), time by time, of emissions (..., state)."""
        return self._in_blocks(self._forward, x)

    def tangent_linear(self, x: np.ndarray, dx: np.ndarray) -> np.ndarray:
        """Return the change of the observations (..., observation) for a change of emissions (..., state)."""
        return self._in_blocks(self._tangent_linear, x, dx)

    def adjoint(self, x: np.ndarray, dy: np.ndarray) -> np.ndarray:
        """Return the gradient (..., state) of dy . forward(x): the discrete adjoint, exact to rounding."""
        return self._in_blocks(self._adjoint, x, dy)

    forward_batch, tangent_linear_batch, adjoint_batch = forward, tangent_linear, adjoint

    def _in_blocks(self, function, *arguments: np.ndarray) -> np.ndarray:
        """Apply a function to blocks of samples, so that trajectories fit in memory."""
        flat = [np.asarray(a).reshape(-1, a.shape[-1]) for a in arguments]
        rows = max(1, _BATCH_FLOATS // (self.n_state * self.n_times * self.steps))
        parts = [function(*(a[i : i + rows] for a in flat)) for i in range(0, len(flat[0]), rows)]
        result = np.concatenate(parts)
        return result.reshape(*np.shape(arguments[0])[:-1], result.shape[-1])

    def _forward(self, x: np.ndarray) -> np.ndarray:
        source = self._source(x)
        c, seen = np.zeros_like(source), []
        for step in range(1, self.n_times * self.steps + 1):
            c = self._advance(c, source)
            if step % self.steps == 0:
                seen.append(self._at_stations(c))
        seen = np.concatenate(seen, axis=1)
        return seen / (1 + seen / self.saturation)

    def _tangent_linear(self, x: np.ndarray, dx: np.ndarray) -> np.ndarray:
        source, d_source = self._source(x), self._source(dx)
        c, dc, seen = np.zeros_like(source), np.zeros_like(source), []
        for step in range(1, self.n_times * self.steps + 1):
            dc = self._carry(dc * self._survival(c)) + d_source
            c = self._advance(c, source)
            if step % self.steps == 0:
                seen.append(self._at_stations(dc) * self._sensitivity(self._at_stations(c)))
        return np.concatenate(seen, axis=1)

    def _adjoint(self, x: np.ndarray, dy: np.ndarray) -> np.ndarray:
        source = self._source(x)
        trajectory = [np.zeros_like(source)]
        for _ in range(self.n_times * self.steps):
            trajectory.append(self._advance(trajectory[-1], source))
        weights = dy.reshape(len(dy), self.n_times, -1)
        back, gradient = np.zeros_like(source), np.zeros_like(source)
        flat = back.reshape(len(dy), -1)  # a view: stations add to it
        for step in range(self.n_times * self.steps, 0, -1):
            if step % self.steps == 0:
                sensitivity = self._sensitivity(self._at_stations(trajectory[step]))
                flat[:, self.stations] += weights[:, step // self.steps - 1] * sensitivity
            gradient += back
            back[...] = self._carry_back(back) * self._survival(trajectory[step - 1])
        return self._source(gradient.reshape(len(dy), -1)).reshape(len(dy), -1)

    # ---- one time step --------------------------------------------------------------------------------

    def _source(self, x: np.ndarray) -> np.ndarray:
        return self.time_step * x.reshape(len(x), *self.shape)

    def _advance(self, c: np.ndarray, source: np.ndarray) -> np.ndarray:
        return self._carry(c - self.time_step * self.loss * c**2) + source

    def _survival(self, c: np.ndarray) -> np.ndarray:
        """Derivative of c - dt k c^2."""
        return 1 - 2 * self.time_step * self.loss * c

    def _sensitivity(self, seen: np.ndarray) -> np.ndarray:
        """Derivative of c / (1 + c / saturation)."""
        return (1 + seen / self.saturation) ** -2

    def _at_stations(self, c: np.ndarray) -> np.ndarray:
        return c.reshape(len(c), -1)[:, self.stations]

    def _carry(self, c: np.ndarray) -> np.ndarray:
        """Wind and diffusion: each cell gathers from its neighbours."""
        own, west, east, south, north = self.coefficients
        result = own * c + west * np.roll(c, 1, -1) + east * np.roll(c, -1, -1)
        result[..., 1:, :] += south[1:] * c[..., :-1, :]
        result[..., :-1, :] += north[:-1] * c[..., 1:, :]
        return result

    def _carry_back(self, c: np.ndarray) -> np.ndarray:
        """The transpose of :meth:`_carry`: each cell gives back to those it gathered from."""
        own, west, east, south, north = self.coefficients
        result = own * c + np.roll(west * c, -1, -1) + np.roll(east * c, 1, -1)
        result[..., :-1, :] += south[1:] * c[..., 1:, :]
        result[..., 1:, :] += north[:-1] * c[..., :-1, :]
        return result


def transport_model(
    nx: int = 50,
    ny: int = 40,
    *,
    stations: int = 20,
    times: int = 5,
    steps: int = 8,
    wind: float = 0.3,
    diffusion: float = 0.05,
    loss: float = 0.05,
    saturation: float = 2.0,
    seed: int = 0,
) -> TransportModel:
    """Make an advection-diffusion-reaction model with its exact discrete adjoint, to try things on.

    A tracer with concentration c follows dc/dt + div(w c) = D lap(c) - k c^2 + x, where x (cell) are
    the emissions, starting from c = 0, on a grid periodic in x with walls in y. The wind is the curl
    of a stream function (a jet and eddies), so that it neither gathers nor thins the tracer. Upwind
    fluxes, explicit steps of length 1: mass is conserved to rounding without the reaction. Stations
    measure c / (1 + c / saturation) at ``times`` moments.

    Parameters
    ----------
    nx, ny
        Cells. The state has nx ny elements.
    stations, times
        There are stations x times observations.
    steps
        Time steps between two moments of measurement.
    wind
        Largest wind, in cells per step.
    diffusion
        D, in cells^2 per step.
    loss
        k of the reaction; 0 for none.
    saturation
        Concentration at which an instrument shows half; ``float("inf")`` for a linear one. With no
        loss either, the model is linear.
    seed
        Of the winds and the places of the stations.

    Returns
    -------
    TransportModel
        An :class:`ObservationOperator`, batched, thread-safe and with a key.

    Raises
    ------
    SettingError
        When wind and diffusion are too strong for a stable step, or there are more stations than cells.

    Examples
    --------
    >>> import numpy as np
    >>> model = transport_model(nx=10, ny=8, stations=5, times=2)
    >>> model.n_state, model.n_obs
    (80, 10)
    >>> x, dx, dy = np.random.default_rng(1).uniform(size=(3, 80))
    >>> gap = model.tangent_linear(x, dx) @ dy[:10] - dx @ model.adjoint(x, dy[:10])
    >>> bool(abs(gap) < 1e-12)
    True
    """
    nx, ny = whole("nx", nx, least=3), whole("ny", ny, least=3)
    n_stations, times, steps = (
        whole(w, v, least=1) for w, v in (("stations", stations), ("times", times), ("steps", steps))
    )
    for what, value in (("wind", wind), ("diffusion", diffusion), ("loss", loss)):
        real(what, value, above=-1e-300)
    if not saturation > 0:
        msg = f"saturation must be above zero (float('inf') for none), not {saturation!r}."
        raise SettingError(msg)
    if n_stations > nx * ny:
        msg = f"There are {nx * ny} cells, so at most as many stations, not {n_stations}."
        raise SettingError(msg)
    rng = np.random.default_rng([seed, nx, ny])
    coefficients = _coefficients(*_winds(nx, ny, wind, rng), diffusion)
    if coefficients[0].min() < 0:
        msg = (
            f"The step is unstable: wind = {wind:g} and diffusion = {diffusion:g} empty a cell in less than one "
            f"step. Keep about 2 wind + 4 diffusion below 1."
        )
        raise SettingError(msg)
    places = np.sort(rng.choice(nx * ny, n_stations, replace=False))
    return TransportModel((ny, nx), times, steps, places, float(loss), float(saturation), 1.0, coefficients)


def _winds(nx: int, ny: int, wind: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the winds through the west faces (y, x) and the south faces (y + 1, x), free of divergence."""
    along = 2 * np.pi * np.arange(nx) / nx
    across = np.linspace(0, 1, ny + 1)[:, None]
    stream = 0.6 * np.cos(np.pi * across) + np.zeros(nx)
    for wave in (1, 2, 3):  # eddies, zero at the walls
        stream += 0.3 / wave * np.sin(wave * np.pi * across) * np.sin(wave * along + rng.uniform(0, 2 * np.pi))
    through_west = np.diff(stream, axis=0)
    through_south = stream - np.roll(stream, -1, axis=1)
    strongest = max(np.abs(through_west).max(), np.abs(through_south).max())
    return wind * through_west / strongest, wind * through_south / strongest


def _coefficients(west: np.ndarray, south: np.ndarray, diffusion: float) -> np.ndarray:
    """Return the coefficients (5, y, x) of an upwind step with diffusion; each column sums to one."""
    inner = np.ones_like(south)
    inner[[0, -1]] = 0  # nothing passes the walls
    from_west, to_west = np.maximum(west, 0) + diffusion, np.maximum(-west, 0) + diffusion
    from_south, to_south = np.maximum(south, 0) + diffusion * inner, np.maximum(-south, 0) + diffusion * inner
    to_east, from_east = np.roll(from_west, -1, axis=1), np.roll(to_west, -1, axis=1)
    to_north, from_north = from_south[1:], to_south[1:]
    own = 1 - to_west - to_east - to_south[:-1] - to_north
    return np.stack([own, from_west, from_east, from_south[:-1], from_north])
