"""Which curves are drawn together."""

from __future__ import annotations

from hackmatrix.envs import make
from hackmatrix.ppo import PPO
from hackmatrix.report.charts import charts
from hackmatrix.train.reporting import metric_catalogue

DECLARED = metric_catalogue.sections(make("hackmatrix"), PPO)


def test_every_curve_is_in_exactly_one_chart_also_an_undeclared_one() -> None:
    tags = ["train/entropy", "stats/completed_stage_2", "reward/kills", "perf/seconds_run", "new"]
    sections = charts(DECLARED, tags)
    drawn = [tag for some in sections.values() for chart in some for tag in chart.curves]
    assert sorted(drawn) == sorted(tags)
    assert [chart.title for chart in sections["More"]] == ["new"]


def test_an_environment_without_stages_has_no_empty_charts() -> None:
    sections = charts(DECLARED, ["train/mean_episode_return", "train/entropy"])
    assert list(sections) == ["How it plays", "How it learns"]
    assert all(len(some) == 1 for some in sections.values())


def test_metrics_of_one_chart_have_titles_of_their_own_and_share_its_scale() -> None:
    sections = charts(DECLARED, ["stats/completed_stage_1", "stats/win_rate", "stats/mean_score"])
    shares, score = sections["How it plays"]
    assert shares.curves == {
        "stats/completed_stage_1": "completed stage 1",
        "stats/win_rate": "won",
    }
    assert shares.factor == 100
    assert (score.title, score.factor, score.curves) == ("score", 1, {"stats/mean_score": ""})


def test_no_chart_of_the_game_mixes_shares_with_other_values() -> None:
    for section in DECLARED:
        factors: dict[str, set[int]] = {}
        for metric in section.metrics:
            factors.setdefault(metric.chart or metric.label, set()).add(metric.factor)
        assert all(len(each) == 1 for each in factors.values()), factors
