"""The results of an evaluation in whole games, to read, to print and to compute with."""

from __future__ import annotations

import functools
import html
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hackmatrix.estimates import Estimate
from hackmatrix.report.sheet import tables
from hackmatrix.train.config.summary import with_unit
from hackmatrix.train.policies.policy import Policy
from hackmatrix.train.reporting import results
from hackmatrix.train.reporting.results import Summary


@dataclass(frozen=True, eq=False)
class Results:
    """Means over games, with 95% intervals, of the agent and of a player that takes any valid
    action. `played` has the result of every single game: by player and tag, an array over games.
    """

    policy: Policy
    games: int
    seed: int
    greedy: bool
    plan: int
    played: dict[str, dict[str, np.ndarray]]

    @functools.cached_property
    def players(self) -> dict[str, Summary]:
        """An estimate (mean, low, high) for each tag, by player: "agent", "random", and
        "agent_greedy" where the agent was measured in both ways.
        """
        env = self.policy.env
        return {player: results.summary(each, env) for player, each in self.played.items()}

    def __getitem__(self, tag: str) -> Estimate:
        """The agent's estimate of a tag, such as "train/mean_episode_return"."""
        return self.players["agent"][tag]

    def __iter__(self) -> Iterator[str]:
        """Yields the tags that have an estimate."""
        return iter(self.players["agent"])

    @property
    def best_game(self) -> int:
        """The number of the agent's game that came furthest, for `watch`."""
        return results.best_game(self.played["agent"], self.policy.env)

    @property
    def title(self) -> str:
        who = self.policy.playing(self.greedy, self.plan)
        return f"{who}: {with_unit(self.games, 'game')} of seed {self.seed}, 95% intervals"

    def __str__(self) -> str:
        return "\n".join([self.title, *results.table(self.players, self.policy.env)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        headings = results.headings(self.players)
        players = dict(zip(headings, self.players.values(), strict=True))
        return f"<p>{html.escape(self.title)}</p>{tables(players, self.policy.env)}"

    def as_json(self) -> dict[str, Any]:
        return {
            "policy": self.policy.source,
            "step": self.policy.step,
            "best": self.policy.is_best,
            "episodes": self.games,
            "seed": self.seed,
            "greedy": self.greedy,
            "plan": self.plan,
            "best_game": self.best_game,
            **results.as_json(self.players),
        }
