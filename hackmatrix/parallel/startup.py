"""Start and end of several processes that train as one, and what they do when one is lost."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any, NoReturn

import jax

from hackmatrix.errors import UserError
from hackmatrix.parallel.jax_private import coordination_client, is_cloud_tpu_vm

RETRY = 42  # the exit code of a process that is to be started again
_WAIT_SECONDS = 300  # for the other processes to end their work
_SHUTDOWN_SECONDS = 10  # for them to end after a failure, which may be theirs too
_LOST = (
    "a process or the coordinator is lost (JAX's message is above): start all processes "
    "again, with --resume=auto"
)


class StartError(UserError):
    """Processes that cannot start together; one line says why and what to do."""


@dataclass(frozen=True)
class Place:
    """Which one of how many processes this is, and where the first one waits for the others."""

    coordinator: str
    processes: int
    process: int


def place(coordinator: str | None, processes: int | None, process: int | None) -> Place | None:
    """The place that was given; None if none was."""
    if coordinator is None and processes is None and process is None:
        return None
    if coordinator is None or processes is None or process is None:
        raise StartError("give all of --coordinator, --num_processes and --process_id, or none")
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise StartError(f"--coordinator={coordinator} must be HOST:PORT, such as 10.0.0.1:8476")
    if not 0 <= process < processes:
        raise StartError(f"--process_id={process} must be from 0 to {processes - 1}")
    return Place(coordinator, processes, process)


def join(given: Place | None, *, heartbeat_seconds: int, join_seconds: int) -> None:
    """Meets the other processes, if there are others: those of the place that is given, or the
    other hosts of a TPU slice. To be called before anything asks for devices.
    """
    arguments: dict[str, Any] = {}
    if given:
        if given.process == 0:
            _refuse_taken(given)
        arguments = {
            "coordinator_address": given.coordinator,
            "num_processes": given.processes,
            "process_id": given.process,
            "cluster_detection_method": "deactivate",
        }
    elif not _is_on_tpu():
        return
    # Its handler would swallow SIGTERM; processes agree to stop without it.
    jax.config.update("jax_enable_preemption_service", False)
    where = f" at {given.coordinator}" if given else ""
    _where_jax_aborts(
        f"not all processes have met{where} in {join_seconds} s: start all of them together"
    )
    jax.distributed.initialize(
        **arguments,
        heartbeat_timeout_seconds=heartbeat_seconds,
        initialization_timeout=join_seconds,
        shutdown_timeout_seconds=_SHUTDOWN_SECONDS,
    )
    _where_jax_aborts(_LOST)


def wait_for_loss(heartbeat_seconds: int) -> None:
    """After an error among the devices: it may be that another process is lost. Then this one is
    ended here, as soon as JAX knows.
    """
    if jax.process_count() > 1:
        time.sleep(2 * heartbeat_seconds)


def exit_together(code: int) -> NoReturn:
    """Ends this process together with the others; if they do not come, without them."""
    sys.stdout.flush()
    sys.stderr.flush()
    client = coordination_client()
    if client is None:
        sys.exit(code)
    with contextlib.suppress(Exception):
        seconds = _SHUTDOWN_SECONDS if code == 1 else _WAIT_SECONDS
        client.wait_at_barrier("hackmatrix/end", 1000 * seconds)
        jax.distributed.shutdown()
    os._exit(code)  # whatever still waits for a process that is lost would wait for ever


def _is_on_tpu() -> bool:
    wanted = os.environ.get("JAX_PLATFORMS") or "tpu"
    return is_cloud_tpu_vm() and "tpu" in wanted.split(",")


def _refuse_taken(given: Place) -> None:
    """JAX would share the port, and wait."""
    port = int(given.coordinator.rpartition(":")[2])
    with socket.socket(socket.AF_INET6 if socket.has_ipv6 else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
            probe.listen()
        except OSError as error:
            raise StartError(
                f"--coordinator={given.coordinator}: port {port} is taken on this machine; end the "
                "program that holds it, or choose another port for all processes"
            ) from error


def _where_jax_aborts(words: str) -> None:
    """From now on these are said, and the exit code is RETRY. JAX aborts a process when another one
    is lost, and asks nobody before. SIGABRT comes in the thread that aborts, so what handles it may
    do anything; a handler of Python's would wait for the main thread.
    """

    @ctypes.CFUNCTYPE(None, ctypes.c_int)
    def on_abort(number: int) -> None:
        os.write(2, f"launch.train: {words}\n".encode())
        os._exit(RETRY)

    _handlers.append(on_abort)  # C calls it, and does not keep it
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.signal(signal.SIGABRT, ctypes.cast(on_abort, ctypes.c_void_p))


_handlers: list[Any] = []
