"""Surrogates: what they learn from, what they promise, and that derivatives in the loss pay."""

import jax
import jax.numpy as jnp
import numpy as np
import partonfit as pf
import pytest
from operator_examples import N_OBS, N_STATE, tanh_operator
from partonfit.surrogates._loss import make_loss


def draw(rng, n):
    return 0.4 * rng.normal(size=(n, N_STATE))  # where tanh bends, but does not saturate


@pytest.fixture(scope="module")
def design():
    return pf.surrogate_design(tanh_operator(), draw, samples=60, tangent_linear=3, adjoint=3, seed=1)


@pytest.fixture(scope="module")
def surrogate(design):
    return pf.fit_surrogate(design, loss=pf.surrogate_loss(adjoint=0.5), members=2, epochs=200, seed=1)


X = 0.4 * np.random.default_rng(9).normal(size=(7, N_STATE))


# ---- the design ---------------------------------------------------------------------------------------


def test_design_asks_as_often_as_it_says_and_probes_are_right(design):
    assert design.calls == {"forward": 60, "tangent_linear": 180, "adjoint": 180}
    op, s = tanh_operator(), design.scaling
    np.testing.assert_allclose(design.y, op.forward(design.x), rtol=1e-12)
    dx, dy = design.probes["tangent_linear"]
    np.testing.assert_allclose(dy[5, 2], op.tangent_linear(design.x[5], s.state_sd * dx[5, 2]) / s.obs_sd)
    dy, dx = design.probes["adjoint"]
    np.testing.assert_allclose(dx[5, 2], op.adjoint(design.x[5], dy[5, 2] / s.obs_sd) * s.state_sd)


def test_every_state_has_probes_of_its_own(design):
    probes = design.probes["adjoint"][0].reshape(-1, N_OBS)
    assert np.linalg.matrix_rank(probes) == N_OBS
    assert len(np.unique(probes[:, 0])) == len(probes)


def test_design_is_reproducible_and_states_can_be_given():
    again = [pf.surrogate_design(tanh_operator(), draw, samples=8, adjoint=1, seed=s) for s in (1, 1, 2)]
    np.testing.assert_array_equal(again[0].probes["adjoint"][1], again[1].probes["adjoint"][1])
    assert (again[0].x != again[2].x).any()
    given = pf.surrogate_design(tanh_operator(), X, samples=5)
    np.testing.assert_array_equal(given.x, X[:5])


def test_a_batched_operator_counts_by_states():
    op = tanh_operator(batched=True)
    seen = []
    design = pf.surrogate_design(op, draw, samples=70, adjoint=2, progress=lambda *a: seen.append(a[:2]))
    assert design.calls == {"forward": 70, "tangent_linear": 0, "adjoint": 140}
    assert seen[-1] == (210, 210)


def test_stored_results_are_taken_again(tmp_path):
    op = tanh_operator(key="tanh 1")
    runs = [pf.surrogate_design(op, draw, samples=6, adjoint=1, seed=1, reload_results=tmp_path) for _ in range(2)]
    assert runs[1].calls == {"forward": 0, "tangent_linear": 0, "adjoint": 0}
    np.testing.assert_array_equal(runs[0].y, runs[1].y)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"states": X[:3]}, pf.SettingError, "at least 4 states"),
        ({"states": X[:, :3]}, pf.SettingError, r"shape \(sample, 5\), not \(7, 3\)"),
        ({"states": draw}, pf.SettingError, "samples= must say how many"),
        ({"states": X * np.nan}, pf.SettingError, "State 0 is not finite"),
        ({"states": X, "samples": 9}, pf.SettingError, "there are 7 states"),
    ],
)
def test_states_are_checked(arguments, error, message):
    with pytest.raises(error, match=message):
        pf.surrogate_design(tanh_operator(), **arguments)


