"""Sessions recorded with the canonical headless program, and comparisons of answers with them."""

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
    """Corrects a victory: the canonical game leaves the stage at 8 and pays 64, but the rules say
    9 and 100.
    """
    is_victory = answer.get("info", {}).get("reward_breakdown", {}).get("victory")
    if is_victory:
        answer["observation"]["stage"] = _LAST_STAGE + 1
        answer["info"]["reward_breakdown"]["stage"] = _VICTORY
        answer["reward"] += _VICTORY - _VICTORY_BY_DATA
    return answer


def differences(answer: Any, recorded: Any, where: str = "") -> Iterator[str]:
    """Yields where two JSON values differ, ignoring the order of hints and the last digits."""
    if isinstance(answer, dict) and isinstance(recorded, dict):
        for name in answer.keys() ^ recorded.keys():
            yield f"{where}.{name}: only in one of them"
        for name in answer.keys() & recorded.keys():
            yield from differences(answer[name], recorded[name], f"{where}.{name}")
    elif isinstance(answer, list) and isinstance(recorded, list) and len(answer) == len(recorded):
        if where.endswith("cryptogHints"):
            answer, recorded = (sorted(hints, key=json.dumps) for hints in (answer, recorded))
        for number, pair in enumerate(zip(answer, recorded, strict=True)):
            yield from differences(*pair, f"{where}[{number}]")
    elif not _is_same(answer, recorded):
        yield f"{where}: {answer!r} where {recorded!r} was recorded"


def _is_same(answer: Any, recorded: Any) -> bool:
    numbers = [
        isinstance(value, int | float) and not isinstance(value, bool)
        for value in (answer, recorded)
    ]
    if all(numbers):
        return abs(answer - recorded) < 1e-9
    return type(answer) is type(recorded) and answer == recorded


class Grammar:
    """The names that answers have at each place, always or sometimes, and the kinds of values."""

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
    """Yields each value with its place; all entries of a list have the same place."""
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
