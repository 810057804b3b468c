"""What a client of the headless protocol makes of what it is told."""

from __future__ import annotations

import numpy as np

from hackmatrix.envs.headless.view import observation
from hackmatrix.standalone import seeing
from tests.envs.random_play import turns


def test_a_client_of_the_protocol_sees_what_the_agent_sees() -> None:
    played = turns(150)
    shown = (observation(board, board["owned"], ()) for board in played.boards)
    seen = np.stack([seeing.vector(each) for each in shown])
    np.testing.assert_allclose(seen, played.observation, rtol=1e-6)


def test_a_client_of_the_protocol_may_do_what_the_agent_may() -> None:
    for allowed in turns(20).mask:
        valid = [int(action) for action in np.flatnonzero(allowed)]
        np.testing.assert_array_equal(seeing.mask(valid), allowed)
