"""The environment benchmark: that it measures what it claims to, not how fast that is."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix import game
from hackmatrix.bench import compiled, environment, network, schedules, timing
from hackmatrix.bench.report import Report, Row
from hackmatrix.envs.hackmatrix_env import HackMatrix
from hackmatrix.game import observation

ROOT = Path(__file__).parents[2]
BOARDS = 64

HLO = """HloModule small, is_scheduled=true

%inside (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %negate = f32[8]{0} negate(%p)
}

%body (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %p = (s32[]{:T(128)}, /*index=1*/f32[8]{0:T(1024)S(3)}) parameter(0)
  %fusion.1 = f32[8]{0} fusion(%p), kind=kLoop, calls=%inside
  ROOT %all-reduce.1 = f32[8]{0} all-reduce(%fusion.1), to_apply=%inside
}

%condition (p: (s32[], f32[8])) -> pred[] {
  ROOT %compare = pred[] compare(%p, %p), direction=LT
}

%called (p: f32[8]) -> f32[8] {
  ROOT %fusion.2 = f32[8]{0} fusion(%p), kind=kLoop, calls=%inside
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %call.1 = f32[8]{0} call(%x), to_apply=%called
  %call.2 = f32[8]{0} call(%call.1), to_apply=%called
  ROOT %while.1 = (s32[], f32[8]{0}) while(%call.2), condition=%condition, body=%body
}
"""


@pytest.fixture(scope="module")
def played() -> list[environment.Play]:
    """New games, and what each of their first four steps returns."""
    plays = [environment.new_play(BOARDS, environment.at_observation)]
    for _ in range(4):
        before = jax.tree.map(jnp.copy, plays[-1])  # it is donated
        plays.append(environment.play(before, environment.at_observation, 1))
    return plays


def test_every_step_writes_out_the_mask_and_the_observation(played: list[environment.Play]) -> None:
    for after in played[1:]:
        np.testing.assert_array_equal(after.mask, game.valid_actions(after.states))
        np.testing.assert_array_equal(after.written, jax.jit(game.observe)(after.states))
        assert after.written.shape == (BOARDS, 1545)
        assert after.written.dtype == jnp.float32
        assert after.reward.shape == after.done.shape == (BOARDS,)


def test_every_step_advances_the_games(played: list[environment.Play]) -> None:
    assert any(np.asarray(each.reward).any() for each in played[1:])
    assert [int(each.number) for each in played] == [0, 1, 2, 3, 4]
    for before, after in itertools.pairwise(played):
        assert (np.asarray(before.written) != np.asarray(after.written)).any()


def test_no_game_ends_by_an_invalid_action(played: list[environment.Play]) -> None:
    """Few games end so early: a siphon's enemies need time, and so does a stage."""
    turns = np.asarray(played[-1].states.turn)
    assert turns.max() == 4
    assert (turns == 4).mean() > 0.8


def test_a_measured_rate_is_positive_and_has_all_its_samples() -> None:
    work = environment.own_loop_work(BOARDS, steps=1)
    (rate,) = timing.in_turns(work, seconds=0)
    assert len(rate.samples) == timing.REPEATS
    assert 0 < rate.low <= rate.median <= rate.high
    after = work.value
    np.testing.assert_array_equal(after.observation, jax.jit(game.observe)(after.states))
    assert after.states.turn.max() == timing.REPEATS + 1  # one call warms up


def test_the_crowd_is_the_longest_list_so_far(played: list[environment.Play]) -> None:
    states = played[-1].states
    lengths = [
        np.bitwise_count(np.asarray(each.present)).max()
        for each in (states.enemies, states.transmissions)
    ]
    seen = HackMatrix().encode(states)
    longest = environment.at_crowd(states, seen, jnp.array([0, 33]))
    assert longest.tolist() == [lengths[0], 33]
    assert environment.at_crowd(states, seen, jnp.array([33, 0])).tolist() == [33, lengths[1]]
    assert environment.Crowd(1, enemies=32, transmissions=3).capacity_reached
    assert not environment.Crowd(1, enemies=31, transmissions=3).capacity_reached


def test_words_are_the_compact_observation(played: list[environment.Play]) -> None:
    states = played[0].states
    words = environment.at_words(states, HackMatrix().encode(states), jnp.zeros(2))
    assert words.shape == (BOARDS, observation.WORDS)
    np.testing.assert_array_equal(observation.decode(words), game.observe(states))


def test_the_bytes_of_a_board_are_those_of_its_arrays(played: list[environment.Play]) -> None:
    total = sum(leaf.nbytes for leaf in jax.tree.leaves(played[0].states))
    assert environment.bytes_per_board() * BOARDS == total


