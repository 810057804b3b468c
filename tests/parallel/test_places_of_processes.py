"""The index of a process and the number of processes, from the command line."""

from __future__ import annotations

from typing import Any

import pytest

from hackmatrix.errors import UserError
from hackmatrix.parallel.startup import Membership, membership

COORDINATOR = "10.0.0.1:8476"


def test_a_process_has_the_membership_that_it_is_given_or_none() -> None:
    assert membership(COORDINATOR, 2, 1) == Membership(COORDINATOR, 2, 1)
    assert membership(None, None, None) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            (COORDINATOR, None, None),
            "give either all of --coordinator, --num_processes and --process_id",
        ),
        ((None, 2, 0), "give either all of --coordinator, --num_processes and --process_id"),
        (("10.0.0.1", 2, 0), "--coordinator=10.0.0.1 must be HOST:PORT"),
        (("10.0.0.1:0", 2, 0), "--coordinator=10.0.0.1:0 must be HOST:PORT"),
        (("10.0.0.1:65536", 2, 0), "--coordinator=10.0.0.1:65536 must be HOST:PORT"),
        ((COORDINATOR, 2, 2), "--process_id=2 must be from 0 to 1"),
        ((COORDINATOR, 2, -1), "--process_id=-1 must be from 0 to 1"),
    ],
)
def test_an_invalid_membership_is_refused(given: Any, message: str) -> None:
    with pytest.raises(UserError) as refused:
        membership(*given)
    assert str(refused.value).startswith(message)
