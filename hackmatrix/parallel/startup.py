"""Starts and ends a group of processes that train as one, and handles the loss of one."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
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

_WAIT_SECONDS = 300  # for the other processes to finish their work
_SHUTDOWN_SECONDS = 10  # for them to end after a failure, which they may share
# How long one request for the failure of another process waits. Each that is in vain leaks 20 to 35
# KiB, here and in the coordinator's process.
_LISTEN_MS = 24 * 3600 * 1000
_HOST, _AT_END = "hackmatrix/host", "hackmatrix/end"
_FAILURE = "hackmatrix/failure"  # the key that says which process has failed for good
_FLAGS = "--coordinator, --num_processes and --process_id"
_ALONE = (
    "hackmatrix: this pod is one of an indexed Job, but cannot find the others without the package "
    f"kubernetes: pip install 'jax[k8s]', or give {_FLAGS}"
)
_LOST = (
    "a process or the coordinator was lost (see JAX's message above): restart all processes with "
    "--resume=auto"
)


@dataclass(frozen=True)
class Membership:
    """The index of this process, their number, and where the first one waits for the others."""

    coordinator: str
    processes: int
    process: int


def membership(
    coordinator: str | None, processes: int | None, process: int | None
) -> Membership | None:
    """Returns the membership that the flags give; None if they give none."""
    if coordinator is None and processes is None and process is None:
        return None
    if coordinator is None or processes is None or process is None:
        raise UserError(f"give either all of {_FLAGS}, or none")
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise UserError(f"--coordinator={coordinator} must be HOST:PORT, such as 10.0.0.1:8476")
    if not 0 <= process < processes:
        raise UserError(f"--process_id={process} must be from 0 to {processes - 1}")
    return Membership(coordinator, processes, process)


def initialize_arguments(given: Membership | None) -> dict[str, Any] | None:
    """Returns the arguments of jax.distributed.initialize; None if this process trains alone. The
    others are those of a given membership or, as JAX detects them, the hosts of a TPU slice or the
    processes that Slurm, Open MPI or an indexed Job of Kubernetes has started.
    """
    if given:
        return {
            "coordinator_address": given.coordinator,
            "num_processes": given.processes,
            "process_id": given.process,
            "cluster_detection_method": "deactivate",
        }
    if is_cloud_tpu_vm():  # of which only the CPU may be wanted
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
            f"the processes of this job cannot be found: {why}; give {_FLAGS}"
        ) from error
    # JAX takes the GPU with the local number of this process, even where only one is visible.
    return {"local_device_ids": [0]} if local and _sees_one_gpu() else {}


def join(
    given: Membership | None,
    *,
    program: str,
    heartbeat_seconds: int,
    join_seconds: int,
    meanwhile: AbstractContextManager[object] | None = None,
) -> None:
    """Connects to the other processes of this program, if there are any, inside `meanwhile`. Has to
    be called before anything initialises devices. Several processes on a machine with GPUs take one
    each.
    """
    arguments = initialize_arguments(given)
    if arguments is None:
        return
    if given and given.process == 0:
        _refuse_taken(given)
    # Its handler would swallow SIGTERM. Our processes agree to stop without it.
    jax.config.update("jax_enable_preemption_service", False)
    where = f" to {given.coordinator}" if given else ""
    _where_jax_aborts(
        f"{program}: not all processes connected{where} within {join_seconds} s: "
        "start all of them together"
    )
    with meanwhile or contextlib.nullcontext(), _jax_was_used_as_user_error():
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


@contextlib.contextmanager
def _jax_was_used_as_user_error() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if "must be called before" not in str(error):
            raise
        raise UserError(
            "JAX was used before the processes met: do not compute with it while a configuration "
            "file, or a module that it imports, is loaded, as jnp.array(...) outside a function "
            "does"
        ) from error


def code_after(error: Exception, heartbeat_seconds: int) -> int:
    """Returns the exit code after a failure: RETRY if it may be transient, else FAILED. If another
    process is lost, JAX ends this one during the wait here, with RETRY.
    """
    if not is_transient(error):
        return FAILED
    if coordination_client():
        time.sleep(2 * heartbeat_seconds)
    return RETRY


def exit_together(code: int, *, has_failed: bool = False) -> NoReturn:
    """Ends this process together with the others, or without them if they take too long. If it has
    FAILED for good, it ends them too: they would wait for it, and start again for nothing.
    """
    _end.code = code
    _end.set()
    streams.flush()
    client = coordination_client()
    if client is None:
        if code == RETRY:
            os._exit(code)  # without waiting for a thread that may still play a game
        sys.exit(code)
    with contextlib.suppress(Exception):
        if code == FAILED:
            client.key_value_set(_FAILURE, str(process_number()), allow_overwrite=True)
        seconds = _SHUTDOWN_SECONDS if has_failed or code == FAILED else _WAIT_SECONDS
        client.wait_at_barrier(_AT_END, 1000 * seconds)
        jax.distributed.shutdown()
    os._exit(code)  # threads that wait for a lost process would wait for ever


def _fail_with_others(program: str) -> None:
    """Ends this process when another one has failed for good, unless it ends by itself."""
    client = coordination_client()
    failed = None
    while failed is None:
        try:
            failed = client.blocking_key_value_get(_FAILURE, _LISTEN_MS)
        except JaxRuntimeError as error:
            if "DEADLINE_EXCEEDED" not in str(error):  # the connection has ended, without a failure
                return
    if _end.wait(_SHUTDOWN_SECONDS / 2):
        return
    _end.code = FAILED
    with contextlib.suppress(OSError):  # nobody may be listening
        os.write(2, f"{program}: process {failed} has failed; see its output\n".encode())
    with contextlib.suppress(JaxRuntimeError):
        client.wait_at_barrier(_AT_END, 1000 * _SHUTDOWN_SECONDS)
    os._exit(FAILED)  # without shutting down what other threads wait for


def _share_gpus(given: Membership) -> None:
    """Gives each of several processes on one machine one GPU, as JAX does where it detects what has
    started them. Containers on one machine have GPUs of their own, so they count as machines.
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
    """Returns the GPU for a process, given the host of each; None if it is alone on its host."""
    host = hosts[process]
    return hosts[:process].count(host) if hosts.count(host) > 1 else None


