"""Start and end of several processes that train as one, and what they do when one is lost."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NoReturn

import jax
from jax.errors import JaxRuntimeError

from hackmatrix import streams
from hackmatrix.errors import UserError
from hackmatrix.exit_codes import FAILED, RETRY
from hackmatrix.machine import process_space
from hackmatrix.parallel.failures import is_transient
from hackmatrix.parallel.jax_private import (
    coordination_client,
    find_cluster,
    is_cloud_tpu_vm,
    lacks_kubernetes,
    process_number,
)

_WAIT_SECONDS = 300  # for the other processes to end their work
_SHUTDOWN_SECONDS = 10  # for them to end after a failure, which may be theirs too
# To others, at a time. What is asked for in vain stays in memory, 20 to 35 KiB each time, here and
# in the coordinator's process.
_LISTEN_MS = 24 * 3600 * 1000
_HOST, _AT_END = "hackmatrix/host", "hackmatrix/end"
_FAILURE = "hackmatrix/failure"  # the key of the process that has failed for good
_FLAGS = "--coordinator, --num_processes and --process_id"
_ALONE = (
    "hackmatrix: this is one of an indexed Job, but the package kubernetes is not installed, so it "
    f"meets no others: pip install 'jax[k8s]', or name them with {_FLAGS}"
)
_LOST = (
    "a process or the coordinator is lost (JAX's message is above): start all processes "
    "again, with --resume=auto"
)


@dataclass(frozen=True)
class Membership:
    """Which one of how many processes this is, and where the first one waits for the others."""

    coordinator: str
    processes: int
    process: int


def membership(
    coordinator: str | None, processes: int | None, process: int | None
) -> Membership | None:
    """The membership that was given; None if none was."""
    if coordinator is None and processes is None and process is None:
        return None
    if coordinator is None or processes is None or process is None:
        raise UserError(f"give all of {_FLAGS}, or none")
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise UserError(f"--coordinator={coordinator} must be HOST:PORT, such as 10.0.0.1:8476")
    if not 0 <= process < processes:
        raise UserError(f"--process_id={process} must be from 0 to {processes - 1}")
    return Membership(coordinator, processes, process)


def meeting(given: Membership | None) -> dict[str, Any] | None:
    """What `join` tells JAX of the processes that it meets; None if this one trains alone. They are
    those of a given membership or, as JAX recognises them, the hosts of a TPU slice and the
    processes that Slurm, Open MPI or an indexed Job of Kubernetes has started.
    """
    if given:
        return {
            "coordinator_address": given.coordinator,
            "num_processes": given.processes,
            "process_id": given.process,
            "cluster_detection_method": "deactivate",
        }
    if is_cloud_tpu_vm():  # whose CPU may be wanted
        return {} if _wants_tpu() else None
    try:
        cluster = find_cluster()
        if cluster is None and lacks_kubernetes():
            with contextlib.suppress(OSError):  # nobody may be listening
                os.write(2, f"{_ALONE}\n".encode())
        if cluster is None or cluster.get_process_count() == 1:
            return None
        local = cluster.get_local_process_id()
    except Exception as error:
        why = " ".join(str(error).split())
        raise UserError(
            f"the processes of this job cannot be found: {why}; name them with {_FLAGS}"
        ) from error
    # JAX takes the GPU of this number, but does not look whether there is only one to be seen.
    return {"local_device_ids": [0]} if local and _sees_one_gpu() else {}


def join(
    given: Membership | None,
    *,
    program: str,
    heartbeat_seconds: int,
    join_seconds: int,
    meanwhile: AbstractContextManager[object] | None = None,
) -> None:
    """Meets the other processes of this program, if there are others; `meanwhile` is entered then.
    To be called before anything asks for devices. Several processes on a machine with GPUs take one
    each.
    """
    arguments = meeting(given)
    if arguments is None:
        return
    if given and given.process == 0:
        _refuse_taken(given)
    # Its handler would swallow SIGTERM; processes agree to stop without it.
    jax.config.update("jax_enable_preemption_service", False)
    where = f" at {given.coordinator}" if given else ""
    _where_jax_aborts(
        f"{program}: not all processes have met{where} in {join_seconds} s: "
        "start all of them together"
    )
    with meanwhile or contextlib.nullcontext():
        jax.distributed.initialize(
            **arguments,
            heartbeat_timeout_seconds=heartbeat_seconds,
            initialization_timeout=join_seconds,
            shutdown_timeout_seconds=_SHUTDOWN_SECONDS,
        )
    _where_jax_aborts(f"{program}: {_LOST}")
    if given:
        _share_gpus(given)
    threading.Thread(
        target=_fail_with_others, args=(program,), name="failure of others", daemon=True
    ).start()


def code_after(error: Exception, heartbeat_seconds: int) -> int:
    """The exit code after a failure: RETRY where it may pass. Where another process is lost, this
    one is ended here with that code, as soon as JAX knows.
    """
    if not is_transient(error):
        return FAILED
    if coordination_client():
        time.sleep(2 * heartbeat_seconds)
    return RETRY


def exit_together(code: int, *, has_failed: bool = False) -> NoReturn:
    """Ends this process together with the others; if they do not come, without them. One that has
    failed for good ends them too: they would wait for it, and start again for nothing.
    """
    _end.code = code
    _end.set()
    streams.flush()
    client = coordination_client()
    if client is None:
        if code == RETRY:
            os._exit(code)  # a thread may still play a game, for which nobody waits
        sys.exit(code)
    with contextlib.suppress(Exception):
        if code == FAILED:
            client.key_value_set(_FAILURE, str(process_number()), allow_overwrite=True)
        seconds = _SHUTDOWN_SECONDS if has_failed or code == FAILED else _WAIT_SECONDS
        client.wait_at_barrier(_AT_END, 1000 * seconds)
        jax.distributed.shutdown()
    os._exit(code)  # whatever still waits for a process that is lost would wait for ever


def _fail_with_others(program: str) -> None:
    """Ends this process when another one has failed for good, if it has not failed itself."""
    client = coordination_client()
    failed = None
    while failed is None:
        try:
            failed = client.blocking_key_value_get(_FAILURE, _LISTEN_MS)
        except JaxRuntimeError as error:
            if "DEADLINE_EXCEEDED" not in str(error):  # the connection has ended, and none failed
                return
    if _end.wait(_SHUTDOWN_SECONDS / 2):
        return
    _end.code = FAILED
    with contextlib.suppress(OSError):  # nobody may be listening
        os.write(2, f"{program}: process {failed} has failed, and says why\n".encode())
    with contextlib.suppress(JaxRuntimeError):
        client.wait_at_barrier(_AT_END, 1000 * _SHUTDOWN_SECONDS)
    os._exit(FAILED)  # no shutdown of what other threads wait for


def _share_gpus(given: Membership) -> None:
    """Of several processes on one machine each takes one GPU, as JAX has it where it recognises
    what has started them. Containers of one machine have GPUs of their own.
    """
    client = coordination_client()
    client.key_value_set(f"{_HOST}/{given.process}", f"{socket.gethostname()} {process_space()}")
    hosts = [
        client.blocking_key_value_get(f"{_HOST}/{process}", 1000 * _WAIT_SECONDS)
        for process in range(given.processes)
    ]
    here = own_gpu(hosts, given.process)
    if here is not None and not (_sees_one_gpu() or os.environ.get("JAX_LOCAL_DEVICE_IDS")):
        for maker in ("cuda", "rocm"):
            jax.config.update(f"jax_{maker}_visible_devices", str(here))


def own_gpu(hosts: Sequence[str], process: int) -> int | None:
    """The number of the GPU for the process, one of those on these hosts; None for all of them."""
    host = hosts[process]
    return hosts[:process].count(host) if hosts.count(host) > 1 else None


def _sees_one_gpu() -> bool:
    seen = os.environ.get("CUDA_VISIBLE_DEVICES") or os.environ.get("ROCR_VISIBLE_DEVICES")
    return bool(seen) and "," not in str(seen)


def _wants_tpu() -> bool:
    wanted = os.environ.get("JAX_PLATFORMS") or "tpu"
    return "tpu" in wanted.split(",")


def _refuse_taken(given: Membership) -> None:
    """JAX would share the port, and wait."""
    port = int(given.coordinator.rpartition(":")[2])
    if _is_taken(port):
        raise UserError(
            f"--coordinator={given.coordinator}: port {port} is taken on this machine; end the "
            "program that holds it, or choose another port for all processes"
        )


def _is_taken(port: int) -> bool:
    """Whether another program on this machine holds the port."""
    with _listener() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
            probe.listen()
        except OSError:
            return True
    return False


def _listener() -> socket.socket:
    try:
        return socket.socket(socket.AF_INET6)
    except OSError:  # a kernel without it
        return socket.socket(socket.AF_INET)


def _where_jax_aborts(words: str) -> None:
    """From now on these are said, and the exit code is RETRY, unless this process ends by itself
    already. JAX aborts a process when another one is lost, and asks nobody before. SIGABRT comes in
    the thread that aborts, so what handles it may do anything; a handler of Python's would wait for
    the main thread.
    """

    @ctypes.CFUNCTYPE(None, ctypes.c_int)
    def on_abort(number: int) -> None:
        if _end.code is None:
            with contextlib.suppress(OSError):
                os.write(2, f"{words}\n".encode())
        os._exit(RETRY if _end.code is None else _end.code)

    _handlers.append(on_abort)  # C calls it, and does not keep it
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.signal(signal.SIGABRT, ctypes.cast(on_abort, ctypes.c_void_p))


class _End(threading.Event):
    """That this process has come to its end by itself, and with which exit code."""

    code: int | None = None


_end = _End()
_handlers: list[Any] = []
