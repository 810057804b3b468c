"""PPO learns the toy environment, which masks actions."""

from __future__ import annotations

import jax

from hackmatrix.ppo.algorithm import PPO, Learner
from hackmatrix.rl import rollout, tally
from hackmatrix.rl.rollout import Players
from hackmatrix.rl.tally import RETURN, Metrics, Tally
from tests.envs.toy import LENGTH, Toy
from tests.ppo.played import Settings, new_learner, new_players
from tests.rl.rolled import AXIS, mlp, on_one_device

Carry = tuple[Learner, Players, Tally]
BOARDS, STEPS = 64, 32
UPDATES = -(-100_000 // (BOARDS * STEPS))


def test_a_masked_toy_is_learned_without_one_invalid_action() -> None:
    env = Toy()
    settings = Settings(num_steps=STEPS, group_envs=BOARDS // 4, clip_eps=0.2, gamma=0.0)
    algorithm = PPO(env, mlp(env, hidden_dim=32, num_layers=1), settings, AXIS)
    learner = new_learner(algorithm)
    players = new_players(algorithm, learner, BOARDS)

    def train(learner: Learner, players: Players) -> Metrics:
        empty_tally = tally.empty(rollout.step_spec(env, players))

        def one(carry: Carry, _: None) -> tuple[Carry, Metrics]:
            learner, players, counted, _metrics = algorithm.update(carry[0], carry[1], empty_tally)
            return (learner, players, counted), tally.read(counted, AXIS)

        return jax.lax.scan(one, (learner, players, empty_tally), None, UPDATES)[1]

    metrics = on_one_device(train)(learner, players)
    assert UPDATES * BOARDS * STEPS >= 100_000
    assert not metrics["toy/invalid"].any()
    assert metrics[RETURN][0] < 0.6 * LENGTH
    assert metrics[RETURN][-1] > 0.95 * LENGTH
