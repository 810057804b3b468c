"""Runs work in processes of its own, as JAX fixes the devices of a process when it starts."""

from __future__ import annotations

import functools
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from typing import Any, TypeVar

import jax

from hackmatrix.errors import UserError
from hackmatrix.parallel import startup
from hackmatrix.parallel.startup import Membership

T = TypeVar("T")
_SIMULATED_DEVICES = "--xla_force_host_platform_device_count"
_JOIN_SECONDS = 120  # all start at once, on a machine that may be busy


def run_in_group(processes: int, devices_each: int, work: Callable[..., T], *arguments: Any) -> T:
    """Runs the same work in several processes on all of their devices, and returns the result of
    the first. A single process joins the other hosts where this machine is one of a TPU slice.

    Each process simulates `devices_each` devices on a CPU. Of several on GPUs, each takes one GPU.
    """
    coordinator = f"127.0.0.1:{_free_port()}"
    members = [Membership(coordinator, processes, each) for each in range(processes)]
    with environment(XLA_FLAGS=_with_devices(devices_each)):
        return run_all(
            [
                functools.partial(_join_and_run, each if processes > 1 else None, work, *arguments)
                for each in members
            ]
        )[0]


def run_on_cpu(work: Callable[..., T], *arguments: Any) -> T:
    """Runs work in a process that leaves accelerators alone, and returns its result."""
    with environment(JAX_PLATFORMS="cpu"):
        return run_all([functools.partial(work, *arguments)])[0]


def run_all(works: Sequence[Callable[[], T]]) -> list[T]:
    """Runs each work in a process of its own, and returns their results. As soon as one fails the
    others, which may wait for it, are killed. All end when this process is interrupted or killed.
    """
    spawn, others = get_context("spawn"), active_children()
    with ProcessPoolExecutor(len(works), spawn, initializer=_end_with_parent) as pool:
        try:
            with _interrupts_held():
                submitted = [pool.submit(work) for work in works]
            for each in wait(submitted, return_when=FIRST_EXCEPTION).done:
                each.result()  # raises its error, if it failed
            return [each.result() for each in submitted]
        except BaseException as error:
            for child in active_children():
                if child not in others:
                    child.kill()
            if isinstance(error, BrokenProcessPool):
                why = "a benchmark process was killed, perhaps for lack of memory"
                raise UserError(why) from error
            raise


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Blocks SIGINT inside, and so in processes started there: this process ends them itself."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """Ends this process with its parent: alone it would wait for ever, and hold its device."""
    parent = parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _join_and_run(given: Membership | None, work: Callable[..., T], *arguments: Any) -> T:
    if given:
        os.environ["JAX_LOCAL_DEVICE_IDS"] = str(given.process)
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # Gloo prints its connections there
    startup.join(given, program="launch.bench", heartbeat_seconds=30, join_seconds=_JOIN_SECONDS)
    result = work(*arguments)
    if jax.distributed.is_initialized():
        jax.distributed.shutdown()
    return result


def _with_devices(number: int) -> str:
    given = os.environ.get("XLA_FLAGS", "").split()
    kept = [flag for flag in given if not flag.startswith(_SIMULATED_DEVICES)]
    return " ".join([*kept, f"{_SIMULATED_DEVICES}={number}"])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def environment(**changes: str) -> Iterator[None]:
    """Sets environment variables inside the block, also for processes that are started there."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
