"""Replays of a run: recorded games of its agent, as pages RUN/replays/STEP.html, and as pictures in
the sinks that show them.

At the end of a run it is the best of the evaluated games. Before that, a game is played for each
checkpoint, in a thread, if training leaves the CPU idle, that is, on an accelerator.
Only the first process plays. A failure is reported in one line, and the run goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
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
_ALIKE = 1e-3  # relative; returns of one game differ with the order of summation

# Plays and records the game of a seed and number, for at most this many steps.
Play = Callable[[Policy, int, int, int], Game]
Show = Callable[[int, Game], None]  # shows a game of the agent at an environment step


class Replays:
    """Records the replays of one run; none if its environment's games cannot be drawn."""

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
        """Plays a game in a thread, if that does not slow down training. Its random draws are
        always the same, so that replays show what has been learned. All processes call this.
        """
        if self._idle:
            self._meanwhile(step, self._program.acting(learner), self._idle, self._record_first)

    def prepare(self, step: int, params: Params) -> None:
        """Plays one turn in a thread, so that the programs `best` needs compile during the
        evaluation. It writes no page, which would stay if the evaluation were interrupted.
        """
        self._meanwhile(step, params, jax.local_devices()[0], self._warm_up)

    def _meanwhile(
        self, step: int, params: Params, device: jax.Device, play: Callable[[Policy], object]
    ) -> None:
        """Calls `play` in a thread, unless the previous game is still being played."""
        if self._plays and not (self._thread and self._thread.is_alive()):
            policy = self._policy(step, params, device)
            self._thread = threading.Thread(target=play, args=(policy,), name="replay")
            self._thread.start()

    def _record_first(self, policy: Policy) -> None:
        self._save(policy, 0, _MOST_STEPS_MEANWHILE)

    def _warm_up(self, policy: Policy) -> None:
        with suppress(Exception):  # `best` fails in the same way, and reports it
            self._play(policy, EVALUATION_SEED, 0, 1)

    def best(self, step: int, params: Params, number: int, evaluated: float) -> str | None:
        """Plays the best of the evaluated games again, on a device of the same kind, so that it
        takes the same course. Returns a line about it; None if it could not be recorded.
        """
        if not self._plays:
            return None
        if self._thread:
            self._thread.join()
        policy = self._policy(step, params, jax.local_devices()[0])
        total = self._save(policy, number, self._program.env.most_actions)
        if total is None:
            return None
        told = f"The best was game {number}, with a return of {evaluated:.2f}"
        if abs(total - evaluated) > _ALIKE * max(1, abs(evaluated)):
            told += f" ({total:.2f} in this replay)"
        return f"{told}: {self._run.lasting(self._file(step))}"

    def _policy(self, step: int, params: Params, device: jax.Device) -> Policy:
        copy, config = meshes.copied(params, device), self._run.config
        signal = RewardSignal.of(config)
        return Policy(self._program.env, self._program.network, copy, self._run.name, step, signal)

    def _save(self, policy: Policy, number: int, most_steps: int) -> float | None:
        """Plays a game and writes its page. Returns the game's return; None if that failed."""
        file = self._file(policy.step)
        try:
            game = self._play(policy, EVALUATION_SEED, number, most_steps)
            file.parent.mkdir(exist_ok=True)
            atomic_files.write(file, game.page())
            self._show(policy.step, game)
        except Exception as error:
            self._say(f"{file} could not be recorded; the run goes on: {one_line(error)}")
            return None
        return game.total

    def _file(self, step: int) -> Path:
        return self._run.replays / f"{step}.html"


def _idle_cpu() -> jax.Device | None:
    return None if jax.default_backend() == "cpu" else meshes.local_cpu()