def test_operators_that_cannot_be_learned_say_why():
    with pytest.raises(pf.OperatorError, match="no adjoint"):
        pf.surrogate_design(pf.operator(forward=lambda x: x, n_state=5, n_obs=5), X, adjoint=1)
    with pytest.raises(pf.OperatorError, match="same observations for all 7 states"):
        pf.surrogate_design(tanh_operator(forward=lambda x: np.ones(N_OBS)), X)
    with pytest.raises(pf.OperatorError, match="not finite"):
        pf.surrogate_design(tanh_operator(forward=lambda x: np.full(N_OBS, np.nan)), X)


# ---- the loss -----------------------------------------------------------------------------------------


def _batch(design, mix):
    s = design.scaling
    batch = {"x": (design.x - s.state_mean) / s.state_sd, "y": (design.y - s.obs_mean) / s.obs_sd}
    for kind, (v, out) in design.probes.items():
        batch |= {f"{kind}_in": v, f"{kind}_out": out, f"{kind}_mix": mix(v)}
    return {name: jnp.asarray(a, dtype=jnp.float32) for name, a in batch.items()}, s


@pytest.mark.parametrize("kind", ["tangent_linear", "adjoint"])
def test_the_right_function_has_no_loss_and_none_at_all_has_the_weights(design, kind):
    """Random mixtures of probes are exact: the operator itself, in JAX, matches them all."""
    from operator_examples import in_jax

    batch, s = _batch(design, lambda v: np.zeros(v.shape[:2]))
    loss = pf.surrogate_loss(**{kind: 0.5}, mixed=2)
    scale = {kind: float(np.mean(design.probes[kind][1] ** 2))}
    total = make_loss(loss, scale, None)
    right = lambda x: (in_jax(s.state_mean + s.state_sd * x) - s.obs_mean) / s.obs_sd  # noqa: E731
    assert total(right, batch, jax.random.key(1)) < 1e-9
    constant = float(total(lambda x: 0 * batch["y"] * x[:, :1], batch, jax.random.key(1)))
    assert constant == pytest.approx(1.5, rel=0.15)  # 1 for the values, 0.5 for the derivatives
    # another key, another mixture
    assert constant != float(total(lambda x: 0 * batch["y"] * x[:, :1], batch, jax.random.key(2)))


def test_validation_mixtures_are_fixed(design):
    batch, _ = _batch(design, lambda v: np.eye(v.shape[1])[np.arange(len(v)) % v.shape[1]])
    total = make_loss(pf.surrogate_loss(adjoint=1.0), {"adjoint": 1.0}, None)
    one, other = (float(total(lambda x: jnp.tanh(x[:, :3]), batch, jax.random.key(k))) for k in (1, 2))
    assert one == other


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"adjoint": -1.0}, "must not be negative"), ({"values": 0.0}, "above zero"), ({"probes": 0}, "at least 1")],
)
def test_losses_are_checked(settings, message):
    with pytest.raises(pf.SettingError, match=message):
        pf.surrogate_loss(**settings)


# ---- training -----------------------------------------------------------------------------------------


def test_adjoints_in_the_loss_give_better_derivatives(design, surrogate):
    op = tanh_operator()
    alone = pf.fit_surrogate(design, members=2, epochs=200, seed=1)

    def jacobian_error(s):
        unit = np.eye(N_OBS)
        found, right = (np.stack([o.adjoint(x, e) for x in X for e in unit]) for o in (s, op))
        return np.linalg.norm(found - right) / np.linalg.norm(right)

    assert jacobian_error(surrogate) < 0.7 * jacobian_error(alone)


def test_result_measures_itself_on_states_it_has_not_seen(surrogate):
    assert surrogate.settings["samples"] == {"train": 42, "validation": 9, "test": 9}
    assert 0 < surrogate.errors["values"] < 0.4
    assert 0 < surrogate.errors["adjoint"] < 0.5
    assert surrogate.errors["observation"].shape == (N_OBS,)
    assert surrogate.errors["spread"] > 0
    assert surrogate.history["loss"].shape[0] == 2
    assert len(surrogate.statuses) == 2


def test_same_seed_same_surrogate(design):
    kept = [pf.fit_surrogate(design, epochs=3, seed=s).forward(X) for s in (4, 4, 5)]
    np.testing.assert_array_equal(kept[0], kept[1])
    assert (kept[0] != kept[2]).any()
