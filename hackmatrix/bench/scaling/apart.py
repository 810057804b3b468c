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
_JOIN_SECONDS = 120  # they all start at once, on a machine that may be busy


def together(processes: int, devices_each: int, work: Callable[..., T], *arguments: Any) -> T:
    """What the first of so many processes gives, which do the same work on all of their devices. A
    single one meets the other hosts where this machine is one of several in a TPU slice.

    A CPU pretends to have `devices_each`. Of GPUs, each of several processes takes one.
    """
    coordinator = f"127.0.0.1:{_free_port()}"
    members = [Membership(coordinator, processes, each) for each in range(processes)]
    with environment(XLA_FLAGS=_with_devices(devices_each)):
        return of_all(
            [
                functools.partial(_joined, each if processes > 1 else None, work, *arguments)
                for each in members
            ]
        )[0]


def on_cpu(work: Callable[..., T], *arguments: Any) -> T:
    """What a process gives that leaves accelerators alone."""
    with environment(JAX_PLATFORMS="cpu"):
        return of_all([functools.partial(work, *arguments)])[0]


def of_all(works: Sequence[Callable[[], T]]) -> list[T]:
    """What they give, each in a process of its own. As soon as one has failed the others are ended,
    which may wait for it; and so are all of them where this process is interrupted or killed.
    """
    spawn = get_context("spawn")
    with ProcessPoolExecutor(len(works), spawn, initializer=_end_with_parent) as pool:
        try:
            with _interrupts_held():
                submitted = [pool.submit(work) for work in works]
            for each in wait(submitted, return_when=FIRST_EXCEPTION).done:
                each.result()  # raises what has ended it
            return [each.result() for each in submitted]
        except BaseException as error:
            for child in active_children():
                child.kill()
            if isinstance(error, BrokenProcessPool):
                why = "a process that measured was killed, for lack of memory perhaps"
                raise UserError(why) from error
            raise


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Processes that are started meanwhile get none: it is this one that ends them, and says so."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """Without its parent a process would wait for work for ever, and keep its device."""
    parent = parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _joined(given: Membership | None, work: Callable[..., T], *arguments: Any) -> T:
    if given:
        os.environ["JAX_LOCAL_DEVICE_IDS"] = str(given.process)
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # Gloo tells there whom it has met
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
    """Sets variables for what is done, and for the processes that are started, inside."""
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