def _sees_one_gpu() -> bool:
    seen = os.environ.get("CUDA_VISIBLE_DEVICES") or os.environ.get("ROCR_VISIBLE_DEVICES")
    return bool(seen) and "," not in str(seen)


def _wants_tpu() -> bool:
    wanted = os.environ.get("JAX_PLATFORMS") or "tpu"
    return "tpu" in wanted.split(",")


def _refuse_taken(given: Membership) -> None:
    """Raises UserError if the port is taken, as JAX would share it, and wait."""
    port = int(given.coordinator.rpartition(":")[2])
    has_both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if has_both else socket.AF_INET
    try:
        socket.create_server(("", port), family=family, dualstack_ipv6=has_both).close()
    except OSError:
        raise UserError(
            f"--coordinator={given.coordinator}: port {port} is in use on this machine; stop the "
            "program that uses it, or choose another port for all processes"
        ) from None


def _where_jax_aborts(words: str) -> None:
    """Makes an abort print these words and exit with RETRY, unless this process is already ending.
    JAX aborts a process when another one is lost, without warning. SIGABRT arrives in the thread
    that aborts, so its handler may do anything; one of Python's signal module would wait for the
    main thread.
    """

    @ctypes.CFUNCTYPE(None, ctypes.c_int)
    def on_abort(number: int) -> None:
        if _end.code is None:
            with contextlib.suppress(OSError):
                os.write(2, f"{words}\n".encode())
        os._exit(RETRY if _end.code is None else _end.code)

    _handlers.append(on_abort)  # C calls it, but holds no reference
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.signal(signal.SIGABRT, ctypes.cast(on_abort, ctypes.c_void_p))


class _End(threading.Event):
    """Set when this process ends by itself; `code` is its exit code."""

    code: int | None = None


_end = _End()
_handlers: list[Any] = []
