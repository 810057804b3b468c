"""Generated boards are distributed as those of the canonical game (golden/stages.json)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden import State, folder, read_stages
from reading import Reading
from stage_counts import count, faults, p_value
from steps import Programs
from subject import BATCH, JaxGame, expect_dumped

from hackmatrix import game
from hackmatrix.game import cells, few, layouts
from hackmatrix.game.randomness import as_key
from tests.compiled_game import Tree, rows

FALSE_ALARM = 1e-6  # the chance at which a right game fails in one family of counts
RARE_VALUES = {"block_count": {"0"}}  # no layout for 11 blocks in 100 draws: 1 board in 50,000
SETUPS = read_stages(folder())
NAMES = [f"{number}: {setup['what']}" for number, setup in enumerate(SETUPS)]


class Generator:
    """Makes boards BATCH at a time."""

    def __init__(self, subject: JaxGame, programs: Programs) -> None:
        self._subject, self._new_games = subject, programs.reset
        self._put_into_stage = jax.jit(put_into_stage)

    def boards(self, setup: dict[str, Any], seed: int) -> list[State]:
        """As many boards of this setup as the data has."""
        made: list[State] = []
        for key in jax.random.split(jax.random.key(seed), -(-setup["n"] // BATCH)):
            states = jax.tree.map(np.asarray, self._batch(setup, key))
            reading = Reading(states)
            expect_dumped(game.scenario, states, reading, 0)
            made += [reading.board(index) for index in range(BATCH)]
        return made[: setup["n"]]

    def _batch(self, setup: dict[str, Any], key: jax.Array) -> Tree:
        if "state" in setup:
            board = rows(self._subject.load([setup["state"]]), np.zeros(BATCH, int))
            states, outcome = self._subject.step(board, np.full(BATCH, setup["action"]))
            assert outcome.stage_completed.all()
            return states
        each = np.asarray(jax.random.key_data(jax.random.split(key, BATCH)))
        states = self._new_games(each)
        if setup["stage"] == 1:
            return states
        return self._put_into_stage(each, states, setup["stage"])


def put_into_stage(keys: jax.Array, states: Tree, stage: jax.Array) -> Tree:
    """New games that start in this stage."""
    none = jax.tree.map(jnp.zeros_like, states.transmissions)
    states = states.replace(transmissions=none, stage=jnp.full_like(states.stage, stage))
    return game.stages.generate(states, as_key(keys))


@pytest.fixture(scope="module")
def generated(subject: JaxGame, programs: Programs) -> list[list[State]]:
    generator = Generator(subject, programs)
    return [generator.boards(setup, seed) for seed, setup in enumerate(SETUPS)]


@pytest.mark.parametrize("number", range(len(SETUPS)), ids=NAMES)
def test_boards_have_the_same_contents_as_often_as_in_the_canonical_game(
    generated: list[list[State]], number: int
) -> None:
    seen = count(generated[number])
    expected = {name: Counter(values) for name, values in SETUPS[number]["counts"].items()}
    assert seen.keys() == expected.keys()
    for family, values in expected.items():
        assert seen[family].keys() - RARE_VALUES.get(family, set()) == values.keys(), family
        assert p_value(seen[family], values) > FALSE_ALARM, (seen[family], values)


@pytest.mark.parametrize("number", range(len(SETUPS)), ids=NAMES)
def test_a_new_board_is_laid_out_by_the_rules(generated: list[list[State]], number: int) -> None:
    for board in generated[number]:
        assert not list(faults(board))


@pytest.mark.parametrize(
    "number", [number for number, setup in enumerate(SETUPS) if "state" in setup]
)
def test_enemies_and_transmissions_persist_when_a_stage_is_completed(
    generated: list[list[State]], number: int
) -> None:
    before = SETUPS[number]["state"]
    old, stage = before["transmissions"], before["stage"] + 1
    for board in generated[number]:
        assert board["stage"] == stage
        assert board["interval"] == 13 - stage
        assert board["enemies"] == before["enemies"]
        assert board["transmissions"][: len(old)] == old
        new = board["transmissions"][len(old) :]
        assert len(new) == stage
        assert all(each[2] == 1 and each[4:] == [0, 0] for each in new)


def test_a_biased_sample_is_distinguished_from_an_unbiased_one() -> None:
    random = np.random.default_rng(0)
    some, others, biased = (
        Counter(dict(zip("abcde", random.multinomial(20000, shares).tolist(), strict=True)))
        for shares in ([0.2] * 5, [0.2] * 5, [0.2, 0.2, 0.2, 0.17, 0.23])
    )
    assert p_value(some, others) > FALSE_ALARM
    assert p_value(some, biased) < FALSE_ALARM


def test_a_layout_does_not_depend_on_the_other_boards_of_the_batch() -> None:
    """Of many boards, those that have no layout yet are gathered."""
    few_at_a_time, many = 30, 600
    assert few.LAYOUTS.among(few_at_a_time) == few_at_a_time
    assert few.LAYOUTS.among(many) < many

    def layouts_of(keys: jax.Array) -> jax.Array:
        key = as_key(keys)
        exits, rooms = (
            jax.tree.map(lambda word: jnp.broadcast_to(word, key.low.shape), cells.constant(each))
            for each in ([35], range(1, 30))
        )
        return layouts.draw(key, exits, rooms)

    keys = jax.random.key_data(jax.random.split(jax.random.key(0), many))
    separate = jax.lax.map(layouts_of, keys.reshape(-1, few_at_a_time, 2))
    np.testing.assert_array_equal(jax.jit(layouts_of)(keys), separate.reshape(-1))


def test_a_layout_is_drawn_up_to_100_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here only layouts with blocks in three given cells are accepted, which takes many draws."""
    required, games = cells.constant([7, 14, 21]), 1 << 13
    monkeypatch.setattr(layouts, "is_accepted", lambda blocks, exit_: ~(required - blocks).any())
    numbers = np.arange(layouts.FEWEST, layouts.MOST + 1)
    accepted = numbers * (numbers - 1) * (numbers - 2) / (32 * 31 * 30)
    chance = np.mean((1 - accepted) ** 100)
    error = np.sqrt(chance * (1 - chance) / games)

    key = as_key(jax.random.split(jax.random.key(0), games))
    exits, rooms = (
        jax.tree.map(lambda word: jnp.broadcast_to(word, (games,)), each)
        for each in (cells.constant([35]), cells.EVERY - cells.CORNERS)
    )
    drawn = np.asarray(jax.jit(layouts.draw)(key, exits, rooms))
    assert np.mean(drawn == 0) == pytest.approx(chance, rel=0, abs=5 * error)
