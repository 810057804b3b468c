"""An agent that looks ahead in the game of another program, over the headless protocol."""

from __future__ import annotations

import itertools

import jax
import numpy as np

from hackmatrix.api.agent import Agent
from hackmatrix.envs.headless import Followed
from hackmatrix.standalone import driving, inputs
from hackmatrix.train.policies.player import Player


def looking_ahead(agent: Agent, plan: int, seed: int) -> driving.Decide:
    """The actions that so many games, played on from each board, tell to be the best."""
    player = Player(agent.policy, seed, number=0, planner=agent.planner(plan))
    turns = itertools.count()
    followed: Followed

    def decide(
        program: driving.GameProgram, seen: inputs.Json, valid: list[int], last: int | None
    ) -> int:
        nonlocal followed
        observation, mask = driving.looked_at(seen, valid)
        internal = program.ask("getInternalState")
        with driving.understood():
            if last is None:
                followed = Followed(seen, internal, valid)
            else:
                followed.follow(last, seen, internal, valid)
            board = jax.tree.map(lambda leaf: np.asarray(leaf)[None], followed.state())
        action, *_ = player.choose(observation, mask, next(turns), board)
        return action

    return decide
