"""An agent to use from Python: it acts, is evaluated, is watched and is exported."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from hackmatrix.api import exporting
from hackmatrix.api.results import Results
from hackmatrix.envs import Environment
from hackmatrix.envs.hackmatrix_env import is_drawable
from hackmatrix.envs.protocol import in_parts
from hackmatrix.errors import UserError
from hackmatrix.parallel import mesh as meshes
from hackmatrix.parallel.failures import out_of_memory_as_user_error
from hackmatrix.report import games
from hackmatrix.report.games import Recorded
from hackmatrix.rl.evaluation import Evaluation, Tell
from hackmatrix.search.planner import FEWEST, MOST, Planner
from hackmatrix.standalone import acting
from hackmatrix.train.policies.policy import Policy
from hackmatrix.train.runs.places import on_disk


class Agent:
    """A policy with its parameters, compiled on first use."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._generator = np.random.default_rng()
        self._logits = jax.jit(functools.partial(_logits, policy))
        self._evaluations: dict[int, Evaluation] = {}  # by `plan`

    def __reduce__(self) -> Any:
        """Copies only the policy: a copy draws from its own seed, and compiles on first use."""
        return Agent, (self.policy,)

    @functools.cached_property
    def _params(self) -> Any:
        """The parameters on the device, where each action needs them."""
        return jax.device_put(self.policy.params)

    @property
    def env(self) -> Environment:
        """The environment that it plays."""
        return self.policy.env

    @property
    def title(self) -> str:
        """Which policy it is, and after how many steps of training."""
        return self.policy.title

    def __repr__(self) -> str:
        return f"Agent({self.title}, {self.policy.network.spec.network}, plays {self.env.name})"

    def act(
        self,
        observation: ArrayLike,
        mask: ArrayLike,
        *,
        greedy: bool = False,
        seed: int | None = None,
    ) -> Any:
        """Returns a valid action: an int for an observation f32[N] and its mask bool[A], or i32[B]
        for a batch of B of each. It is drawn from the policy, or with `greedy` the likeliest. The
        same seed gives the same draw; without one every call draws anew.
        """
        try:
            seen, valid = np.asarray(observation, np.float32), np.asarray(mask, bool)
        except (TypeError, ValueError) as error:
            if hasattr(observation, "keys"):
                parts = ", ".join(self.env.observation)
                raise UserError(
                    f"an observation must be one flat array, of its parts {parts} in this order"
                ) from None
            raise UserError(f"observations and masks must be arrays of numbers: {error}") from None
        acting.check(seen, valid, self.env.observation_size, self.env.num_actions)
        if seed is not None:
            _check_numbers(seed=seed)
        if not seen.size:
            return np.zeros(seen.shape[:-1], np.int32)
        logits = np.asarray(self._logits(self._params, seen.reshape(-1, seen.shape[-1])))
        generator = self._generator if seed is None else np.random.default_rng(seed)
        return acting.chosen(logits.reshape(valid.shape), valid, None if greedy else generator)

    def evaluate(
        self,
        games: int = 256,
        *,
        seed: int = 0,
        greedy: bool = False,
        plan: int = 0,
        tell: Tell = lambda share: None,
    ) -> Results:
        """Measures the agent in so many games of a seed, the same ones each time, beside a player
        that takes any valid action. The agent is measured both drawing its actions and taking the
        likeliest; with `greedy` only the latter. With `plan` only looking ahead is measured: so
        many games are played on before each action, which is then not drawn. Meanwhile `tell` is
        called with the share of all games that are over.
        """
        _check_numbers(games=games, seed=seed, plan=plan)
        if games < 1:
            raise UserError(f"games={games} must be at least 1")
        _check_way(greedy, plan)
        with out_of_memory_as_user_error(f"{games:,} games do not fit in memory: play fewer"):
            played = self._evaluation(plan).beside_random(
                self.policy.params, seed, games,
                greedy=greedy, both=not greedy and not plan, tell=tell,
            )  # fmt: skip
        return Results(self.policy, int(games), int(seed), bool(greedy), int(plan), played)

    def watch(
        self, game: int = 0, *, seed: int = 0, greedy: bool = False, plan: int = 0
    ) -> Recorded:
        """Plays and records a game, the one of this number that `evaluate` plays. A notebook shows
        the result as a page to scrub through; its `save` writes that page.
        """
        _check_numbers(game=game, seed=seed, plan=plan)
        if not is_drawable(self.env):
            raise UserError(f"games of {self.env.name} cannot be drawn")
        _check_way(greedy, plan)
        return Recorded(games.play(self.policy, seed, game, greedy, planner=self.planner(plan)))

    def export(self, directory: str | Path) -> tuple[Path, Path]:
        """Writes the policy for other programs: policy.npz (plain arrays, described in
        hackmatrix/networks/files.py) and policy.jax (an artifact of jax.export, described in
        hackmatrix/train/policies/artifact.py).
        """
        return exporting.export(self.policy, on_disk(directory))

    def planner(self, plan: int) -> Planner | None:
        """Returns what plays `plan` games on before each action; None if `plan` is 0."""
        _check_numbers(plan=plan)
        if not plan:
            return None
        if not FEWEST <= plan <= MOST:
            few, many = "is too few games to compare two actions", "is too many games for each move"
            why = few if plan < FEWEST else many
            raise UserError(f"plan={plan} {why}: it must be 0, or from {FEWEST} to {MOST}")
        if not self.env.can_redraw:
            raise UserError(
                f"plan is not supported by {self.env.name}, whose hidden parts are unknown: its "
                "class must override Environment.redrawn (hackmatrix/envs/protocol.py)"
            )
        network = self.policy.network
        return Planner(network.turned(self.env), network, self.policy.signal, plan)

    def _evaluation(self, plan: int) -> Evaluation:
        if plan not in self._evaluations:
            planner, network = self.planner(plan), self.policy.network
            self._evaluations[plan] = Evaluation(
                network.turned(self.env),
                network,
                meshes.over(jax.local_devices()),
                planner.look_ahead if planner else None,
            )
        return self._evaluations[plan]


def _check_numbers(**given: int) -> None:
    for name, number in given.items():
        if not isinstance(number, int | np.integer) or not 0 <= number < 2**32:
            raise UserError(f"{name}={number!r} must be a whole number from 0 to {2**32 - 1}")


def _check_way(greedy: bool, plan: int) -> None:
    if greedy and plan:
        raise UserError("greedy and plan cannot be combined: choose one of them")


def _logits(policy: Policy, params: Any, seen: jax.Array) -> jax.Array:
    logits, _ = policy.network(params, in_parts(seen, policy.env.observation))
    return logits
