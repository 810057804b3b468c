"""Sessions recorded with the canonical headless program, and what makes an answer like theirs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

_FILE = Path(__file__).parents[2] / "golden" / "protocol.jsonl.gz"
_LAST_STAGE = 8
_VICTORY, _VICTORY_BY_DATA = 100, 64  # for completing the last stage


class Recording(NamedTuple):
    name: str
    is_deterministic: bool
    exchanges: list[tuple[Any, Any]]


def read() -> list[Recording]:
    with gzip.open(_FILE, "rt") as lines:
        sessions = [json.loads(line) for line in lines]
    return [
        Recording(
            str(session["session"]),
            session["deterministic"],
            [(command, _by_the_rules(answer)) for command, answer in session["exchanges"]],
        )
        for session in sessions
    ]


def _by_the_rules(answer: Any) -> Any:
    """On victory the canonical game leaves the stage at 8 and pays 64; the rules say 9 and 100."""
    is_victory = answer.get("info", {}).get("reward_breakdown", {}).get("victory")
    if is_victory:
        answer["observation"]["stage"] = _LAST_STAGE + 1
        answer["info"]["reward_breakdown"]["stage"] = _VICTORY
        answer["reward"] += _VICTORY - _VICTORY_BY_DATA
    return answer


def differences(told: Any, recorded: Any, where: str = "") -> Iterator[str]:
    """Where two JSON values differ, but for the order of hints and rounding in the last digits."""
    if isinstance(told, dict) and isinstance(recorded, dict):
        for name in told.keys() ^ recorded.keys():
            yield f"{where}.{name}: only in one of them"
        for name in told.keys() & recorded.keys():
            yield from differences(told[name], recorded[name], f"{where}.{name}")
    elif isinstance(told, list) and isinstance(recorded, list) and len(told) == len(recorded):
        if where.endswith("cryptogHints"):
            told, recorded = (sorted(hints, key=json.dumps) for hints in (told, recorded))
        for number, pair in enumerate(zip(told, recorded, strict=True)):
            yield from differences(*pair, f"{where}[{number}]")
    elif not _is_same(told, recorded):
        yield f"{where}: {told!r} where {recorded!r} was recorded"


def _is_same(told: Any, recorded: Any) -> bool:
    numbers = [
        isinstance(value, int | float) and not isinstance(value, bool) for value in (told, recorded)
    ]
    if all(numbers):
        return abs(told - recorded) < 1e-9
    return type(told) is type(recorded) and told == recorded


class Grammar:
    """Which names the answers have at each place, always or ever, and the kinds of their values."""

    def __init__(self, answers: Iterable[Any]) -> None:
        self._kinds: dict[str, set[str]] = {}
        self._always: dict[str, set[str]] = {}
        for answer in answers:
            for place, value in _places(answer):
                self._kinds.setdefault(place, set()).add(_kind(value))
                if isinstance(value, dict):
                    names = self._always.setdefault(place, set(value))
                    names &= set(value)

    def faults(self, answer: Any) -> Iterator[str]:
        for place, value in _places(answer):
            if _kind(value) not in self._kinds.get(place, ()):
                yield f"{place}: {value!r} is nothing like what was recorded"
            if isinstance(value, dict):
                for name in self._always.get(place, set()) - set(value):
                    yield f"{place}: lacks {name}"


def _places(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Each value with its place; entries of a list are all at the same place."""
    if isinstance(value, dict):
        place += f"({value['blockType']})" if "blockType" in value else ""
        for name, inner in value.items():
            yield from _places(inner, f"{place}.{name}")
    if isinstance(value, list):
        for inner in value:
            yield from _places(inner, f"{place}[]")
    yield place, value


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "truth"
    return "number" if isinstance(value, int | float) else type(value).__name__
