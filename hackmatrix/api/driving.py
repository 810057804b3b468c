"""Lets an agent look ahead in the game of another program, over the headless protocol."""

from __future__ import annotations

import itertools

import jax
import numpy as np

from hackmatrix.api.agent import Agent
from hackmatrix.envs.headless import Followed
from hackmatrix.errors import UserError
from hackmatrix.search.planner import FEWEST
from hackmatrix.standalone import driving, inputs
from hackmatrix.train.policies.player import Player


def looking_ahead(agent: Agent, plan: int, seed: int) -> driving.Decide:
    """Returns a function that decides by playing `plan` games on from each board with this seed."""
    if not (planner := agent.planner(plan)):
        raise UserError(f"plan=0 does not look ahead: it must be {FEWEST} or more")
    player = Player(agent.policy, seed, number=0, planner=planner)
    turns = itertools.count()
    followed: Followed

    def decide(
        program: driving.GameProgram, seen: inputs.Json, valid: list[int], last: int | None
    ) -> int:
        nonlocal followed
        observation, mask = driving.policy_inputs(seen, valid)
        internal = program.ask("getInternalState")
        with driving.parsing():
            if last is None:
                followed = Followed(seen, internal, valid)
            else:
                followed.follow(last, seen, internal, valid)
            board = jax.tree.map(lambda leaf: np.asarray(leaf)[None], followed.state())
        action, *_ = player.choose(observation, mask, next(turns), board)
        return action

    return decide
