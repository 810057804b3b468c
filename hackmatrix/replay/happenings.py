"""What a turn did, in words, from the boards before and after it (scenarios of the game)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hackmatrix import game
from hackmatrix.envs.headless.memory import survivors
from hackmatrix.envs.headless.view import ENEMIES, visible_enemies
from hackmatrix.game.programs import PROGRAMS, Program
from hackmatrix.game.state import DAEMON

Board = Mapping[str, Any]
_HP, _SCORE = 2, 7  # of a scenario's player
_COUNTED = {3: "credits", 4: "energy", 5: "data siphons", 6: "attack", _SCORE: "score"}


def tell(
    before: Board, action: int, after: Board, outcome: game.Outcome, *, only_seen: bool = False
) -> list[str]:
    """Returns lines about the player, then the enemies, then the transmissions. With `only_seen`
    they tell of enemies only what the boards show.
    """
    if outcome.invalid:
        return ["the action is invalid and ends the game"]
    if outcome.stage_completed:
        return [*_player(before, after), f"stage {before['stage']} is completed"]
    if action == Program.UNDO:
        return [f"UNDO brings back turn {after['turn']}", *_player(before, after, hit="")]
    alive = _alive(before, action, after)
    return [
        *_player(before, after),
        *_enemies(before, alive, after, only_seen),
        *_transmissions(before, alive, after),
    ]


def _player(before: Board, after: Board, hit: str = "enemies hit the player: ") -> list[str]:
    """Returns lines about the player; `hit` is the cause if hit points were lost."""
    old, new = before["player"], after["player"]
    lines = [
        f"{name} {old[place]} → {new[place]}"
        for place, name in _COUNTED.items()
        if old[place] != new[place]
    ]
    if new[_HP] != old[_HP]:
        lines.append(f"{hit if new[_HP] < old[_HP] else ''}hp {old[_HP]} → {new[_HP]}")
    gained = [each for each in after["owned"] if each not in before["owned"]]
    return [*lines, *(f"the player gets {PROGRAMS[each]}" for each in gained)]


def _alive(before: Board, action: int, after: Board) -> list[int]:
    """Returns the indices of the enemies that survived, in order: the first ones in `after`."""
    old = before["enemies"]
    if action == Program.POLY:  # all stay but daemons with one hp, which become others and die
        return [each for each, enemy in enumerate(old) if enemy[0] != DAEMON or enemy[3] > 1]
    return survivors(before, action, after)


def _enemies(before: Board, alive: list[int], after: Board, only_seen: bool) -> list[str]:
    """Returns lines about the enemies. Survivors are the first ones in `after`, in their order."""
    old, new = before["enemies"], after["enemies"]
    known = dict(zip(alive, new, strict=False))
    pairs = [(enemy, known.get(number)) for number, enemy in enumerate(old)]
    pairs += [(None, enemy) for enemy in new[len(alive) :]]
    # Compared by identity: an enemy may be equal to one that hides it in the same cell.
    seen = {
        id(enemy)
        for board in (before, after)
        for enemy in (visible_enemies(board).values() if only_seen else board["enemies"])
    }
    lines = [_enemy(was, now, id(was) in seen, id(now) in seen) for was, now in pairs]
    return list(filter(None, lines))


def _enemy(old: list[int] | None, new: list[int] | None, was_seen: bool, is_seen: bool) -> str:
    if not (new and is_seen):
        end = "goes out of sight" if new else "is gone"
        return f"{_name(old)} {end}" if old and was_seen else ""
    if not (old and was_seen):
        return f"{_name(new)} appears"
    changes = []
    if new[0] != old[0]:
        changes.append(f"becomes a {ENEMIES[new[0]]}")
    if new[1:3] != old[1:3]:
        changes.append(f"moves to {_place(new)}")
    if new[3] != old[3]:
        changes.append(f"hp {old[3]} → {new[3]}")
    if new[5] and not old[5]:
        changes.append("is stunned")
    return f"{_name(old)} {', '.join(changes)}" if changes else ""


def _transmissions(before: Board, alive: list[int], after: Board) -> list[str]:
    """Returns lines about the transmissions. Each stays in its cell, alone there, until it is
    destroyed or becomes an enemy. Those that stay are the first ones in `after`, in their order.
    """
    old, new = ([tuple(each[:2]) for each in board["transmissions"]] for board in (before, after))
    become = [tuple(enemy[1:3]) for enemy in after["enemies"][len(alive) :]]
    gone, kept = [], 0
    for place in old:
        if new[kept : kept + 1] == [place]:
            kept += 1
        else:
            gone.append(place)
    lines = [
        f"transmission at row {row} col {col} is destroyed"
        for row, col in gone
        if (row, col) not in become
    ]
    if more := len(new) - kept:
        lines.append(f"{more} new transmission{'s' if more > 1 else ''}")
    return lines


def _name(enemy: list[int]) -> str:
    return f"{ENEMIES[enemy[0]]} at {_place(enemy)}"


def _place(enemy: list[int]) -> str:
    return f"row {enemy[1]} col {enemy[2]}"
