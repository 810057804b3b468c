"""Shows how well a policy plays: `python -m launch.evaluate --run=RUN`.

Game N of a seed is the same whenever the policy plays it, on any devices: `python -m launch.watch`
shows it.
"""

from __future__ import annotations

import json

from absl import app, flags, logging

from launch.startup import plan_flag, policy_flags, starting

PROGRAM = "launch.evaluate"

_EPISODES = flags.DEFINE_integer("episodes", 1000, "How many games to play.", lower_bound=1)
_GREEDY = flags.DEFINE_bool(
    "greedy", False, "Only take the likeliest actions; otherwise both ways of playing are shown."
)
_SEED = flags.DEFINE_integer("seed", 0, "The seed of the games.", lower_bound=0)
_JSON = flags.DEFINE_bool("json", False, "Print JSON.")


def main(_: list[str]) -> None:
    logging.set_verbosity(logging.WARNING)
    starting.keep_compiled_programs()
    starting.leave_missing_tpu()
    policy = policy_flags.load(PROGRAM)
    planner = plan_flag.planner(PROGRAM, policy)
    from hackmatrix.parallel import mesh
    from hackmatrix.rl.evaluation import Evaluation
    from hackmatrix.train.reporting import results

    episodes, seed, greedy = _EPISODES.value, _SEED.value, _GREEDY.value
    both = not greedy and planner is None  # a plan is no draw
    with starting.waiting(f"{PROGRAM}: compiling and playing {2 + both} x {episodes:,} games"):
        look_ahead = planner.look_ahead if planner else None
        evaluation = Evaluation(policy.env, policy.network, mesh.over(), look_ahead)
        games = evaluation.beside_random(policy.params, seed, episodes, greedy=greedy, both=both)
    summaries = {name: results.summary(played, policy.env) for name, played in games.items()}
    best = results.best_game(games["agent"])
    if _JSON.value:
        about = {
            "policy": policy.source,
            "step": policy.step,
            "best": policy.is_best,
            "episodes": episodes,
            "seed": seed,
            "greedy": greedy,
            "plan": plan_flag.simulations(),
            "best_game": best,
        }
        print(json.dumps({**about, **results.as_json(summaries)}, indent=2))
        return
    print(f"{policy.title}: {episodes:,} games of seed {seed}, 95% intervals")
    print("\n".join(results.table(summaries, policy.env)))
    again = f"{policy_flags.again()} --seed={seed}{' --greedy' if greedy else ''}"
    again += plan_flag.again()
    print(f"the best game: python -m launch.watch {again} --episode={best}")


if __name__ == "__main__":
    app.run(main, flags_parser=policy_flags.parser(PROGRAM))
