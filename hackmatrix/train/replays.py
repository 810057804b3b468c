"""Games of the agent that a run leaves behind to look at: RUN/replays/STEP.html.

At the end of a run that is the best of the evaluated games. Before, there is one for each
checkpoint if training leaves the CPU idle, that is on an accelerator; it is played in a thread.
Only the first process plays. What goes wrong is said in one line, and the run goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import jax

from hackmatrix.parallel import mesh as meshes
from hackmatrix.ppo.update import Learner
from hackmatrix.train import policies, whole_files
from hackmatrix.train.evaluate import EVALUATION_SEED, MOST_STEPS
from hackmatrix.train.policies import Policy
from hackmatrix.train.program import Program
from hackmatrix.train.run import Run
from hackmatrix.train.saving import one_line

_MOST_STEPS_MEANWHILE = 500
_ALIKE = 1e-3  # returns of the same game, whose rewards are summed up in another order

# Plays the game of that seed and number, of at most so many steps: a page, and its return.
Play = Callable[[Policy, int, int, int], tuple[str, float]]


class Replays:
    """Of the run, if it is one of the game: of other environments nobody can draw the boards."""

    def __init__(self, run: Run, program: Program, play: Play, say: Callable[[str], None]) -> None:
        self._run, self._program, self._play, self._say = run, program, play, say
        self._plays = jax.process_index() == 0 and program.env.name == "hackmatrix"
        self._idle = _idle_cpu()
        self._thread: threading.Thread | None = None

    def begin(self, step: int, learner: Learner) -> None:
        """At a checkpoint, where it does not slow down training: a game that is on the disk later.
        The luck is always the same, so that its course shows what has been learned.
        """
        if self._idle:
            self._start(step, learner)

    def prepare(self, step: int, learner: Learner) -> None:
        """At the end, before games are evaluated: the program that plays one compiles meanwhile."""
        self._start(step, learner)

    def best(self, step: int, learner: Learner, number: int, evaluated: float) -> str | None:
        """The best of the evaluated games, once more on the same device, so that it takes the same
        course; what can be said of it.
        """
        if not self._plays:
            return None
        if self._thread:
            self._thread.join()
        total = self._save(self._policy(step, learner, jax.local_devices()[0]), number, MOST_STEPS)
        if total is None:
            return None
        told = f"The best was game {number} with a return of {evaluated:.2f}"
        if abs(total - evaluated) > _ALIKE * max(1, abs(evaluated)):
            told += f" ({total:.2f} when it was played again for this)"
        return f"{told}: {self._file(step)}"

    def _start(self, step: int, learner: Learner) -> None:
        """Nothing, while the game before is still being played."""
        if self._plays and not (self._thread and self._thread.is_alive()):
            policy = self._policy(step, learner, self._idle or jax.local_devices()[0])
            self._thread = threading.Thread(
                target=self._save, args=(policy, 0, _MOST_STEPS_MEANWHILE), name="replay"
            )
            self._thread.start()

    def _policy(self, step: int, learner: Learner, device: jax.Device) -> Policy:
        needed = meshes.copied((learner.params, learner.return_scale), device)
        learner = learner.replace(params=needed[0], return_scale=needed[1])
        env, network = self._program.env, self._program.network
        return policies.of_learner(env, network, learner, self._run.name, step)

    def _save(self, policy: Policy, number: int, most_steps: int) -> float | None:
        """The return of the game; None if it could not be recorded."""
        file = self._file(policy.step)
        try:
            page, total = self._play(policy, EVALUATION_SEED, number, most_steps)
            file.parent.mkdir(exist_ok=True)
            whole_files.write(file, page)
        except Exception as error:
            self._say(f"{file} is not written, the run goes on without it: {one_line(error)}")
            return None
        return total

    def _file(self, step: int) -> Path:
        return self._run.replays / f"{step}.html"


def _idle_cpu() -> jax.Device | None:
    if jax.default_backend() == "cpu":
        return None
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:  # JAX_PLATFORMS names the accelerator alone
        return None
