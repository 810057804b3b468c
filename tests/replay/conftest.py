"""An episode to look at: a game of a saved policy."""

from __future__ import annotations

import pytest

from hackmatrix.replay.record import Episode, Decision, record
from hackmatrix.train import policies
from hackmatrix.train.policies.policy import Policy
from hackmatrix.train.policies.player import Thinking
from tests.train.policies.saved_policies import saved_run


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return policies.of_run(saved_run(tmp_path_factory.mktemp("runs")))


@pytest.fixture(scope="session")
def episode(policy: Policy) -> Episode:
    mind = Thinking(policy, seed=1, number=5, greedy=False)
    return record("a <game>", lambda *seen: Decision(*mind.decide(*seen)), mind.luck, 60)
