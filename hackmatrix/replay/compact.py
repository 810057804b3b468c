"""An episode as JSON for a page, in which each board is its difference from the one before.

seen      the fields that changed; cells that changed are fields, too, named by their number, and
          omit flags that are false
chances   the probabilities of the valid actions, in the order of `valid`

Numbers of a policy that are not finite become null, as JSON has no NaN.
"""

from __future__ import annotations

import math
from typing import Any

from hackmatrix.envs.hackmatrix_env import ACTION_NAMES
from hackmatrix.envs.headless.view import Json
from hackmatrix.game.cells import SIZE
from hackmatrix.replay.record import Decision, Episode, Frame

_DIGITS = 4


def compact(episode: Episode) -> Json:
    nothing: Json = {}
    before = [nothing, *(frame.seen for frame in episode.frames)]
    return {
        "title": episode.title,
        "end": episode.end,
        "total": episode.total,
        "actions": list(ACTION_NAMES),
        "size": SIZE,
        "frames": [_frame(*each) for each in zip(before, episode.frames, strict=False)],
    }


def _frame(before: Json, frame: Frame) -> Json:
    return {
        "seen": _changes(before, frame.seen),
        "valid": frame.valid,
        **(_decided(frame.decision, frame.valid) if frame.decision else {}),
        "reward": frame.reward,
        "parts": frame.parts,
        "happened": frame.happened,
    }


def _decided(decision: Decision, valid: list[int]) -> Json:
    return {
        "action": decision.action,
        "value": _rounded(decision.value),
        "chances": [_rounded(decision.probabilities[action]) for action in valid],
    }


def _rounded(number: float) -> float | None:
    return round(number, _DIGITS) if math.isfinite(number) else None


def _changes(before: Json, seen: Json) -> Json:
    old, new = _flat(before), _flat(seen)
    return {name: value for name, value in new.items() if name not in old or old[name] != value}


def _flat(seen: Json) -> dict[str, Any]:
    """Returns what is seen with each cell as a field, named by its number."""
    cells = [cell for row in seen.get("cells", []) for cell in row]
    rest = {name: value for name, value in seen.items() if name != "cells"}
    return {**rest, **{str(number): _short(cell) for number, cell in enumerate(cells)}}


def _short(cell: Json) -> Json:
    return {
        name: value
        for name, value in cell.items()
        if value is not False and name not in ("row", "col")
    }
