"""Networks over cells in the training program: they learn, and a run is the same on any mesh; one
that turns its boards resumes bit for bit.
"""

from __future__ import annotations

import functools
from pathlib import Path

import jax
import numpy as np
import pytest

from hackmatrix.parallel import mesh
from hackmatrix.train.checkpointer import Checkpointer
from hackmatrix.train.config import Config
from hackmatrix.train.program import Program
from hackmatrix.train.runs.clock import Clock
from hackmatrix.train.runs.directory import Run
from tests.train.settings import config
from tests.train.test_mesh import with_raw_key

_SLOW = (pytest.param(each, marks=pytest.mark.slow) for each in ("conv", "cells"))
NETWORKS = ["centred", *_SLOW]
AT_A_TIME, MOST = 10, 100  # updates


def make_config(network: str) -> Config:
    return config(
        env="tests.networks.grid:GridWalk",
        network=network,
        turn_boards=network == "centred",
        channels=16,
        num_layers=2,
        num_steps=32,
        gamma=0.9,
        ent_coef=0.01,
        lr=3e-3,
        scale_returns=False,
    )


@functools.cache
def make_program(network: str, devices: int) -> Program:
    return Program(make_config(network), mesh.over(jax.devices()[:devices]))


@pytest.mark.parametrize("network", NETWORKS)
def test_the_network_learns_to_find_the_goal(network: str) -> None:
    program = make_program(network, 1)
    state, report = program.run(program.first_state(), 1)
    assert report.metrics["grid/reached"] < 0.7
    for _ in range(MOST // AT_A_TIME):
        state, report = program.run(state, AT_A_TIME)
        if report.metrics["grid/reached"] > 0.95:
            return
    pytest.fail(f"after {MOST} updates it finds the goal in {report.metrics['grid/reached']:.0%}")


@pytest.mark.parametrize("network", NETWORKS)
def test_three_updates_are_the_same_on_any_mesh(network: str) -> None:
    programs = make_program(network, 1), make_program(network, 8)
    states, reports = zip(
        *(program.run(program.first_state(), 3) for program in programs), strict=True
    )
    one, eight = (jax.device_get(with_raw_key(state)) for state in states)
    jax.tree.map(np.testing.assert_array_equal, one.players.boards, eight.players.boards)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5),
        one.learner.params,
        eight.learner.params,
    )
    gradients = [float(report.metrics["train/grad_norm"]) for report in reports]
    np.testing.assert_allclose(gradients[1] / gradients[0], 1, rtol=1e-4)


def test_a_resumed_run_is_bit_for_bit_one_that_was_never_stopped(tmp_path: Path) -> None:
    program = make_program("centred", 1)
    whole, _ = program.run(program.first_state(), 4)
    half, _ = program.run(program.first_state(), 2)
    run = Run(tmp_path, program.config)
    checkpointer = Checkpointer(run, program, Clock(), print)
    checkpointer.save(2, half)
    checkpointer.close()
    again = Checkpointer(run, program, Clock(), print)
    restored = again.restore()
    assert again.schedule.steps == 2 * program.config.batch_size
    resumed, _ = program.run(restored, 2)
    jax.tree.map(
        np.testing.assert_array_equal,
        *map(jax.device_get, (with_raw_key(whole), with_raw_key(resumed))),
    )
