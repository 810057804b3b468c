"""The inputs of a policy, as a client of the headless protocol computes them from answers."""

from __future__ import annotations

import numpy as np
import pytest

from hackmatrix.envs.headless.states import read_state
from hackmatrix.envs.headless.view import observation
from hackmatrix.standalone import inputs
from tests.envs.random_play import turns


def test_a_client_of_the_protocol_sees_what_the_agent_sees() -> None:
    played = turns(150)
    shown = (observation(board, board["owned"], ()) for board in played.boards)
    seen = np.stack([inputs.vector(each) for each in shown])
    np.testing.assert_allclose(seen, played.observation, rtol=1e-6)


def test_numbers_beyond_their_range_are_cut_off_as_for_the_agent() -> None:
    player = {"row": 0, "col": 0, "credits": 80, "energy": 70, "attackDamage": 2}
    transmission = {"row": 0, "col": 1, "turnsRemaining": 6, "enemyType": "virus"}
    board, owned = read_state(
        {"player": player, "scheduledTasksDisabled": True, "transmissions": [transmission]}
    )
    seen = inputs.vector(observation(board, owned, ()))
    credits, energy, *_, attack, show, calm = seen[3:10]
    assert (credits, energy, attack, show, calm) == (1, 1, 0.5, 0, 1)
    waits = seen[33:].reshape(36, 42)[:, 36]
    assert (waits[1], waits.sum()) == (1, 1)


def test_a_client_of_the_protocol_may_do_what_the_agent_may() -> None:
    for allowed in turns(20).mask:
        valid = np.flatnonzero(allowed)
        for each in (list(valid), valid.tolist()):
            np.testing.assert_array_equal(inputs.mask(each), allowed)


@pytest.mark.parametrize("number", [4, 28, -1])
def test_an_unknown_program_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match=rf"numbers from 5 to 27, not \[6, {number}\]"):
        inputs.vector({"ownedPrograms": [6, number], "cells": []})
