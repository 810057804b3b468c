"""A training program is found by what it contains, not by the length of a run or what it saves."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import jax
import pytest

from configs import default
from hackmatrix.parallel import mesh
from hackmatrix.ppo import PPO
from hackmatrix.train import inputs
from hackmatrix.train.algorithms import find, settings_of
from hackmatrix.train.config import resolve
from hackmatrix.train.config.rules import ALGORITHMS
from hackmatrix.train.program import Program

SMALL = {"env": "gymnax:CartPole-v1", "num_envs": 8, "num_steps": 8, "hidden_dim": 8}


def program(**given: Any) -> Program:
    config = resolve({**default.get_config(), **SMALL, **given}, "cpu", 1)
    return Program(config, mesh.over(jax.devices()[:1]))


@pytest.fixture(scope="module")
def name() -> str:
    return program().name


@pytest.mark.parametrize(
    "setting",
    [
        {"seed": 1}, {"total_timesteps": 1_000_000}, {"time_limit_minutes": 2.0},
        {"log_interval": 3}, {"eval_games": 8}, {"save_interval_minutes": 1.0},
        {"keep_checkpoints": 9}, {"lr": 1e-3}, {"gamma": 0.9}, {"ent_coef": 0.5},
        {"ent_coef_end": 0.0}, {"clip_eps": 0.1}, {"simulations": 8},
    ],
    ids=str,
)  # fmt: skip
def test_a_run_with_other_inputs_length_or_outputs_has_the_same_program(
    name: str, setting: dict[str, Any]
) -> None:
    assert program(**setting).name == name


@pytest.mark.parametrize(
    "setting",
    [
        {"num_envs": 16}, {"num_steps": 16}, {"num_minibatches": 2}, {"update_epochs": 2},
        {"hidden_dim": 16}, {"num_layers": 3}, {"separate_critic": True}, {"anneal_lr": True},
        {"compute_dtype": "bfloat16"}, {"scale_returns": False}, {"compress_rewards": True},
        {"skip_nonfinite": True}, {"episode_limit": 100},
    ],
    ids=str,
)  # fmt: skip
def test_another_program_has_another_name(name: str, setting: dict[str, Any]) -> None:
    assert program(**setting).name != name


def test_a_bundled_algorithm_reads_only_the_settings_that_it_declares(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: set[str] = set()
    given = inputs.with_inputs

    class Recording:
        def __init__(self, *of: Any) -> None:
            self._given = given(*of)

        def __getattr__(self, name: str) -> Any:
            read.add(name)
            return getattr(self._given, name)

    monkeypatch.setattr(inputs, "with_inputs", Recording)
    of_cartpole = program(anneal_lr=True)
    of_cartpole.lower()
    declared = settings_of("ppo", type(of_cartpole.algorithm))
    assert declared is not None
    assert read <= declared
    assert {"num_minibatches", "anneal_lr", "clip_eps"} <= read


def test_programs_that_start_from_an_agent_have_one_name_for_all_agents(name: str) -> None:
    one, other = (program(start_from=policy).name for policy in ("policies/a", "policies/b"))
    assert one == other != name


@pytest.mark.parametrize(
    "setting",
    [
        {"simulations": 8}, {"potential_shaping": True}, {"owned_reward": 1.0},
        {"owned_reward_end": 1.0}, {"network": "centred"}, {"turn_boards": True},
    ],
    ids=str,
)  # fmt: skip
def test_another_program_of_expert_iteration_has_another_name(setting: dict[str, Any]) -> None:
    ours = {"algorithm": "expert", "env": "hackmatrix", "update_epochs": 1}
    assert program(**ours, **setting).name != program(**ours).name
    assert program(**ours, total_timesteps=1_000_000).name == program(**ours).name


class Discounting(PPO):
    inputs = ("gamma",)  # without those of PPO


def test_a_subclass_with_inputs_of_its_own_anneals_as_ppo_does_after_a_resume(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = Mock(side_effect=inputs.with_inputs)
    monkeypatch.setattr(inputs, "with_inputs", given)
    program(algorithm=f"{__name__}:Discounting").lower()
    (_, names, numbers), _ = given.call_args
    assert names == ("gamma", "extra_updates")
    assert numbers.shape == (2,)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_a_bundled_algorithm_declares_to_read_are_settings(algorithm: str) -> None:
    declared = settings_of(algorithm, find(algorithm))
    assert declared is not None
    assert {"num_steps", "anneal_lr", "owned_reward_end"} <= declared
    config = program().config
    assert all(hasattr(config, name) for name in declared - {"extra_updates"})


def test_any_setting_may_change_the_program_of_a_foreign_algorithm() -> None:
    one, other = (
        program(algorithm="hackmatrix.ppo:PPO", log_interval=updates).name for updates in (3, 4)
    )
    assert one != other
