"""Which one of how many processes this is, as the command line says."""

from __future__ import annotations

from typing import Any

import pytest

from hackmatrix.errors import UserError
from hackmatrix.parallel.startup import Membership, membership

HERE = "10.0.0.1:8476"


def test_a_process_has_the_membership_that_it_is_given_or_none() -> None:
    assert membership(HERE, 2, 1) == Membership(HERE, 2, 1)
    assert membership(None, None, None) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((HERE, None, None), "give either all of --coordinator, --num_processes and --process_id"),
        ((None, 2, 0), "give either all of --coordinator, --num_processes and --process_id"),
        (("10.0.0.1", 2, 0), "--coordinator=10.0.0.1 must be HOST:PORT"),
        (("10.0.0.1:0", 2, 0), "--coordinator=10.0.0.1:0 must be HOST:PORT"),
        (("10.0.0.1:65536", 2, 0), "--coordinator=10.0.0.1:65536 must be HOST:PORT"),
        ((HERE, 2, 2), "--process_id=2 must be from 0 to 1"),
        ((HERE, 2, -1), "--process_id=-1 must be from 0 to 1"),
    ],
)
def test_a_membership_that_cannot_be_is_refused_in_a_line(given: Any, said: str) -> None:
    with pytest.raises(UserError) as refused:
        membership(*given)
    assert str(refused.value).startswith(said)
