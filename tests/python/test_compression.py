"""The compressed chi2 against the plain one, on random linear and nonlinear maps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from partonfit._precision import precision_context
from partonfit._vocabulary import to_evolution
from partonfit.data._covariance import eigenmodes
from partonfit.inference import compress
from partonfit.inference._objective import replica_forms
from partonfit.inference._products import picked, quadratic
from scipy.linalg import cho_factor, cho_solve


class RandomMap:
    """A theory map of random numbers; the last ``ratios`` points are quotients of two rows."""

    def __init__(self, points, grid, ratios=0, seed=0):
        rng = np.random.default_rng(seed)
        self.x = np.geomspace(1e-4, 0.9, grid)
        self.linear = np.arange(points) < points - ratios
        self._matrix = rng.normal(size=(points, 14, grid)) * self.linear[:, None, None]
        self._rows = rng.uniform(0.5, 1, size=(2 * ratios, 14, grid))

    def linear_matrix(self):
        return self._matrix

    def nonlinear_matrix(self):
        return self._rows

    def nonlinear_points(self, rows):
        half = rows.shape[-1] // 2
        return rows[..., :half] / rows[..., half:]

    def predict(self, xf):
        out = np.einsum("dkx,kx->d", self._matrix, xf)
        out[~self.linear] = self.nonlinear_points(np.einsum("dkx,kx->d", self._rows, xf))
        return out


def covariance(points, seed=1):
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(points, 5))
    return np.diag(rng.uniform(0.5, 2, points)) + shared @ shared.T


def plain_chi2(forward, matrix, values, mask, xf):
    residual = (forward.predict(to_evolution() @ xf.T) - values)[mask]
    return residual @ cho_solve(cho_factor(matrix[np.ix_(mask, mask)]), residual)


def reference(x):
    return to_evolution() @ np.outer(np.linspace(1, 2, 8), x**0.5 * (1 - x) ** 3)


@pytest.mark.parametrize("ratios", [0, 12])
@pytest.mark.parametrize("points", [40, 400])
def test_training_and_validation_chi2_equal_the_plain_ones(points, ratios):
    forward, matrix = RandomMap(points, 9, ratios), covariance(points)
    compression = compress(forward, matrix, reference, to_evolution(), cut=0)
    rng = np.random.default_rng(2)
    xf, values = rng.uniform(0.1, 1, size=(9, 8)), rng.normal(size=points)
    mask = rng.uniform(size=points) < 0.75
    training, validation = compression.forms(values, mask)
    features = compression.features(xf)
    assert training(features) == pytest.approx(plain_chi2(forward, matrix, values, mask, xf), rel=1e-9)
    assert validation(features) == pytest.approx(plain_chi2(forward, matrix, values, ~mask, xf), rel=1e-9)


def test_nothing_held_out():
    forward, matrix = RandomMap(30, 5), covariance(30)
    compression = compress(forward, matrix, reference, to_evolution())
    values, everything = np.ones(30), np.ones(30, dtype=bool)
    training, validation = compression.forms(values, everything)
    xf = np.full((5, 8), 0.3)
    assert training(compression.features(xf)) == pytest.approx(
        plain_chi2(forward, matrix, values, everything, xf), rel=1e-9
    )
    assert validation(compression.features(xf)) == 0


def test_features_vanish_at_the_reference():
    compression = compress(RandomMap(50, 6, 4), covariance(50), reference, to_evolution())
    fitted = (np.linalg.pinv(to_evolution()) @ reference(compression.forward.x)).T
    np.testing.assert_allclose(compression.features(fitted), 0, atol=1e-12)


def test_the_cut_drops_directions_and_its_error_is_small():
    """A map of rank 20 plus a part 1e-9 as large: the cut finds 20 features, chi2 moves below 1e-6."""
    forward, matrix = RandomMap(300, 9), covariance(300)
    left, right = np.random.default_rng(3).normal(size=(300, 20)), np.random.default_rng(4).normal(size=(20, 126))
    small = 1e-9 * np.random.default_rng(5).normal(size=(300, 126))
    forward._matrix = (left @ right + small).reshape(300, 14, 9)
    cut, full = (compress(forward, matrix, reference, to_evolution(), cut=c) for c in (1e-7, 0))
    assert cut.rank == 20
    assert full.rank > 20
    values, mask = np.random.default_rng(6).normal(size=300), np.arange(300) % 4 > 0
    xf = np.random.default_rng(7).uniform(size=(9, 8))
    a, b = (c.forms(values, mask)[0](c.features(xf)) for c in (cut, full))
    assert abs(a - b) / mask.sum() < 1e-6


def test_the_restricted_forms_are_the_whole_ones():
    """Each form holds only the nonlinear points of its own set; the gradient goes back to the right ones."""
    forward, matrix = RandomMap(60, 7, 12), covariance(60)
    compression = compress(forward, matrix, reference, to_evolution(), cut=0)
    rng = np.random.default_rng(8)
    values = rng.normal(size=60)
    xf = rng.uniform(0.1, 1, size=(7, 8))
    features = compression.features(xf)
    for count, mask in enumerate([np.arange(60) % 4 > 0, np.arange(60) % 3 > 0]):
        inside, held = compression.forms(values, mask)
        short = replica_forms(compression, values, mask, (10, 5), "float64")
        points = features[compression.rank :]

        def training(p, short=short):
            picks = picked(p, short.training_picks, short.training_places)
            return quadratic(
                jnp.concatenate([features[: compression.rank], picks]),
                jnp.asarray(short.training_matrix),
                jnp.asarray(short.training_vector),
            )

        with precision_context("float64"):
            value, slope = jax.value_and_grad(training)(jnp.asarray(points))
            expected, gradient = jax.value_and_grad(
                lambda p, f=inside: quadratic(
                    jnp.concatenate([features[: compression.rank], p]), jnp.asarray(f.matrix), jnp.asarray(f.vector)
                )
            )(jnp.asarray(points))
        assert float(value) == pytest.approx(float(expected), rel=1e-9), count
        np.testing.assert_allclose(slope, gradient, atol=1e-9 * np.abs(gradient).max())
        picks = np.concatenate([features[: compression.rank], points[short.validation_picks]])
        short_held = picks @ (short.validation_matrix @ picks - 2 * short.validation_vector) + short.validation_constant
        assert short_held == pytest.approx(held(features), rel=1e-9)


@pytest.mark.parametrize("ratios", [0, 6])
def test_with_modes_training_and_validation_chi2_are_sums_over_modes(ratios):
    forward, matrix = RandomMap(40, 9, ratios), covariance(40)
    modes = eigenmodes(matrix, np.arange(40))
    compression = compress(forward, matrix, reference, to_evolution(), cut=0, modes=modes)
    rng = np.random.default_rng(3)
    xf, values = rng.uniform(0.1, 1, size=(9, 8)), rng.normal(size=40)
    mask = rng.uniform(size=40) < 0.75
    residual = modes @ (forward.predict(to_evolution() @ xf.T) - values)
    features = compression.features(xf)
    forms = compression.forms(values, mask)
    for form, rows in zip(forms, (mask, ~mask), strict=True):
        assert form(features) == pytest.approx(np.sum(residual[rows] ** 2), rel=1e-9)
    # Every nonlinear point is part of every mode: both restricted forms keep all of them.
    short = replica_forms(compression, values, mask, (ratios, ratios), "float64")
    for kind, form in zip(("training", "validation"), forms, strict=True):
        np.testing.assert_array_equal(getattr(short, f"{kind}_picks"), np.arange(ratios))
        np.testing.assert_allclose(getattr(short, f"{kind}_matrix"), form.matrix, rtol=1e-12)
