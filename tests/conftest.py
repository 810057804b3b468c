"""Settings that JAX reads once, when it is first imported; which tests share a process."""

import os
from pathlib import Path

import pytest

SIMULATED_DEVICES = "--xla_force_host_platform_device_count"

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # compile for TPU without asking a cloud
if SIMULATED_DEVICES not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {SIMULATED_DEVICES}=8".strip()

os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".cache/jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")

TESTS = Path(__file__).parent
SHARING = "game", "envs", "replay", "ppo"  # folders whose files look at the same compiled programs


def pytest_xdist_auto_num_workers() -> int:
    """More would compile the same programs, all at once."""
    return min(2, os.cpu_count() or 1)


@pytest.hookimpl(tryfirst=True)  # xdist reads the marks in its own
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder, *file = item.path.relative_to(TESTS).parts
        group = folder if folder in SHARING else "/".join((folder, *file))
        item.add_marker(pytest.mark.xdist_group(group))
