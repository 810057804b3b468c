"""The game as pure functions of arrays that follow the rules exactly."""

from hackmatrix.game import scenario, stages
from hackmatrix.game.observation import observe
from hackmatrix.game.play import reset, reset_batch, step, step_batch, step_batch_and_restart
from hackmatrix.game.programs import ACTIONS
from hackmatrix.game.reward import PARTS
from hackmatrix.game.state import Outcome, State
from hackmatrix.game.valid import valid_actions

__all__ = [
    "ACTIONS", "PARTS", "Outcome", "State", "observe", "reset", "reset_batch", "scenario", "stages",
    "step", "step_batch", "step_batch_and_restart", "valid_actions",
]  # fmt: skip
