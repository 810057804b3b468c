"""Evaluates an agent on whole games, each one reproducible from (agent, seed, number)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from hackmatrix.compile_cache.programs import CachedJit
from hackmatrix.envs import Environment
from hackmatrix.envs.metrics import PERCENT, Metric, Section
from hackmatrix.parallel import mesh as meshes
from hackmatrix.parallel.agreement import any_process, every_process
from hackmatrix.parallel.mesh import REPLICATED, SPLIT
from hackmatrix.rl import games as whole_games
from hackmatrix.rl import tally
from hackmatrix.rl.draws import seed_key
from hackmatrix.rl.games import (
    ACTIONS,
    ENDED,
    Actor,
    Choice,
    Forward,
    LookAhead,
    Playing,
)

SECTION = Section("How it plays", (Metric(ENDED, "came to an end", PERCENT),))
EVALUATION_SEED = 1_000_003  # of the evaluations during a run and at its end
# Games at a time on a device; fewer with planning, which plays many boards for each.
_AT_ONCE, _PLANNED_AT_ONCE = 4096, 256
# Steps of each game between two checks whether to go on: under a second on a CPU. With planning one
# step may take many seconds.
_STEPS, _PLANNED_STEPS = 16, 1


def outcomes(env: Environment) -> list[Metric]:
    """Returns all metrics that an episode may have."""
    return [*tally.SECTION.metrics, *env.metrics, *SECTION.metrics]


def curves(env: Environment) -> Section:
    """Returns the metrics of the evaluations during a run, which play the same games every time."""
    measured = [replace(each, tag=curve(each.tag), column="") for each in outcomes(env)]
    return Section("How it plays the same games", tuple(measured))


def curve(tag: str) -> str:
    """Returns the tag of a metric in these evaluations: eval/mean_stage for stats/mean_stage."""
    return f"eval/{tag.rpartition('/')[2]}"


Tell = Callable[[float], None]  # reports progress: the fraction of the games that are over


class Interrupted(Exception):
    """Raised when an evaluation is stopped before all of its games have ended."""


class Evaluation:
    """Plays games on all devices of a mesh. It compiles once for each number of games, whatever the
    parameters. Every few steps it calls `goes_on`, and raises Interrupted if that returns False.
    """

    def __init__(
        self,
        env: Environment,
        network: Forward,
        mesh: Mesh,
        look_ahead: LookAhead | None = None,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> None:
        self._mesh, self._goes_on = mesh, goes_on
        actor = Actor(env, network, look_ahead)
        at_once = _PLANNED_AT_ONCE if look_ahead else _AT_ONCE
        steps = _PLANNED_STEPS if look_ahead else _STEPS
        # Without communication, as each device plays until its own games have ended: check_vma
        # would have nothing to check.
        on_devices = functools.partial(jax.shard_map, mesh=mesh, out_specs=SPLIT, check_vma=False)
        self._begin_of = functools.partial(whole_games.begin, actor, at_once)
        self._begin = jax.jit(on_devices(self._begin_of, in_specs=(REPLICATED, SPLIT)))
        self._play_of = functools.partial(whole_games.play, actor, steps)
        specs = REPLICATED, REPLICATED, REPLICATED, SPLIT, SPLIT
        self._play = jax.jit(on_devices(self._play_of, in_specs=specs), donate_argnums=3)
        self._of_places: dict[int, tuple[CachedJit, CachedJit]] = {}
        self._key = jax.jit(seed_key, static_argnums=0, out_shardings=meshes.replicated(mesh))

    def play(
        self,
        params: Any,
        seed: int,
        games: int,
        *,
        greedy: bool = False,
        uniform: bool = False,
        tell: Tell = lambda share: None,
    ) -> dict[str, np.ndarray]:
        """Plays games and returns their results by tag, [games] each. "actions" [games, A] counts
        how often each action was taken; "ended" is true where a game came to its own end and was
        not cut off. Meanwhile `tell` gets the fraction of this process's games that are over.
        """
        places = -(-games // self._mesh.size) * self._mesh.size
        split, replicated = meshes.split(self._mesh), meshes.replicated(self._mesh)
        numbers = meshes.placed(np.arange(places, dtype=np.uint32), split)
        key = self._key(seed)
        params = meshes.placed(params, replicated)
        choice = Choice(np.bool_(greedy), np.bool_(uniform))
        begin, play = self._programs(places)
        playing = begin(key, numbers)
        while any_process(_is_going_on_here(playing)):
            if not self._goes_on():
                raise Interrupted
            playing = play(choice, params, key, playing, numbers)
            tell(_share_over_here(playing))
        played = meshes.fetched(playing.played)
        columns: dict[str, np.ndarray] = {
            **played.result,
            ACTIONS: played.actions,
            ENDED: played.ended,
            tally.CUT_OFF: ~played.ended,
        }
        return {name: column[:games] for name, column in columns.items()}

    def _programs(self, places: int) -> tuple[CachedJit, CachedJit]:
        """Returns the compiled programs that begin this many games, and play some steps of them."""
        if places not in self._of_places:
            devices = list(self._mesh.devices.flat)
            self._of_places[places] = (
                CachedJit(self._begin, self._begin_of, devices, every_process),
                CachedJit(self._play, self._play_of, devices, every_process),
            )
        return self._of_places[places]

    def beside_random(
        self,
        params: Any,
        seed: int,
        games: int,
        *,
        greedy: bool = False,
        both: bool = False,
        tell: Tell = lambda share: None,
    ) -> dict[str, dict[str, np.ndarray]]:
        """Plays the same games with the agent and with a uniformly random player, and with `both`
        also with the agent taking its likeliest actions; returns the results by player. Meanwhile
        `tell` gets the fraction of all these games that are over.
        """
        players = {"agent": {"greedy": greedy}}
        if both:
            players["agent_greedy"] = {"greedy": True}
        players["random"] = {"uniform": True}

        def tell_of(before: int, share: float) -> None:
            tell((before + share) / len(players))

        return {
            name: self.play(params, seed, games, **kind, tell=functools.partial(tell_of, before))
            for before, (name, kind) in enumerate(players.items())
        }


def _is_going_on_here(playing: Playing) -> bool:
    """Returns whether a device of this process still has games to play."""
    return any(bool(np.asarray(each.data).any()) for each in playing.is_going_on.addressable_shards)


def _share_over_here(playing: Playing) -> float:
    """Returns the fraction of the games on this process's devices that are over."""
    lengths = playing.played.result[tally.LENGTH].addressable_shards
    return float(np.mean([np.asarray(each.data) > 0 for each in lengths]))
