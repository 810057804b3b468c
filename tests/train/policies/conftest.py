"""A saved run and its policy."""

from __future__ import annotations

import pytest

from hackmatrix.train.policies.policy import Policy, of_run
from hackmatrix.train.runs.directory import Run
from tests.train.policies.saved_policies import saved_run


@pytest.fixture(scope="session")
def found(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return saved_run(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def policy(found: Run) -> Policy:
    return of_run(found)