def test_valid_actions_are_chosen_equally_often_and_no_others() -> None:
    valid = 1 << 0 | 1 << 2 | 1 << 7 | 1 << 27
    keys = environment.step_keys(jnp.uint32(1), 10_000)
    chosen = environment.choose(keys, jnp.full(10_000, valid, jnp.uint32))
    actions, counts = np.unique(chosen, return_counts=True)
    assert actions.tolist() == [0, 2, 7, 27]
    assert (abs(counts / counts.sum() - 1 / 4) < 0.02).all()


def test_rates_are_measured_in_turns_after_a_warm_up_call_of_each() -> None:
    calls: list[str] = []

    def run(value: str) -> str:
        calls.append(value)
        return value + "+"

    works = timing.Work(run, "a", steps=10), timing.Work(run, "b", steps=1)
    rates = timing.in_turns(*works, seconds=0)
    assert calls == ["a", "b"] + [f"{name}{'+' * turn}" for turn in (1, 2, 3) for name in "ab"]
    assert [len(rate.samples) for rate in rates] == [timing.REPEATS] * 2


def test_a_rate_is_the_median_of_its_samples_and_is_compared_turn_by_turn() -> None:
    rate, other = timing.Rate((1.0, 2e9, 4.0)), timing.Rate((1.0, 1e9, 1.0))
    assert (rate.low, rate.median, rate.high) == (1, 4, 2e9)
    assert rate.over(other) == 2
    assert rate.quartiles_over(other) == (1.5, 3)


def test_the_network_learns_from_every_step() -> None:
    before = network.new_learning(network.reference(), boards=8, steps=4)
    params = jax.tree.map(np.asarray, before.params)
    after = network.update(network.reference(), 4, 3, before)
    assert [output.shape for output in after.outputs] == [(4, 8, 28), (4, 8)]
    assert int(after.adam[0].count) == 4 * 3
    for old, new in zip(jax.tree.leaves(params), jax.tree.leaves(after.params), strict=True):
        assert (old != np.asarray(new)).any()


def test_instructions_are_counted_once_per_call_and_not_inside_fusions() -> None:
    counts = compiled.instructions(HLO)
    assert counts["fusion"] == 3  # one in the loop, one in each of two calls
    assert counts["while"] == 1
    assert counts["all-reduce"] == 1
    assert counts["compare"] == 1
    assert counts["negate"] == 0  # inside a fusion


def test_facts_of_a_program_include_its_loops_and_collectives() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("x",))
    sharded, replicated = jax.sharding.PartitionSpec("x"), jax.sharding.PartitionSpec()

    def body(number: jax.Array, total: jax.Array) -> jax.Array:
        return total + jnp.sin(total + number)

    def summed(values: jax.Array) -> jax.Array:
        return jax.lax.psum(jax.lax.fori_loop(0, values[0].astype(int), body, values), "x")

    program = jax.shard_map(summed, mesh=mesh, in_specs=sharded, out_specs=replicated)
    lowered = jax.jit(program).lower(jnp.zeros(64))
    executable, seconds = compiled.compile_afresh(lowered)
    facts = compiled.facts(executable)
    assert seconds > 0
    assert facts.loops == 1
    assert facts.fusions >= 1
    assert facts.collectives == ("all-reduce",)
    assert jax.config.values["jax_enable_compilation_cache"]


def test_flags_that_make_a_compiler_dump_its_code_are_removed_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LIBTPU_INIT_ARGS", "--given")
    with schedules.dumped("tpu") as dumps:
        assert os.environ["LIBTPU_INIT_ARGS"].startswith(f"--given --xla_jf_dump_to={dumps.folder}")
    assert os.environ["LIBTPU_INIT_ARGS"] == "--given"


def test_a_row_is_printed_as_a_line_of_a_table_or_as_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fast, slow = timing.Rate((1e6, 2e6, 3e6)), timing.Rate((1e4, 1e4, 1e4))
    row = Row(256, 1.5, fast, fast, fast, own_loop=slow, network=slow, bytes_per_board=1223)
    Report(as_json=False).machine(used=1)
    Report(as_json=False).heading()
    Report(as_json=False).row(row)
    Report(as_json=True).row(row)
    machine, _, table, line = capsys.readouterr().out.splitlines()
    assert machine.startswith("On 1 x cpu (7 more are not used), jax ")
    assert table.split()[:4] == ["256", "1.5", "2,000,000", "(1,000,000"]
    assert json.loads(line)["of_network"] == 200
    assert json.loads(line)["own_loop_of_network"] == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["trains"],
        ["env", "more"],
        ["env", "--bords=3"],
        ["env", "--boards=x"],
        ["env", "--boards=3000000000"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_measured_is_reported_in_one_line(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "launch.bench", *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
