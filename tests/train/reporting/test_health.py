"""Health: one warning when something is wrong for long, and none otherwise."""

import math
from typing import Any

import jax
import pytest

from hackmatrix.parallel import mesh
from hackmatrix.train.program import Program
from hackmatrix.train.reporting.health import PATIENCE, TREND, Health
from tests.train.settings import resolved

WELL = {
    "train/approx_kl": 0.03, "train/clip_frac": 0.1, "train/entropy": 0.6,
    "reward/step_penalty": -0.01, "train/mean_episode_return": 0.5,
    "train/mean_episode_length": 30.0, "train/skipped_updates": 0.0,
}  # fmt: skip


def make_health(env: str = "hackmatrix", **settings: Any) -> Health:
    """Returns the health checks that a run in the environment has."""
    config = resolved(env=env, **settings)
    return Health(Program(config, mesh.over(jax.devices()[:1])).health)


def warnings(health: Health, reports: int, **changed: float) -> list[str]:
    """Returns the warnings over some reports. `changed` names metrics without their group."""
    metrics = {tag: changed.get(tag.partition("/")[2], value) for tag, value in WELL.items()}
    return [warning for step in range(reports) for warning in health.observe(step, metrics)]


def test_a_healthy_run_is_not_warned_about() -> None:
    assert warnings(make_health(), 3 * TREND) == []


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("approx_kl", 0.09, "above 0.08 for 3 reports: the policy changes too fast; lower"),
        ("approx_kl", 0.001, "below 0.002"),
        ("clip_frac", 0.4, "above 0.3"),
        ("entropy", 0.05, "raise --config.ent_coef"),
        ("step_penalty", -0.005, "mask is broken"),
        ("step_penalty", -0.02, "reward is broken"),
        ("skipped_updates", 1.0, "that are not finite are skipped; lower --config.lr"),
    ],
)
def test_a_metric_outside_its_limits_for_long_is_warned_about_once_per_excursion(
    name: str, value: float, words: str
) -> None:
    health = make_health()
    for _ in range(2):
        assert warnings(health, PATIENCE - 1, **{name: value}) == []
        (warning,) = warnings(health, 20, **{name: value})
        assert words in warning
        assert f"{name} is {value:.3g}" in warning
        assert warnings(health, 1) == []


def test_an_annealed_learning_rate_may_have_a_low_kl_but_no_high_one() -> None:
    assert warnings(make_health(anneal_lr=True), 10, approx_kl=0.0001) == []
    assert len(warnings(make_health(anneal_lr=True), 10, approx_kl=0.2)) == 1


def test_a_single_step_may_have_a_kl_of_0() -> None:
    single = make_health(num_minibatches=1, update_epochs=1)
    assert warnings(single, 10, approx_kl=0.0) == []
    assert len(warnings(make_health(num_minibatches=1, update_epochs=2), 10, approx_kl=0.0)) == 1


def test_a_short_excursion_is_not_warned_about() -> None:
    health = make_health()
    for _ in range(10):
        assert warnings(health, PATIENCE - 1, approx_kl=0.2) == []
        assert warnings(health, 1) == []


def test_an_excursion_to_the_other_side_counts_anew() -> None:
    health = make_health()
    assert warnings(health, PATIENCE - 1, step_penalty=-0.02) == []
    assert warnings(health, PATIENCE - 1, step_penalty=0.0) == []
    (warning,) = warnings(health, 20, step_penalty=0.0)
    assert "above -0.0095 for 3 reports" in warning
    assert len(warnings(health, 20, step_penalty=-0.02)) == 1


def test_a_report_without_data_neither_counts_nor_ends_an_excursion() -> None:
    health = make_health()
    assert warnings(health, PATIENCE - 1, entropy=0.05) == []
    assert warnings(health, 20, entropy=math.nan) == []
    assert len(warnings(health, 1, entropy=0.05)) == 1
    assert health.observe(1, {}) == []


def test_limits_of_the_game_do_not_apply_to_other_environments() -> None:
    assert warnings(make_health("gymnax:CartPole-v1"), 10, entropy=0.03, step_penalty=1.0) == []
    assert len(warnings(make_health("gymnax:CartPole-v1"), 10, clip_frac=0.5)) == 1


@pytest.mark.parametrize(("gain", "expected"), [(0.0, 1), (-0.05, 1), (0.05, 0)])
def test_longer_episodes_that_gain_nothing_are_warned_about_once(
    gain: float, expected: int
) -> None:
    health = make_health()
    given = []
    for report in range(2 * TREND):
        given += warnings(
            health, 1, mean_episode_length=30.0 + 2 * report, mean_episode_return=gain * report
        )
    assert len(given) == expected
    assert all("back and forth" in each for each in given)
