"""Which curves are drawn together, and what they are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hackmatrix.game.state import STAGES


@dataclass(frozen=True)
class Chart:
    """Curves with one scale: what each is called, by its tag. A factor of 100 makes per cent."""

    title: str
    curves: Mapping[str, str]
    factor: int = 1


Sections = dict[str, list[Chart]]

_KNOWN: Sections = {
    "How it plays": [
        Chart("return of an episode", {"train/mean_episode_return": ""}),
        Chart(
            "stage at the end of an episode",
            {"stats/mean_stage": "mean", "stats/highest_stage": "highest"},
        ),
        Chart(
            "episodes that complete a stage, %",
            {
                **{f"stats/completed_stage_{each}": f"{each}" for each in range(1, STAGES + 1)},
                "stats/win_rate": "won",
            },
            100,
        ),
        Chart("length of an episode, actions", {"train/mean_episode_length": ""}),
        Chart("score of an episode", {"stats/mean_score": ""}),
        Chart(
            "actions, %",
            {
                "actions/move_frac": "moves",
                "actions/siphon_frac": "siphons",
                "actions/program_frac": "programs",
            },
            100,
        ),
    ],
    "How it learns": [
        Chart("entropy, nats", {"train/entropy": ""}),
        Chart("approximate KL of an update", {"train/approx_kl": ""}),
        Chart("clipped samples, %", {"train/clip_frac": ""}, 100),
        Chart("variance explained by the values, %", {"train/explained_variance": ""}, 100),
        Chart("policy loss", {"train/pg_loss": ""}),
        Chart("value loss", {"train/vf_loss": ""}),
        Chart("total loss", {"train/total_loss": ""}),
        Chart("norm of the gradient", {"train/grad_norm": ""}),
        Chart("learning rate", {"train/lr": ""}),
    ],
}
_REWARD, _SPENT = "reward/", "perf/seconds_"
_SPEED = Chart("environment steps a second", {"perf/steps_per_second": ""})
_UNSAID = {  # what other curves say as well
    "perf/steps_per_second_per_device", "perf/updates_per_second", "perf/hours_left",
    "train/num_episodes", "train/mean_reward",
}  # fmt: skip


def sections(tags: Iterable[str]) -> Sections:
    """Charts of all curves that there are; those that nobody knows yet come last."""
    tags = [tag for tag in tags if tag not in _UNSAID]
    parts = [tag for tag in tags if tag.startswith(_REWARD)]
    spent = {tag: tag.removeprefix(_SPENT) for tag in tags if tag.startswith(_SPENT)}
    wanted = {
        **_KNOWN,
        "What the reward is made of, a step": [
            Chart(tag.removeprefix(_REWARD).replace("_", " "), {tag: ""}) for tag in parts
        ],
        "How fast it runs": [_SPEED, Chart("seconds spent", spent)],
    }
    known = {tag for charts in wanted.values() for chart in charts for tag in chart.curves}
    wanted["More"] = [Chart(tag, {tag: ""}) for tag in tags if tag not in known]
    there = {title: _only(tags, charts) for title, charts in wanted.items()}
    return {title: charts for title, charts in there.items() if charts}


def _only(tags: list[str], charts: Iterable[Chart]) -> list[Chart]:
    some = [
        Chart(
            chart.title,
            {tag: name for tag, name in chart.curves.items() if tag in tags},
            chart.factor,
        )
        for chart in charts
    ]
    return [chart for chart in some if chart.curves]
