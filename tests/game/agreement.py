"""Checks that a step of the game is one that the reference can take."""

from __future__ import annotations

from random import Random
from typing import Any

import reference
from boards import snapshot

State = dict[str, Any]
Step = tuple[State, list[float], dict[str, bool]]  # as reference.step returns it
Facts = dict[str, Any]

TRIES = 3000  # samples of the reference, after which a fact that it never had is wrong
# With at most so many enemies and transmissions, whole results are compared, too: the reference
# soon has every one.
FEW = 3
SINGLE = [
    *("stage", "turn", "show", "calm", "step", "atk_uses", "pending", "interval", "next_task"),
    "history_depth",
]


def mismatch(before: State, action: int, seen: Step, tries: int = TRIES) -> str:
    """Describes the facts of a step that no sampled step of the reference has; empty if none.

    Where chance decides, each fact of the result must be a fact of some result of the reference.
    The reference is sampled until it has had them all or the tries are used up, so a right game
    fails only by an outcome too rare for these.
    """
    missing = _facts(before, action, seen)
    for seed in range(tries):
        rng = Random(seed)
        untouched = rng.getstate()
        expected = _facts(before, action, reference.step(before, action, rng))
        missing = {
            name: fact
            for name, fact in missing.items()
            if name not in expected or expected[name] != fact
        }
        is_certain = rng.getstate() == untouched
        if not missing or is_certain:
            break
    if not missing:
        return ""
    differences = "\n".join(
        f"{name}: {fact}, the reference has {expected.get(name)}" for name, fact in missing.items()
    )
    return f"action {action}\n{differences}\non {before}"


def _facts(before: State, action: int, result: Step) -> Facts:
    after, reward, ending = _sorted(result[0]), result[1], result[2]
    facts: Facts = {name: after[name] for name in SINGLE}
    facts |= {
        "player": after["player"],
        "owned": after["owned"],
        "ending": ending,
        **{f"reward {place}": round(float(part), 4) + 0.0 for place, part in enumerate(reward)},
        "number of enemies": len(after["enemies"]),
        "number of transmissions": len(after["transmissions"]),
        **{f"enemy {place}": entry for place, entry in enumerate(after["enemies"])},
    }
    for place, (row, column, turns, kind, *flags) in enumerate(after["transmissions"]):
        facts[f"transmission {place}"] = turns, flags
        facts[f"type of transmission {place}"] = kind
        facts[f"quarter of transmission {place}"] = row < 3, column < 3
    *older, newest = after["history"] or [None]
    facts["older snapshots"] = older
    facts["newest snapshot"] = "this board" if newest == snapshot(after) else newest
    if ending["stage_advanced"]:
        return facts  # the new board is compared with the canonical game's in test_stages
    facts |= {"exit": after["exit"], "cells": after["cells"]}
    spawned = before["pending"] > 0 or after["next_task"] != before["next_task"]
    if len(before["enemies"]) + len(before["transmissions"]) <= FEW and not spawned:
        facts["all"] = after
    return facts


def _sorted(state: State) -> State:
    """The state with its owned programs sorted, as their order does not matter."""
    snapshots = [{**each, "owned": sorted(each["owned"])} for each in state["history"]]
    return {
        **state,
        "owned": sorted(state["owned"]),
        "exit": list(state["exit"]),
        "history": snapshots,
    }
