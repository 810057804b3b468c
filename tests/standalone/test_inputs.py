"""The inputs of a policy, as a client of the headless protocol computes them from the answers, and
which it takes.
"""

from __future__ import annotations

import numpy as np
import pytest

from hackmatrix.envs.headless.view import observation
from hackmatrix.standalone import inputs
from hackmatrix.standalone.policy import NumpyPolicy
from tests.envs.random_play import turns


def test_a_client_of_the_protocol_sees_what_the_agent_sees() -> None:
    played = turns(150)
    shown = (observation(board, board["owned"], ()) for board in played.boards)
    seen = np.stack([inputs.vector(each) for each in shown])
    np.testing.assert_allclose(seen, played.observation, rtol=1e-6)


def test_a_client_of_the_protocol_may_do_what_the_agent_may() -> None:
    for allowed in turns(20).mask:
        valid = np.flatnonzero(allowed)
        for each in (list(valid), valid.tolist()):
            np.testing.assert_array_equal(inputs.mask(each), allowed)


@pytest.mark.parametrize(
    ("observation", "mask"),
    [(np.zeros(1545), np.zeros(28)), (np.zeros((3, 1545)), np.ones(28))],
)
def test_a_policy_acts_only_where_each_observation_has_a_mask_that_allows_something(
    observation: np.ndarray, mask: np.ndarray
) -> None:
    with pytest.raises(ValueError, match="needs a mask of its own that allows an action"):
        NumpyPolicy("policies/winner").act(observation, mask)
