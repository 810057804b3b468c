"""That PPO learns: a toy with a mask, and a task that everybody knows."""

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from configs import default
from hackmatrix.parallel import mesh
from hackmatrix.ppo import rollout, tally
from hackmatrix.networks.actor_critic import ActorCritic
from hackmatrix.rl.tally import RETURN, Metrics, Tally
from hackmatrix.ppo.algorithm import Learner, update
from hackmatrix.train.config import resolve
from hackmatrix.train.program import Program
from tests.ppo.played import AXIS, new_learner, settings
from tests.ppo.toy import LENGTH, Toy

Going = tuple[Learner, rollout.Players, Tally]
BOARDS, STEPS = 64, 32
UPDATES = -(-100_000 // (BOARDS * STEPS))


def test_a_masked_toy_is_learned_without_one_invalid_action() -> None:
    env = Toy()
    network = ActorCritic(env.num_actions, hidden_dim=32, num_layers=1)
    used = settings(num_steps=STEPS, group_envs=BOARDS // 4, clip_eps=0.2, gamma=0.0)
    learner = new_learner(env, network, used)
    players = rollout.begin(env, learner.key, jnp.arange(BOARDS, dtype=jnp.uint32))

    def train(learner: Learner, players: rollout.Players) -> Metrics:
        nothing = tally.empty(rollout.kind_of_step(env, players))

        def one(carry: Going, _: None) -> tuple[Going, Metrics]:
            learner, players, counted, _losses = update(
                env, network, used, AXIS, carry[0], carry[1], nothing
            )
            return (learner, players, counted), tally.read(counted, AXIS)

        return jax.lax.scan(one, (learner, players, nothing), None, UPDATES)[1]

    one_device = Mesh(jax.devices()[:1], (AXIS,))
    on_it = jax.shard_map(
        train, mesh=one_device, in_specs=PartitionSpec(), out_specs=PartitionSpec(),
        check_vma=False,
    )  # fmt: skip
    metrics = jax.jit(on_it)(learner, players)
    assert UPDATES * BOARDS * STEPS >= 100_000
    assert not metrics["toy/invalid"].any()
    assert metrics[RETURN][0] < 0.6 * LENGTH
    assert metrics[RETURN][-1] > 0.95 * LENGTH


def test_cartpole_is_balanced() -> None:
    """In under 200,000 steps, which take a few seconds."""
    raw = {
        **default.get_config(), "env": "gymnax:CartPole-v1", "auto_tune": False,
        "num_envs": 32, "num_steps": 64, "lr": 1e-3, "hidden_dim": 64, "ent_coef": 0.01,
    }  # fmt: skip
    config = resolve(raw, "cpu", 1)
    program = Program(config, mesh.over(jax.devices()[:1]))
    state, returns = program.first_state(), [0.0]
    while returns[-1] < 475 and len(returns) * 10 * config.batch_size < 200_000:
        state, report = program.run(state, 10)
        returns.append(float(report.metrics[RETURN]))
    print(f"mean return of each {10 * config.batch_size:,} steps: {returns[1:]}")
    assert returns[-1] >= 475
