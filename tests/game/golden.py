"""Reads the golden data, and puts its outcomes and those of a game into one comparable form."""

from __future__ import annotations

import functools
import gzip
import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

State = dict[str, Any]
Case = dict[str, Any]
Result = dict[str, Any]  # as in the data: reward, stage_advanced, won, died, state
Sample = list[tuple[int, Result]]  # distinct results, each after its count
Views = dict[str, Counter[str]]  # name of a view -> JSON text of a value -> its count

SHIPPED = Path(__file__).parents[1] / "golden"
REWARD_PARTS = [
    *("step_penalty", "stage_completion", "score_gain", "kills", "data_siphon"),
    *("distance_shaping", "victory", "death_penalty", "resource_gain", "resource_holding"),
    *("damage_penalty", "hp_recovery", "siphon_quality", "program_waste", "siphon_death_penalty"),
]
FLAGS = [
    *("stage", "turn", "show", "calm", "step", "atk_uses", "pending", "interval", "next_task"),
    "history_depth",
]
ENDINGS = ("stage_advanced", "won", "died")
MARGINALS = [
    *("enemies", "transmissions", "player", "reward", "n_enemies", "n_transmissions", "flags"),
]
UNORDERED = ("enemies", "transmissions", "owned", "kept_transmissions")
LAST_STAGE = 8
_TEXT = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
COMPLETION, VICTORY_COMPLETION = REWARD_PARTS.index("stage_completion"), 100.0


def folder() -> Path:
    return Path(os.environ.get("HACKMATRIX_GOLDEN", SHIPPED))


@functools.cache
def read_cases(source: Path) -> list[Case]:
    with gzip.open(source / "transitions.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def read_stages(source: Path) -> list[dict[str, Any]]:
    return json.loads((source / "stages.json").read_text())


def expected_views(case: Case, history_limit: int) -> Views:
    """The results of a case in the data, with the ruling on victory and a bounded history."""
    if "marginals" in case:
        return {
            name: _counted(
                (_adjusted(name, json.loads(key), case, history_limit), count)
                for key, count in values.items()
            )
            for name, values in case["marginals"].items()
        }
    results = case["outcomes"] if "outcomes" in case else case["advance"]
    ruled = [(count, _ruled(result, case)) for count, result in results]
    return _views("advance" if "advance" in case else "outcome", ruled, history_limit)


def seen_views(case: Case, sample: Sample, history_limit: int) -> Views:
    """A sample of a game's results for a case, in the form of `expected_views`."""
    if "marginals" in case:
        return marginals(sample, history_limit)
    if "outcomes" in case:
        return _views("outcome", sample, history_limit)
    kept = case["advance"][0][1]["state"]["kept_transmissions"]
    projected = [
        (count, {**result, "state": _without_new_board(result["state"], kept)})
        for count, result in sample
    ]
    return _views("advance", projected, history_limit)


def marginals(sample: Sample, history_limit: int) -> Views:
    counts: dict[str, Counter[Any]] = {name: Counter() for name in MARGINALS}
    for count, result in sample:
        state = result["state"]
        for name in ("enemies", "transmissions"):
            for entry in state[name]:
                counts[name][tuple(entry)] += count
            counts[f"n_{name}"][len(state[name])] += count
        depth = min(state["history_depth"], history_limit)
        flags = [state[name] for name in FLAGS[:-1]] + [depth] + [result[name] for name in ENDINGS]
        counts["player"][tuple(state["player"])] += count
        counts["reward"][tuple(_rounded(result["reward"]))] += count
        counts["flags"][tuple(flags)] += count
    return {name: _counted(values.items()) for name, values in counts.items()}


def canonical(result: Result, history_limit: int) -> Result:
    """A result with unordered lists sorted, rewards named and rounded, and the history bounded."""
    state = canonical_state(result["state"])
    state["history_depth"] = min(state["history_depth"], history_limit)
    reward = dict(zip(REWARD_PARTS, _rounded(result["reward"]), strict=True))
    return {"reward": reward, "state": state, **{name: result[name] for name in ENDINGS}}


def canonical_state(state: State) -> State:
    return {
        name: sorted(value) if name in UNORDERED and value is not None else value
        for name, value in state.items()
        if name != "history"
    }


def _views(name: str, sample: Sample, history_limit: int) -> Views:
    whole = ((canonical(result, history_limit), count) for count, result in sample)
    views = {name: _counted(whole)}
    return views | marginals(sample, history_limit) if name == "outcome" else views


def _without_new_board(state: State, kept: list[Any] | None) -> State:
    """A state after a completed stage, as the data gives it: without what is random."""
    left_out = ("cells", "exit", "transmissions")
    transmissions = state["transmissions"]
    return {
        **{name: value for name, value in state.items() if name not in left_out},
        # New transmissions arrive after those that persist.
        "kept_transmissions": None if kept is None else transmissions[: len(kept)],
        "n_transmissions": len(transmissions),
    }


def _ruled(result: Result, case: Case) -> Result:
    if not result["won"]:
        return result
    reward = _adjusted("reward", result["reward"], case, 0)
    return {**result, "reward": reward, "state": {**result["state"], "stage": LAST_STAGE + 1}}


def _adjusted(view: str, value: Any, case: Case, history_limit: int) -> Any:
    """A value of the data's marginals, with the ruling on victory and a bounded history."""
    if view == "reward":
        value = _rounded(value)
        if value[COMPLETION] and case["state"]["stage"] == LAST_STAGE:
            value[COMPLETION] = VICTORY_COMPLETION
    if view == "flags":
        flags = dict(zip((*FLAGS, *ENDINGS), value, strict=True))
        flags["history_depth"] = min(flags["history_depth"], history_limit)
        flags["stage"] += flags["won"]
        value = list(flags.values())
    return value


def _counted(values: Iterable[tuple[Any, int]]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for value, count in values:
        counted[_key(value)] += count
    return counted


def _rounded(reward: list[float]) -> list[float]:
    """Every part is a multiple of 0.005, so equal rewards are equal after rounding."""
    return [round(float(part), 5) + 0.0 for part in reward]


def _key(value: Any) -> str:
    return _TEXT.encode(value)
