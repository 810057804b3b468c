"""How much a PPO that knows no mask learns: Rejax's, unmodified, with an MLP.

    python -m tests.envs.unmasked --invalid=cost --seeds=3 --steps=524288

For each seed it tells the share of games that complete stage 1 before, during and after learning.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rejax import PPO
from scipy import special

from hackmatrix.envs.gymnax_env import HackMatrixGymnax0
from hackmatrix.envs.invalid_actions import CHOICES

Array = jax.Array
GAMES = 1000  # that are evaluated
LOOKS = 4  # while it learns
SETTINGS: dict[str, Any] = {
    "num_envs": 64,
    "num_steps": 64,
    "num_epochs": 4,
    "num_minibatches": 8,
    "learning_rate": 1e-3,
    "gamma": 0.97,
    "agent_kwargs": {"hidden_layer_sizes": (128, 128), "activation": "tanh"},
}


def evaluate(ppo: Any, learner: Any, key: Array) -> dict[str, Array]:
    """What is told of the first game on each of GAMES boards; actions are sampled."""
    env, params, act = ppo.env, ppo.env_params, jax.vmap(ppo.make_act(learner))
    reset = jax.vmap(env.reset, in_axes=(0, None))
    step = jax.vmap(env.step, in_axes=(0, 0, 0, None))

    def play(carry: Any) -> Any:
        key, observation, state, over, told = carry
        key, act_key, step_key = jax.random.split(key, 3)
        actions = act(observation, jax.random.split(act_key, GAMES))
        observation, state, reward, done, info = step(
            jax.random.split(step_key, GAMES), state, actions, params
        )
        so_far = {
            "left stage 1": told["left stage 1"] | info["stage_completed"],
            "return": told["return"] + reward,
            "steps": told["steps"] + 1,
            "invalid": told["invalid"] + info["invalid"],
        }
        told = jax.tree.map(lambda new, old: jnp.where(over, old, new), so_far, told)
        return key, observation, state, over | done, told

    key, reset_key = jax.random.split(key)
    observation, state = reset(jax.random.split(reset_key, GAMES), params)
    nothing, never = jnp.zeros(GAMES), jnp.zeros(GAMES, bool)
    told = {"left stage 1": never, "return": nothing, "steps": nothing, "invalid": nothing}
    start = (key, observation, state, never, told)
    return jax.lax.while_loop(lambda carry: ~carry[3].all(), play, start)[-1]


def learn(invalid: str, seeds: int, steps: int) -> Iterator[tuple[int, int, dict[str, np.ndarray]]]:
    """Seed, steps taken, and what is told of games."""
    ppo = PPO.create(
        env=HackMatrixGymnax0(invalid=invalid),
        total_timesteps=steps // LOOKS,
        eval_freq=steps // LOOKS,
        skip_initial_evaluation=True,
        **SETTINGS,
    ).replace(eval_callback=lambda ppo, learner, key: learner.global_step)
    begin, look = jax.jit(ppo.init_state), jax.jit(lambda *of: evaluate(ppo, *of))
    go_on = jax.jit(lambda learner: ppo.train(train_state=learner)[0])
    for seed in range(seeds):
        learner = begin(jax.random.PRNGKey(seed))
        for chunk in range(LOOKS + 1):
            learner = go_on(learner) if chunk else learner
            key = jax.random.fold_in(jax.random.PRNGKey(seed), chunk)
            yield seed, int(learner.global_step), jax.tree.map(np.asarray, look(learner, key))


def among_seeds(shares: list[float]) -> str:
    """Their mean with a 95% interval (Student's t)."""
    mean = np.mean(shares)
    if len(shares) == 1:
        return f"{mean:.1%}"
    margin = special.stdtrit(len(shares) - 1, 0.975) * np.std(shares, ddof=1) / len(shares) ** 0.5
    return f"{mean:.1%} ({max(mean - margin, 0):.1%} to {min(mean + margin, 1):.1%})"


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("--invalid", choices=CHOICES, default="cost", help="what not valid leads to")
    flags.add_argument("--seeds", type=int, default=3)
    flags.add_argument("--steps", type=int, default=524_288, help="of each seed")
    given = flags.parse_args()
    start, shares = time.monotonic(), dict[int, list[float]]()
    for seed, steps, told in learn(given.invalid, given.seeds, given.steps):
        share = float(told["left stage 1"].mean())
        shares.setdefault(steps, []).append(share)
        print(
            f"seed {seed}, {steps:9,} steps: stage 1 in {share:.1%} of {GAMES} games, "
            f"return {told['return'].mean():.2f}, {told['steps'].mean():.0f} steps a game, "
            f"{told['invalid'].sum() / told['steps'].sum():.0%} of them invalid "
            f"({(time.monotonic() - start) / 60:.1f} min)",
            flush=True,
        )
    for steps in (min(shares), max(shares)):
        print(f"after {steps:,} steps: stage 1 in {among_seeds(shares[steps])} of games")


if __name__ == "__main__":
    main()
