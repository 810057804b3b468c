"""The summary of a configuration, which users read before a run."""

from typing import Any

import pytest

from hackmatrix.train.config.summary import differences, summary, time_is_up
from tests.train.settings import resolved


def test_differences_from_the_defaults_are_printed_as_assignments() -> None:
    lines = differences(resolved(ent_coef=0.2, total_timesteps=2_000_000), resolved())
    assert lines == [
        "total_timesteps = 2_000_000 (default: 10_000_000)",
        "ent_coef = 0.2 (default: 0.15)",
    ]
    assert differences(resolved(), resolved()) == []


def test_the_summary_describes_what_will_run() -> None:
    config = resolved("tpu", 4, time_limit_minutes=90, anneal_lr=True)
    lines = summary(config, "tpu", 4, parameters=473_373)
    text = "\n".join(lines)
    for words in (
        "4 x tpu", "2,048 of hackmatrix, 512 per device, in 64 groups",
        "2,048 x 128 = 262,144 samples", "32 of 8,192, 2 epochs: 64 gradient steps",
        "6.25e-05, annealed to 0", "473,373 parameters", "float32", "at most 90 minutes",
        "every 10 minutes", "the best by 256 games every 10 minutes", "up to 10 over the run",
    ):  # fmt: skip
        assert words in text
    assert max(map(len, lines)) <= 98
    without = summary(resolved(keep_milestones=0, eval_interval_minutes=0.0), "cpu", 1, 1)
    (kept,) = (line for line in without if line.startswith("checkpoints kept"))
    assert kept.split(maxsplit=2)[2] == "the newest 3"
    expert = "\n".join(summary(resolved(algorithm="expert"), "cpu", 1, 1))
    assert "expert, whose search plays the games of training" in expert


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "0.00025; with --config=configs/recipe.py (v4_8.py, gpu.py) agents learn more"),
        ({"lr": 1e-3}, "0.001"),
        ({"anneal_lr": True}, "0.00025, annealed to 0"),
        ({"env": "gymnax:CartPole-v1"}, "0.00025"),
    ],
)
def test_where_no_learning_rate_is_given_better_ones_are_named(
    given: dict[str, Any], told: str
) -> None:
    lines = summary(resolved(**given), "cpu", 1, 1)
    (rate,) = (line for line in lines if line.startswith("learning rate"))
    assert rate.split(maxsplit=2)[2] == told
    assert len(rate) <= 98


def test_a_run_that_reaches_its_time_limit_reports_its_learning_rate() -> None:
    config = resolved(time_limit_minutes=30.0, total_timesteps=20_000_000, anneal_lr=True)
    message = time_is_up(config, 3_000_000)
    assert message.startswith("The time limit is reached: time_limit_minutes=30; the learning rate")
    assert (
        "was still at 85% of lr: with --config.total_timesteps=3000000 it would fall to 0"
        in message
    )
    constant = resolved(time_limit_minutes=0.5, anneal_lr=False)
    assert time_is_up(constant, 3_000_000) == "The time limit is reached: time_limit_minutes=0.5"
