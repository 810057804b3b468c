"""Replays of a run: recorded games of its agent, as pages RUN/replays/STEP.html, and as pictures in
the sinks that show them.

At the end of a run that is the best of the evaluated games. Before, there is one for each
checkpoint if training leaves the CPU idle, that is on an accelerator; it is played in a thread.
Only the first process plays. A failure is reported in one line, and the run goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from hackmatrix.envs.hackmatrix_env import is_drawable
from hackmatrix.networks.actor_critic import Params
from hackmatrix.parallel import mesh as meshes
from hackmatrix.parallel.agreement import is_first
from hackmatrix.rl.evaluation import EVALUATION_SEED
from hackmatrix.rl.reward_signal import RewardSignal
from hackmatrix.train.checkpoints.saving import one_line
from hackmatrix.train.policies.policy import Policy
from hackmatrix.train.program import Program
from hackmatrix.train.reporting.sinks import Game
from hackmatrix.train.runs import atomic_files
from hackmatrix.train.runs.directory import Run

_MOST_STEPS_MEANWHILE = 500
_ALIKE = 1e-3  # returns of the same game, whose rewards are summed up in another order

# Plays the game of that seed and number, of at most so many steps.
Play = Callable[[Policy, int, int, int], Game]
Show = Callable[[int, Game], None]  # the game that was played at a step


class Replays:
    """Those of one run; none of an environment whose games cannot be drawn."""

    def __init__(
        self,
        run: Run,
        program: Program,
        play: Play,
        say: Callable[[str], None],
        show: Show,
    ) -> None:
        self._run, self._program, self._play = run, program, play
        self._say, self._show = say, show
        self._plays = is_first() and is_drawable(program.env)
        self._idle = _idle_cpu()
        self._thread: threading.Thread | None = None

    def at_checkpoint(self, step: int, learner: Any) -> None:
        """Plays a game in a thread, where that does not slow down training. It always draws from
        the same keys, so that its course shows what has been learned. All processes call this.
        """
        if self._idle:
            self._meanwhile(step, self._program.acting(learner), self._show)

    def prepare(self, step: int, params: Params) -> None:
        """Plays a game before games are evaluated, so that the program for it compiles meanwhile.
        Only the best of the evaluated games will be shown, in place of this one.
        """
        self._meanwhile(step, params, lambda *_: None)

    def _meanwhile(self, step: int, params: Params, show: Show) -> None:
        """Nothing, while the game before is still being played."""
        if self._plays and not (self._thread and self._thread.is_alive()):
            policy = self._policy(step, params, self._idle or jax.local_devices()[0])
            self._thread = threading.Thread(
                target=self._save, args=(policy, 0, _MOST_STEPS_MEANWHILE, show), name="replay"
            )
            self._thread.start()

    def best(self, step: int, params: Params, number: int, evaluated: float) -> str | None:
        """Plays the best of the evaluated games once more, on the same device, so that it takes the
        same course; gives what can be said of it.
        """
        if not self._plays:
            return None
        if self._thread:
            self._thread.join()
        policy = self._policy(step, params, jax.local_devices()[0])
        total = self._save(policy, number, self._program.env.most_actions, self._show)
        if total is None:
            return None
        told = f"The best was game {number} with a return of {evaluated:.2f}"
        if abs(total - evaluated) > _ALIKE * max(1, abs(evaluated)):
            told += f" ({total:.2f} when it was played again for this)"
        return f"{told}: {self._run.lasting(self._file(step))}"

    def _policy(self, step: int, params: Params, device: jax.Device) -> Policy:
        copy, config = meshes.copied(params, device), self._run.config
        signal = RewardSignal.of(config)
        return Policy(self._program.env, self._program.network, copy, self._run.name, step, signal)

    def _save(self, policy: Policy, number: int, most_steps: int, show: Show) -> float | None:
        """The return of the game; None if it could not be recorded."""
        file = self._file(policy.step)
        try:
            game = self._play(policy, EVALUATION_SEED, number, most_steps)
            file.parent.mkdir(exist_ok=True)
            atomic_files.write(file, game.page())
            show(policy.step, game)
        except Exception as error:
            self._say(f"{file} is not shown, the run goes on without it: {one_line(error)}")
            return None
        return game.total

    def _file(self, step: int) -> Path:
        return self._run.replays / f"{step}.html"


def _idle_cpu() -> jax.Device | None:
    return None if jax.default_backend() == "cpu" else meshes.local_cpu()
