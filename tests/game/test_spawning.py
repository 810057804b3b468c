"""Where transmissions appear (section 10 of the rules)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix.game import cells, slots, spawning, stages
from hackmatrix.game.randomness import Key, Purpose
from hackmatrix.game.spawning import NOWHERE, Spawning, choose_cell, free_and_fire

TIMES = 1 << 16
PLAYER = 0  # in a corner, from which cells 1 and 6 can be shot at, 34 and 35 cannot


def board(free: list[int]) -> Spawning:
    """TIMES boards with the player in a corner, and blocks in all other cells but these."""
    none = jnp.zeros(TIMES, jnp.uint32)
    enemies = stages.no_enemies(none)
    blocks = cells.constant(set(range(cells.CELLS)) - {PLAYER, *free})
    return Spawning(
        key=Key(none, none),
        player=jnp.full(TIMES, PLAYER),
        enemies=slots.Places(enemies.present, enemies.row, enemies.column),
        blocks=cells.CellSet(none + blocks.low, none + blocks.high),
        transmissions=stages.no_transmissions(none),
        numbers={},
    )


def draw(work: Spawning, *words: jax.Array) -> jax.Array:
    free, fire = free_and_fire(work)
    return choose_cell(free - fire, free, *words)


def chance_of_a_hit(number: int) -> float:
    """The probability that at least one of 100 draws hits one of this many cells."""
    return 1 - (1 - number / 36) ** 100


def chances(preferred: list[int], others: list[int]) -> dict[int, float]:
    """The probability of each cell: up to 100 draws for a preferred one, then 100 for any."""
    either = [*preferred, *others]
    at_first, later = chance_of_a_hit(len(preferred)), chance_of_a_hit(len(either))
    found = {cell: (1 - at_first) * later / len(either) for cell in either}
    for cell in preferred:
        found[cell] += at_first / len(preferred)
    return {**found, NOWHERE: (1 - at_first) * (1 - later)}


@pytest.mark.parametrize(
    ("preferred", "others"), [([35], [1, 6]), ([34, 35], [1]), ([], [1]), ([], [])]
)
def test_a_cell_is_drawn_as_if_by_up_to_100_draws_of_36_cells_and_100_more(
    preferred: list[int], others: list[int]
) -> None:
    words = jax.random.bits(jax.random.key(3), (3, TIMES))
    drawn = np.asarray(jax.jit(draw)(board(preferred + others), *words))
    expected = chances(preferred, others)
    assert set(drawn.tolist()) <= expected.keys()
    for cell, chance in expected.items():
        error = np.sqrt(chance * (1 - chance) / TIMES)
        assert np.mean(drawn == cell) == pytest.approx(chance, rel=0, abs=5 * error), cell


def test_the_line_of_fire_is_computed_once_for_all_transmissions_of_a_board() -> None:
    work = board([1, 35]).replace(numbers={Purpose.STAGE_SPAWN: jnp.full(TIMES, 2)})
    program = jax.make_jaxpr(spawning._spawn_all)(work)
    (loop,) = [each for each in program.eqns if each.primitive.name == "while"]
    assert "choose_cell" in str(loop)
    assert "line_of_fire" in str(program)
    assert "line_of_fire" not in str(loop)
