"""Measures how well a policy plays: `python -m launch.evaluate [--run=RUN]`.

The policy is the latest run's, unless --run or --policy names another. For a policy, game N of a
seed is always the same, on any devices; `python -m launch.watch` shows it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from absl import app, flags

from launch.startup import outputs, plan_flag, policy_flags, starting

if TYPE_CHECKING:
    from hackmatrix.api.agent import Agent
    from hackmatrix.api.results import Results

PROGRAM = "launch.evaluate"

_EPISODES = flags.DEFINE_integer("episodes", 1000, "How many games to play.", 1, 2**32 - 1)
_GREEDY = flags.DEFINE_bool(
    "greedy",
    False,
    "Evaluate only greedy play (not with --plan); by default both sampled and greedy play.",
)
plan_flag.refuse_with(_GREEDY)
_SEED = flags.DEFINE_integer("seed", 0, "The seed of the games.", 0, 2**32 - 1)
_JSON = flags.DEFINE_bool("json", False, "Print JSON.")


def main(_: list[str]) -> None:
    starting.keep_compiled_programs()
    starting.leave_room_for_training(PROGRAM)
    agent = policy_flags.load(PROGRAM)
    episodes, seed, greedy, plan = _EPISODES.value, _SEED.value, _GREEDY.value, plan_flag.plan()
    from hackmatrix.train.config.summary import with_unit

    what = f"{PROGRAM}: compiling and playing {with_unit(episodes, 'game')} of each player"
    with starting.one_line_errors(PROGRAM), starting.waiting(what) as note:
        results = agent.evaluate(
            episodes, seed=seed, greedy=greedy, plan=plan,
            tell=lambda share: note(f"{share:.0%} of the games are over"),
        )  # fmt: skip
    with outputs.printing(PROGRAM):
        _show(agent, results)


def _show(agent: Agent, results: Results) -> None:
    if _JSON.value:
        print(json.dumps(results.as_json(), indent=2))
        return
    print(results)
    greedy = " --greedy" if _GREEDY.value else ""
    again = f"{policy_flags.as_flags()} --seed={_SEED.value}{greedy}"
    again += plan_flag.as_flags()
    from hackmatrix.envs.hackmatrix_env import is_drawable

    if is_drawable(agent.env):
        print(f"the best game: python -m launch.watch {again} --episode={results.best_game}")


if __name__ == "__main__":
    app.run(main, flags_parser=policy_flags.parser(PROGRAM))
