"""Evaluations of a run: whole games, played now and then and at its end.

The games are the same every time, on any mesh, so that their curves show nothing but what was
learned. All processes of a run call everything here together.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hackmatrix.parallel.agreement import broadcast, is_first, on_first
from hackmatrix.rl.evaluation import EVALUATION_SEED, Evaluation, Interrupted, curve, outcomes
from hackmatrix.rl.tally import RETURN
from hackmatrix.rl.train_state import TrainState
from hackmatrix.train.config.summary import with_unit
from hackmatrix.train.program import Program
from hackmatrix.train.reporting import results
from hackmatrix.train.reporting.replays import Replays
from hackmatrix.train.runs import atomic_files
from hackmatrix.train.runs.directory import Run
from hackmatrix.train.runs.schedule import Schedule
from hackmatrix.train.waiting import waiting


@dataclass(frozen=True)
class EvaluationResult:
    """The results of an agent: means over the games by the tags of their curves, and the score by
    which agents are compared.
    """

    metrics: Mapping[str, float]
    score: float


class Evaluator:
    """Plays the evaluation games of one run. Programs are compiled when first needed."""

    def __init__(
        self,
        run: Run,
        program: Program,
        schedule: Schedule,
        say: Callable[[str], None],
        goes_on: Callable[[], bool],
    ) -> None:
        self._run, self._program, self._say = run, program, say
        self._schedule, self._clock = schedule, schedule.clock
        env, network = program.network.turned(program.env), program.network
        self._evaluation = Evaluation(env, network, program.mesh, goes_on=goes_on)
        self._goal = program.env.goal or RETURN
        # Restarts do not delay an evaluation: the first one is due at a multiple of the interval.
        self._interval = 60 * run.config.eval_interval_minutes
        self._due_at = math.inf
        if self._interval:
            self._due_at = (schedule.seconds // self._interval + 1) * self._interval

    def is_due(self, update: int, seconds: float) -> bool:
        """Whether an evaluation is due after so many seconds of training, which are the same on all
        processes. A run long enough to be evaluated on the way is evaluated at its end, too: its
        last agent may be its best.
        """
        if update >= self._schedule.last_update or self._schedule.is_time_up(seconds):
            return 0 < self._interval <= seconds
        return seconds >= self._due_at

    def measure(self, update: int, learner: Any) -> EvaluationResult | None:
        """Plays `eval_games` games with the learner after this many updates. Returns None if the
        run was asked to stop meanwhile.
        """
        games, step = self._run.config.eval_games, self._schedule.steps_after(update)
        with self._clock.phase("evaluate"):
            params = self._program.acting(learner)
            try:
                played = self._evaluation.play(params, EVALUATION_SEED, games)
            except Interrupted:
                self._say(
                    f"Stopped during the evaluation at step {step:,}: eval/ has no point there, "
                    "and --best does not consider that agent"
                )
                return None
        self._due_at = broadcast(self._clock.trained()) + self._interval
        means = {tag: float(each.mean()) for tag, each in played.items() if each.ndim == 1}
        score = means[self._goal]
        (goal,) = (each for each in outcomes(self._program.env) if each.tag == self._goal)
        reached = f"{goal.title} {goal.shown(score)} in {with_unit(games, 'game')}"
        self._say(f"Evaluation at step {step:,}: {reached}")
        metrics = {curve(tag): mean for tag, mean in means.items()}
        return EvaluationResult(metrics, score)

    def lacks_final_games(self, state: TrainState) -> bool:
        """Whether the final evaluation of this state is missing or has too few games."""
        wanted = self._run.config.eval_episodes

        def lacks() -> bool:
            played = results.read(self._run.evaluation)
            if played is None or played.get("step") != self._step(state):
                return True
            return played["episodes"] < wanted

        return wanted > 0 and on_first(lacks)

    def forget_what_is_done_again(self) -> None:
        """Removes evaluation.json and pages of games if they are of a later step than the run
        resumes from, whose agents are gone.
        """
        run, now = self._run, self._schedule.steps

        def forget() -> None:
            played = results.read(run.evaluation) or {}
            gone = [run.evaluation] if played.get("step", 0) > now else []
            for name in run.lasting(run.replays).names():
                page = re.fullmatch(r"(\d+)\.html", name)
                if page and int(page[1]) > now:
                    gone.append(run.replays / name)
            for file in gone:
                run.lasting(file).remove()
                file.unlink(missing_ok=True)

        on_first(forget)

    def play_final_games(
        self, state: TrainState, replays: Replays, has_played: Callable[[], None]
    ) -> None:
        """Plays `eval_episodes` games with the agent and as many with a random player, prints the
        results, writes evaluation.json, calls `has_played`, and makes a page of the best game.
        """
        run, env, games = self._run, self._program.env, self._run.config.eval_episodes
        step, params = self._step(state), self._program.acting(state.learner)
        replays.prepare(step, params)
        playing = f"Evaluation: playing {with_unit(games, 'game')} of each player"
        with waiting(playing, self._say) as note:
            played = self._evaluation.beside_random(
                params,
                EVALUATION_SEED,
                games,
                tell=lambda share: note(f"{share:.0%} of the games are over"),
            )
        summaries = {name: results.summary(each, env) for name, each in played.items()}
        for line in results.table(summaries, env):
            self._say(line)
        best = results.best_game(played["agent"], env)
        if is_first():
            told = {"step": step, "episodes": games, "seed": EVALUATION_SEED, "best_game": best}
            text = json.dumps({**told, **results.as_json(summaries)}, indent=2)
            atomic_files.write(run.evaluation, text + "\n")
        has_played()
        again = replays.best(step, params, best, float(played["agent"][RETURN][best]))
        if again:
            self._say(again)

    def _step(self, state: TrainState) -> int:
        return self._schedule.steps_after(int(state.learner.update))
