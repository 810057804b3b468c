"""What a turn did, in words, from the boards before and after it (scenarios of the game)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hackmatrix import game
from hackmatrix.envs.headless.memory import survivors
from hackmatrix.envs.headless.view import ENEMIES

Board = Mapping[str, Any]
_HP, _SCORE = 2, 7  # of a scenario's player
_COUNTED = {3: "credits", 4: "energy", 5: "data siphons", 6: "attack", _SCORE: "score"}


def tell(before: Board, action: int, after: Board, outcome: game.Outcome) -> list[str]:
    """The player first, then the enemies, a line each."""
    if outcome.invalid:
        return ["the action is not valid, which ends the game"]
    if outcome.stage_completed:
        return [*_player(before, after), f"stage {before['stage']} is completed"]
    return [*_player(before, after), *_enemies(before, action, after), *_signals(before, after)]


def _player(before: Board, after: Board) -> list[str]:
    old, new = before["player"], after["player"]
    lines = [
        f"{name} {old[place]} → {new[place]}"
        for place, name in _COUNTED.items()
        if old[place] != new[place]
    ]
    if new[_HP] < old[_HP]:
        lines.append(f"enemies hit the player: hp {old[_HP]} → {new[_HP]}")
    elif new[_HP] > old[_HP]:
        lines.append(f"hp {old[_HP]} → {new[_HP]}")
    return lines


def _enemies(before: Board, action: int, after: Board) -> list[str]:
    """The survivors stand first in the list after, in the same order."""
    old = before["enemies"]
    alive = survivors(before, action, after)
    known = dict(zip(alive, after["enemies"], strict=False))
    lines = [_changed(enemy, known.get(number)) for number, enemy in enumerate(old)]
    fresh = [f"{_name(enemy)} appears" for enemy in after["enemies"][len(alive) :]]
    return [*filter(None, lines), *fresh]


def _changed(old: list[int], new: list[int] | None) -> str:
    if new is None:
        return f"{_name(old)} is gone"
    changes = []
    if new[1:3] != old[1:3]:
        changes.append(f"moves to {_place(new)}")
    if new[3] != old[3]:
        changes.append(f"hp {old[3]} → {new[3]}")
    if new[5] and not old[5]:
        changes.append("is stunned")
    return f"{_name(old)} {', '.join(changes)}" if changes else ""


def _signals(before: Board, after: Board) -> list[str]:
    more = len(after["transmissions"]) - len(before["transmissions"])
    return [f"{more} new transmission{'s' if more > 1 else ''}"] if more > 0 else []


def _name(enemy: list[int]) -> str:
    return f"{ENEMIES[enemy[0]]} at {_place(enemy)}"


def _place(enemy: list[int]) -> str:
    return f"row {enemy[1]} col {enemy[2]}"
