"""One of two processes of four devices each that restore and save; run by its test.

    python saving_process.py PORT PROCESS DIRECTORY

Prints its results as JSON.
"""

import json
import os
import resource
import sys
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

PORT, PROCESS, DIRECTORY = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
from tests.compiling import xla_flags  # noqa: E402

os.environ["XLA_FLAGS"] = xla_flags(devices=4)

import jax  # noqa: E402

jax.distributed.initialize(f"127.0.0.1:{PORT}", 2, PROCESS, cluster_detection_method="deactivate")

from orbax.checkpoint import CheckpointManager  # noqa: E402

from hackmatrix.parallel.agreement import broadcast, gather  # noqa: E402
from hackmatrix.train.checkpoints.checkpoints import Checkpoints, Layout  # noqa: E402
from hackmatrix.train.runs.places import Disk  # noqa: E402
from hackmatrix.train.runs.protocol import Unavailable  # noqa: E402
from tests.train.checkpoints.small_state import like, local_bits, on, state  # noqa: E402

SMALL_FILES = 1 << 16


def random_bits() -> jax.Array:
    """256 kB for each device, which cannot be compressed."""
    return jax.random.bits(jax.random.key(0), (8, 1 << 16))


def away(*_: object, **__: object) -> bool:
    raise Unavailable("the bucket is away")


def forbidden(_: Disk) -> list[str]:
    raise PermissionError(13, "Permission denied")


def main() -> None:
    mesh = on(8)
    messages: list[str] = []
    results: dict = {
        "gathered": gather({"process": PROCESS}),
        "broadcast": broadcast(PROCESS),
        "messages": messages,
    }

    reader = Checkpoints(DIRECTORY / "from_one", keep=3, say=messages.append)
    restored = reader.restore_newest(Layout(like(mesh)))
    assert restored is not None
    results["restored"] = restored.step
    results["equal"] = local_bits(restored.state) == local_bits(state(mesh, seed=1))

    writer = Checkpoints(DIRECTORY / "from_two", keep=2, say=messages.append)
    writer.save(1, state(mesh, seed=1), {})
    writer.wait()
    large = jax.jit(random_bits, out_shardings=like(mesh).players["over"].sharding)()
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    if PROCESS == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_FILES, unlimited[1]))
    writer.save(2, {"leaf": large}, {})
    writer.wait()
    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    for step in (3, 4):
        writer.save(step, state(mesh, seed=step), {"update": step})
        writer.wait()
        if step == 3:
            with mock.patch.object(Disk, "exists", away) if PROCESS else nullcontext():
                writer.save(5, state(mesh, seed=5), {})
    with mock.patch.object(CheckpointManager, "save", away):
        try:
            writer.save(6, state(mesh, seed=6), {})
        except Unavailable as error:
            results["error"] = str(error)
    with mock.patch.object(Disk, "names", forbidden) if PROCESS == 0 else nullcontext():
        try:
            writer.best()
        except OSError as error:
            results["unreadable"] = [isinstance(error, Unavailable), str(error)]
    results["steps"] = writer.steps()
    print(json.dumps(results))
    jax.distributed.shutdown()


main()
