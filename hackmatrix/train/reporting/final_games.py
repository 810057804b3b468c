"""The evaluation at the end of a run: whole games of the agent, beside those of a random player."""

from __future__ import annotations

import json
from collections.abc import Callable

from hackmatrix.parallel.agreement import is_first
from hackmatrix.rl.evaluation import EVALUATION_SEED, Evaluation
from hackmatrix.rl.tally import RETURN
from hackmatrix.rl.train_state import TrainState
from hackmatrix.train.program import Program
from hackmatrix.train.reporting import results
from hackmatrix.train.reporting.replays import Replays
from hackmatrix.train.runs import atomic_files
from hackmatrix.train.runs.directory import Run


def play_final_games(
    program: Program, state: TrainState, run: Run, replays: Replays, say: Callable[[str], None]
) -> None:
    """Plays `eval_episodes` games, says what they came to, and leaves evaluation.json and a page of
    the best one in the run's directory.
    """
    games = run.config.eval_episodes
    if not games:
        return
    say(f"Evaluation: playing {games} games ...")
    learner = state.learner
    step = int(learner.update) * run.config.batch_size
    params = program.acting(learner)
    replays.prepare(step, params)
    evaluation = Evaluation(program.env, program.network, program.mesh)
    played = evaluation.beside_random(params, EVALUATION_SEED, games)
    summaries = {name: results.summary(each, program.env) for name, each in played.items()}
    for line in results.table(summaries, program.env):
        say(line)
    if not is_first():
        return
    best = results.best_game(played["agent"])
    told = {"step": step, "episodes": games, "seed": EVALUATION_SEED, "best_game": best}
    text = json.dumps({**told, **results.as_json(summaries)}, indent=2)
    atomic_files.write(run.evaluation, text + "\n")
    again = replays.best(step, params, best, float(played["agent"][RETURN][best]))
    if again:
        say(again)
