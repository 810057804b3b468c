"""Measures how much Rejax's PPO, unmodified and without masks, learns.

    python -m tests.envs.unmasked --invalid=cost --network=around --seeds=3 --steps=1048576

For each seed it prints the share of games that complete stage 1 before, during and after learning.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax.linen.initializers import orthogonal
from rejax import PPO
from rejax.networks import DiscretePolicy, VNetwork
from scipy import special

from hackmatrix.envs.gymnax_env import EnvParams, HackMatrixGymnax0
from hackmatrix.envs.invalid_actions import CHOICES
from hackmatrix.envs.protocol import in_parts
from hackmatrix.game.observation import PARTS

Array = jax.Array
GAMES = 500  # per evaluation
EVALUATIONS = 1  # after the one before training; more than 1 evaluates during training too
LIMIT = 500  # steps of a game
RATE = 7e-4  # at first; decays linearly to 0
SETTINGS: dict[str, Any] = {
    "num_envs": 64,
    "num_steps": 64,
    "num_epochs": 4,
    "num_minibatches": 4,
    "max_grad_norm": 0.5,
    "gamma": 0.9,
}
WIDTH, CHANNELS = 128, 12
LAYERS: dict[str, Any] = {"hidden_layer_sizes": (WIDTH, WIDTH), "activation": nn.relu}


class AroundThePlayer(nn.Module):
    """Layers over the board centred on the player: the cell to the left of the player is always the
    same input. Cells beyond the board are zeros.
    """

    @nn.compact
    def __call__(self, observation: Array) -> Array:
        parts = in_parts(observation, PARTS)
        player, side = parts["player"], PARTS["cells"][0]
        cells = nn.relu(nn.Dense(CHANNELS, kernel_init=orthogonal(2**0.5))(parts["cells"]))
        cells = jnp.concatenate([cells, jnp.ones((*cells.shape[:-1], 1))], axis=-1)
        around = (0, 0), (side - 1, side - 1), (side - 1, side - 1), (0, 0)
        place = jnp.round(player[:, :2] * (side - 1)).astype(jnp.int32)
        seen = jax.vmap(_window, in_axes=(0, 0, None))(jnp.pad(cells, around), place, 2 * side - 1)
        features = jnp.concatenate([seen.reshape(len(seen), -1), player, parts["programs"]], -1)
        for _ in range(2):
            features = nn.relu(nn.Dense(WIDTH, kernel_init=orthogonal(2**0.5))(features))
        return features


def _window(cells: Array, place: Array, size: int) -> Array:
    return jax.lax.dynamic_slice(cells, (*place, 0), (size, size, cells.shape[-1]))


class PolicyAroundThePlayer(DiscretePolicy):
    def setup(self) -> None:
        self.features = AroundThePlayer()
        self.action_logits = nn.Dense(self.action_dim, kernel_init=orthogonal(0.01))


class ValueAroundThePlayer(VNetwork):
    @nn.compact
    def __call__(self, observation: Array) -> Array:
        return nn.Dense(1)(AroundThePlayer()(observation))[..., 0]


NETWORKS = {
    "mlp": (DiscretePolicy, VNetwork),
    "around": (PolicyAroundThePlayer, ValueAroundThePlayer),
}


def evaluate(ppo: Any, learner: Any, key: Array) -> dict[str, Array]:
    """Returns statistics of the first game on each of GAMES boards; actions are sampled."""
    env, params, act = ppo.env, ppo.env_params, jax.vmap(ppo.make_act(learner))
    reset = jax.vmap(env.reset, in_axes=(0, None))
    step = jax.vmap(env.step, in_axes=(0, 0, 0, None))

    def play(carry: Any) -> Any:
        key, observation, state, over, stats = carry
        key, act_key, step_key = jax.random.split(key, 3)
        actions = act(observation, jax.random.split(act_key, GAMES))
        observation, state, reward, done, info = step(
            jax.random.split(step_key, GAMES), state, actions, params
        )
        so_far = {
            "left stage 1": stats["left stage 1"] | info["stage_completed"],
            "return": stats["return"] + reward,
            "steps": stats["steps"] + 1,
            "invalid": stats["invalid"] + info["invalid"],
        }
        stats = jax.tree.map(lambda new, old: jnp.where(over, old, new), so_far, stats)
        return key, observation, state, over | done, stats

    key, reset_key = jax.random.split(key)
    observation, state = reset(jax.random.split(reset_key, GAMES), params)
    nothing, never = jnp.zeros(GAMES), jnp.zeros(GAMES, bool)
    stats = {"left stage 1": never, "return": nothing, "steps": nothing, "invalid": nothing}
    start = (key, observation, state, never, stats)
    return jax.lax.while_loop(lambda carry: ~carry[3].all(), play, start)[-1]


def learn(
    invalid: str, network: str, seeds: int, steps: int
) -> Iterator[tuple[int, int, dict[str, np.ndarray]]]:
    """Yields the seed, the steps taken, and the statistics of games."""
    env, (policy, value) = HackMatrixGymnax0(invalid=invalid), NETWORKS[network]
    gradient_steps = SETTINGS["num_epochs"] * SETTINGS["num_minibatches"]
    batch = SETTINGS["num_envs"] * SETTINGS["num_steps"]
    ppo = PPO.create(
        env=env,
        env_params=EnvParams(LIMIT),
        total_timesteps=steps // EVALUATIONS,
        eval_freq=steps // EVALUATIONS,
        skip_initial_evaluation=True,
        learning_rate=optax.linear_schedule(RATE, 0, steps // batch * gradient_steps),
        **SETTINGS,
    ).replace(
        actor=policy(env.num_actions, **LAYERS),
        critic=value(**LAYERS),
        eval_callback=lambda ppo, learner, key: learner.global_step,
    )
    begin, evaluated = jax.jit(ppo.init_state), jax.jit(lambda *args: evaluate(ppo, *args))
    train = jax.jit(lambda learner: ppo.train(train_state=learner)[0])
    for seed in range(seeds):
        learner = begin(jax.random.PRNGKey(seed))
        for chunk in range(EVALUATIONS + 1):
            learner = train(learner) if chunk else learner
            key = jax.random.fold_in(jax.random.PRNGKey(seed), chunk)
            yield seed, int(learner.global_step), jax.tree.map(np.asarray, evaluated(learner, key))


def among_seeds(shares: list[float]) -> str:
    """Formats the mean over seeds with a 95% interval (Student's t)."""
    mean = np.mean(shares)
    if len(shares) == 1:
        return f"{mean:.1%}"
    margin = special.stdtrit(len(shares) - 1, 0.975) * np.std(shares, ddof=1) / len(shares) ** 0.5
    return f"{mean:.1%} ({max(mean - margin, 0):.1%} to {min(mean + margin, 1):.1%})"


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument(
        "--invalid", choices=CHOICES, default="cost", help="what invalid actions lead to"
    )
    flags.add_argument("--network", choices=NETWORKS, default="around")
    flags.add_argument("--seeds", type=int, default=3)
    flags.add_argument("--steps", type=int, default=1_048_576, help="of each seed")
    given = flags.parse_args()
    start, shares = time.monotonic(), dict[int, list[float]]()
    for seed, steps, stats in learn(given.invalid, given.network, given.seeds, given.steps):
        share = float(stats["left stage 1"].mean())
        shares.setdefault(steps, []).append(share)
        print(
            f"seed {seed}, {steps:9,} steps: stage 1 in {share:.1%} of {GAMES} games, "
            f"return {stats['return'].mean():.2f}, {stats['steps'].mean():.0f} steps a game, "
            f"{stats['invalid'].sum() / stats['steps'].sum():.0%} of them invalid "
            f"({(time.monotonic() - start) / 60:.1f} min)",
            flush=True,
        )
    for steps in (min(shares), max(shares)):
        print(f"after {steps:,} steps: stage 1 in {among_seeds(shares[steps])} of games")


if __name__ == "__main__":
    main()
