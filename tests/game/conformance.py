"""Checks a game against golden cases. The functions return the differences, as text.

The action of each case is sampled FIRST.times times. The results are compared with the data in both
directions, as the README of the golden data asks, and in frequency. A difference may be chance, as
our sample is noisy, too: it is a failure only if a second, larger sample confirms it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from golden import Case, Sample, State, Views, expected_views, seen_views

ACTION_NAMES = [
    *("up", "down", "left", "right", "siphon", "PUSH", "PULL", "CRASH", "WARP", "POLY", "WAIT"),
    *("DEBUG", "ROW", "COL", "UNDO", "STEP", "SIPH+", "EXCH", "SHOW", "RESET", "CALM", "D_BOM"),
    *("DELAY", "ANTI-V", "SCORE", "REDUC", "ATK+", "HACK"),
]
SHARE = 0.06  # the game must produce outcomes at least this common in the data
MISSED_BY_DATA = 0.001  # the chance at which the data may have missed an outcome
OBSERVATION_TOLERANCE = 1e-6
ENOUGH = 50  # wrong cases, after which no others are sampled again


class Subject(Protocol):
    """The game under test, many states at a time."""

    history_limit: int

    def masks(self, states: Sequence[State]) -> np.ndarray: ...  # bool [n, 28]

    def observations(self, states: Sequence[State]) -> np.ndarray: ...  # float32 [n, 1545]

    def reloaded(self, states: Sequence[State]) -> list[State]: ...  # loaded and dumped again

    def samples(
        self, cases: Sequence[Case], times: int
    ) -> Iterator[tuple[int, Sample]]: ...  # with the case's number, in any order


@dataclass(frozen=True)
class Strictness:
    times: int
    bound: float  # a factor on the README's bound for outcomes that the data lacks
    chance: float  # of a difference in frequency; a difference with a smaller one is reported


FIRST = Strictness(times=315, bound=0.8, chance=1e-6)
SECOND = Strictness(times=4095, bound=1.0, chance=1e-10)


@dataclass(frozen=True)
class Comparison:
    number: int  # the index of the case in its list
    case: Case
    times: int
    expected: Views
    seen: Views


def mask_failures(cases: Sequence[Case], subject: Subject) -> list[str]:
    masks = subject.masks([case["state"] for case in cases])
    failures = []
    for number, (case, mask) in enumerate(zip(cases, masks, strict=True)):
        expected, seen = set(case["valid"]), set(np.flatnonzero(mask).tolist())
        if expected != seen:
            failures.append(
                f"{_title(number, case)}: valid only in the data {_names(expected - seen)}, "
                f"only in the game {_names(seen - expected)}"
            )
    return failures


def observation_failures(cases: Sequence[Case], subject: Subject) -> list[str]:
    numbers = [number for number, case in enumerate(cases) if "observation" in case]
    failures: list[str] = []
    if not numbers:
        return failures
    observations = subject.observations([cases[number]["state"] for number in numbers])
    for number, seen in zip(numbers, observations, strict=True):
        expected = np.zeros_like(seen)
        for index, value in cases[number]["observation"]:
            expected[index] = value
        for index in np.flatnonzero(~(abs(expected - seen) <= OBSERVATION_TOLERANCE)):
            failures.append(
                f"{_title(number, cases[number])}: observation {_place(int(index))} "
                f"is {expected[index]:.7g} in the data, {seen[index]:.7g} in the game"
            )
    return failures


def round_trip_failures(cases: Sequence[Case], subject: Subject) -> list[str]:
    """Here the order of lists counts, except of owned programs. The history counts where given."""
    failures = []
    reloaded = subject.reloaded([case["state"] for case in cases])
    for number, (case, seen) in enumerate(zip(cases, reloaded, strict=True)):
        lines = differences(_comparable(case["state"], case), _comparable(seen, case))
        if lines:
            failures.append(f"{_title(number, case)}: loaded and dumped again\n" + _indented(lines))
    return failures


def outcome_failures(
    cases: Sequence[Case], subject: Subject, first: Sequence[Comparison] | None = None
) -> list[str]:
    """`first` holds the comparisons of the first samples, if they were already made."""
    first = comparisons(cases, subject, FIRST.times) if first is None else first
    suspects = [each for each in first if disagreements(each, FIRST)]
    failures: list[str] = []
    for index, suspect in enumerate(suspects):
        [again] = comparisons([suspect.case], subject, SECOND.times)
        if lines := disagreements(again, SECOND):
            title = _title(suspect.number, suspect.case)
            failures.append(f"{title}:\n{_indented(lines)}")
        if len(failures) == ENOUGH:
            failures.append(f"{len(suspects) - index - 1} more suspects were not sampled again")
            break
    return failures


def comparisons(cases: Sequence[Case], subject: Subject, times: int) -> list[Comparison]:
    limit = subject.history_limit
    compared: dict[int, Comparison] = {}
    for number, sample in subject.samples(cases, times):
        case = cases[number]
        expected, seen = expected_views(case, limit), seen_views(case, sample, limit)
        compared[number] = Comparison(number, case, times, expected, seen)
    return [compared[number] for number in range(len(cases))]


def disagreements(comparison: Comparison, strictness: Strictness) -> list[str]:
    lines = []
    for name, expected in comparison.expected.items():
        seen = comparison.seen[name]
        n, times = comparison.case["n"], comparison.times
        bound = max(SHARE, 1 - MISSED_BY_DATA ** (1 / n))
        for key in expected.keys() - seen.keys():
            if expected[key] / n >= SHARE:
                lines.append(
                    f"{name}: {expected[key] / n:.0%} of the data, never in {times} samples: "
                    + _against_nearest(key, seen, "data", "game")
                )
        for key in seen.keys() - expected.keys():
            if seen[key] / times > bound * strictness.bound:
                lines.append(
                    f"{name}: never in the data ({n} times), {seen[key] / times:.1%} of {times} "
                    f"samples: " + _against_nearest(key, expected, "game", "data")
                )
    return lines + _frequency_disagreements(comparison, strictness.chance)


def _frequency_disagreements(comparison: Comparison, chance: float) -> list[str]:
    from scipy.stats import hypergeom  # slow, and each process of the tests imports this module

    n, times = comparison.case["n"], comparison.times
    values, count, both = _counts(comparison)
    drawn = n + times, both, n
    chances = 2 * np.minimum(hypergeom.cdf(count, *drawn), hypergeom.sf(count - 1, *drawn))
    lines = []
    for index in np.flatnonzero((chances < chance) & (count > 0) & (count < both)):
        name, key = values[index]
        others = comparison.expected[name] - Counter({key: count[index]})
        lines.append(
            f"{name}: {count[index]} of {n} in the data, {both[index] - count[index]} of {times} "
            f"samples (by chance {chances[index]:.0e}): "
            + _against_nearest(key, others, "this", "data")
        )
    return lines


def excess(comparisons: Sequence[Comparison]) -> float:
    """By how many standard errors the frequencies differ more than expected by chance.

    This finds a bias too small to show in a single case, such as a biased order of enemies.
    """
    squares = []
    for each in comparisons:
        n, times = each.case["n"], each.times
        values, count, both = _counts(each)
        if values:
            share = n / (n + times)
            variance = both * share * (1 - share) * (n + times - both) / (n + times - 1)
            squares.append(np.mean((count - both * share) ** 2 / variance))  # 1 is expected
    if len(squares) < 2:
        return 0.0
    return float((np.mean(squares) - 1) / (np.std(squares) / np.sqrt(len(squares))))


def _counts(comparison: Comparison) -> tuple[list[tuple[str, str]], np.ndarray, np.ndarray]:
    """The uncertain values (view and key), their counts in the data, and in data and sample."""
    n, times = comparison.case["n"], comparison.times
    values, count, both = [], [], []
    for name, expected in comparison.expected.items():
        seen = comparison.seen[name]
        for key in expected.keys() | seen.keys():
            # A list entry may occur twice in one result; then it counts once.
            ours, theirs = min(seen[key], times), min(expected[key], n)
            if ours + theirs < n + times:
                values.append((name, key))
                count.append(theirs)
                both.append(ours + theirs)
    return values, np.array(count, int), np.array(both, int)


def differences(
    left: Any, right: Any, names: tuple[str, str] = ("data", "game"), path: str = ""
) -> list[str]:
    """The differences between two JSON values, one per line."""
    if left == right:
        return []
    if isinstance(left, dict) and isinstance(right, dict):
        return [
            line
            for key in sorted(left.keys() | right.keys())
            for line in differences(
                left.get(key), right.get(key), names, f"{path}.{key}".lstrip(".")
            )
        ]
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return [
            line
            for index, pair in enumerate(zip(left, right, strict=True))
            for line in differences(*pair, names, f"{path}[{index}]")
        ]
    return [f"{path}: {names[0]} {json.dumps(left)}, {names[1]} {json.dumps(right)}"]


def _against_nearest(key: str, others: Counter[str], name: str, other_name: str) -> str:
    """The value; of a whole result only the differences from the most similar of the others."""
    value = json.loads(key)
    if not isinstance(value, dict):
        return key
    compared = [differences(value, json.loads(other), (name, other_name)) for other in others]
    nearest = min(compared, key=len, default=[key])
    return f"beside the nearest of the {other_name}\n{_indented(nearest)}"


def _comparable(state: State, case: Case) -> State:
    """A state with its sets sorted, and without the history if the case gives only its depth."""
    history = state.get("history", []) if case["state"]["history"] else []
    return {**_sorted(state), "history": [_sorted(snapshot) for snapshot in history]}


def _sorted(state: State) -> State:
    return {**state, "owned": sorted(state["owned"])}


def _title(number: int, case: Case) -> str:
    return f"case {number} (action {case['action']}, {ACTION_NAMES[case['action']]})"


def _names(actions: set[int]) -> str:
    return ", ".join(ACTION_NAMES[action] for action in sorted(actions)) or "nothing"


def _place(index: int) -> str:
    if index < 10:
        return f"{index} (player value {index})"
    if index < 33:
        return f"{index} (owns {ACTION_NAMES[index - 10 + 5]})"
    cell, feature = divmod(index - 33, 42)
    return f"{index} (row {cell // 6}, column {cell % 6}, feature {feature})"


def _indented(lines: list[str]) -> str:
    return "\n".join("    " + line.replace("\n", "\n    ") for line in lines)
