"""How well an agent plays: whole games, each one reproducible from (agent, seed, number)."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from hackmatrix.envs import Environment
from hackmatrix.envs.metrics import PERCENT, Metric, Section
from hackmatrix.parallel import mesh as meshes
from hackmatrix.parallel.mesh import REPLICATED, SPLIT
from hackmatrix.rl import games as whole_games
from hackmatrix.rl import tally
from hackmatrix.rl.draws import seed_key
from hackmatrix.rl.games import ENDED, Agent, Choice, Forward, LookAhead

SECTION = Section("How it plays", (Metric(ENDED, "came to an end", PERCENT),))
EVALUATION_SEED = 1_000_003  # of the games that a run plays meanwhile and at its end
# Games at a time on a device. Each is many boards while it is planned.
_AT_ONCE, _PLANNED_AT_ONCE = 4096, 64


def outcomes(env: Environment) -> list[Metric]:
    """What may be known of a whole episode."""
    return [*tally.SECTION.metrics, *env.metrics, *SECTION.metrics]


def curves(env: Environment) -> Section:
    """The same, measured now and then by games that are the same every time."""
    measured = [replace(each, tag=curve(each.tag), column="") for each in outcomes(env)]
    return Section("How it plays the same games", tuple(measured))


def curve(tag: str) -> str:
    """The tag of what is measured so: eval/mean_stage of stats/mean_stage."""
    return f"eval/{tag.rpartition('/')[2]}"


class Evaluation:
    """Plays on all devices of a mesh; compiled once for any parameters."""

    def __init__(
        self,
        env: Environment,
        network: Forward,
        mesh: Mesh,
        look_ahead: LookAhead | None = None,
        at_once: int | None = None,
    ) -> None:
        self._mesh = mesh
        agent = Agent(env, network, look_ahead)
        at_once = at_once or (_PLANNED_AT_ONCE if look_ahead else _AT_ONCE)
        # Devices play on their own, until the last of their games has ended, and tell each other
        # nothing: there is no communication whose types could be checked.
        self._play = jax.jit(
            jax.shard_map(
                functools.partial(whole_games.play, agent, at_once),
                mesh=mesh,
                in_specs=(REPLICATED, REPLICATED, REPLICATED, SPLIT),
                out_specs=SPLIT,
                check_vma=False,
            )
        )

    def play(
        self, params: Any, seed: int, games: int, *, greedy: bool = False, uniform: bool = False
    ) -> dict[str, np.ndarray]:
        """What each of the games [games] ended with; "actions" [games, A] is how often each was
        taken, "ended" whether it came to its end in MOST_STEPS.
        """
        places = -(-games // self._mesh.size) * self._mesh.size
        split, replicated = meshes.split(self._mesh), meshes.replicated(self._mesh)
        numbers = meshes.placed(np.arange(places, dtype=np.uint32), split)
        key = jax.jit(lambda: seed_key(seed), out_shardings=replicated)()
        params = meshes.placed(params, replicated)
        done = self._play(Choice(np.bool_(greedy), np.bool_(uniform)), params, key, numbers)
        return {name: column[:games] for name, column in meshes.fetched(done).items()}

    def beside_random(
        self, params: Any, seed: int, games: int, *, greedy: bool = False, both: bool = False
    ) -> dict[str, dict[str, np.ndarray]]:
        """The games of the agent, and those of a player that takes any valid action; with `both`
        also those in which the agent takes the likeliest.
        """
        likeliest = {"agent_greedy": self.play(params, seed, games, greedy=True)} if both else {}
        return {
            "agent": self.play(params, seed, games, greedy=greedy),
            **likeliest,
            "random": self.play(params, seed, games, uniform=True),
        }
