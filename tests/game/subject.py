"""The game as the subject of `conformance`: one compiled step takes many boards a call."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from types import ModuleType

import jax
import numpy as np
from golden import ENDINGS, REWARD_PARTS, Case, Result, Sample, State
from reading import Reading

from tests.compiled_game import SAMPLED as BATCH
from tests.compiled_game import Program, Tree, rows


class JaxGame:
    """Samples the game in batches of BATCH boards, the same number for each case.

    A batch takes its cases from all over the list, to spread those that complete a stage: they are
    slow.
    """

    def __init__(self, game: ModuleType, history_limit: int, step: Program) -> None:
        self.history_limit = history_limit
        self._scenario = game.scenario
        self._boards: dict[int, tuple[State, Tree]] = {}
        self._masks = jax.jit(jax.vmap(game.valid_actions))
        self._observations = jax.jit(jax.vmap(game.observe))
        self._step = step

    def load(self, states: Sequence[State]) -> Tree:
        return jax.tree.map(lambda *leaves: np.stack(leaves), *map(self._loaded, states))

    def _loaded(self, state: State) -> Tree:
        """Loads a state, once. The cache holds the state, too, so that no other gets its id."""
        if id(state) not in self._boards:
            board = jax.tree.map(np.asarray, self._scenario.load(state))
            self._boards[id(state)] = state, board
        return self._boards[id(state)][1]

    def masks(self, states: Sequence[State]) -> np.ndarray:
        return np.asarray(self._masks(self.load(states)))

    def observations(self, states: Sequence[State]) -> np.ndarray:
        return np.asarray(self._observations(self.load(states)))

    def reloaded(self, states: Sequence[State]) -> list[State]:
        dumped = [self._scenario.dump(self._loaded(state)) for state in states]
        return json.loads(json.dumps(dumped))

    def step(
        self, boards: Tree, actions: np.ndarray, seed: int = 0, number: int = 0
    ) -> tuple[Tree, Tree]:
        """Steps BATCH boards."""
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), number), BATCH)
        words = np.asarray(jax.random.key_data(keys))
        return self._step(words, boards, actions.astype(np.int32))

    def samples(self, cases: Sequence[Case], times: int) -> Iterator[tuple[int, Sample]]:
        boards = self.load([case["state"] for case in cases])
        actions = np.array([case["action"] for case in cases])
        batches = -(-len(cases) // (BATCH // times))
        for batch in range(batches):
            chosen = np.arange(batch, len(cases), batches)
            numbers = np.resize(np.repeat(chosen, times), BATCH)
            after, outcomes = self.step(rows(boards, numbers), actions[numbers], times, batch)
            results = _with_blank_history(after), outcomes
            has_cells = ["outcomes" in cases[number] for number in chosen.tolist()]
            yield from zip(chosen.tolist(), self._samples(results, times, has_cells), strict=True)

    def _samples(
        self, results: tuple[Tree, Tree], times: int, has_cells: list[bool]
    ) -> Iterator[Sample]:
        """The samples of some cases, from results that have `times` of each in a row."""
        values = _as_bytes(results)
        groups = [_distinct(values, times * place, times) for place in range(len(has_cells))]
        distinct = _Results(self._scenario, *rows(results, np.concatenate([g[0] for g in groups])))
        stop = 0
        for (firsts, counts), with_cells in zip(groups, has_cells, strict=True):
            start, stop = stop, stop + len(firsts)
            of_case = distinct.between(start, stop, with_cells)
            yield list(zip(counts.tolist(), of_case, strict=True))


class _Results:
    """Results of steps in the form of the data."""

    def __init__(self, scenario: ModuleType, states: Tree, outcomes: Tree) -> None:
        self._reading = Reading(states)
        expect_dumped(scenario, states, self._reading, 0)
        self._rewards = np.stack([outcomes.parts[name] for name in REWARD_PARTS], axis=1)
        endings = outcomes.stage_completed, outcomes.won, outcomes.died
        self._endings = np.stack(endings, axis=1).astype(int)

    def between(self, start: int, stop: int, with_cells: bool) -> Iterator[Result]:
        """Most cases do not compare the cells; their results leave them out."""
        read = self._reading.board if with_cells else self._reading.without_cells
        for index in range(start, stop):
            endings = zip(ENDINGS, self._endings[index].tolist(), strict=True)
            reward = self._rewards[index].tolist()
            yield {"reward": reward, **dict(endings), "state": read(index)}


def expect_dumped(scenario: ModuleType, states: Tree, reading: Reading, index: int) -> None:
    dumped, read = scenario.dump(rows(states, index)), reading.board(index)
    if read != {name: dumped[name] for name in read}:
        raise AssertionError(f"{read} was read where dump says {dumped}")


def _with_blank_history(states: Tree) -> Tree:
    """Replaces the snapshots by one blank word per board. They are not compared, slow to dump, and
    nine tenths of a board; a blank one counts as unknown.
    """
    blank = np.zeros((len(states.stage), 1, 1), np.uint32)
    return states.replace(history=states.history.replace(snapshots=blank))


def _as_bytes(tree: Tree) -> np.ndarray:
    """One value per board, made of the bytes of all its arrays: equal if and only if they are."""
    leaves = [np.ascontiguousarray(leaf) for leaf in jax.tree.leaves(tree)]
    joined = np.concatenate([leaf.reshape(len(leaf), -1).view(np.uint8) for leaf in leaves], axis=1)
    return joined.view(np.dtype((np.void, joined.shape[1]))).ravel()


def _distinct(values: np.ndarray, start: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Where each distinct value in a part of the values is first, and its count."""
    part = values[start : start + length]
    _, first, counts = np.unique(part, return_index=True, return_counts=True)
    return start + first, counts
