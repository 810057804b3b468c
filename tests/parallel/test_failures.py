"""Which failures are transient, by the messages of libraries."""

from __future__ import annotations

import socket
from unittest.mock import Mock

import jax.numpy as jnp
import pytest
from jax.errors import JaxRuntimeError

from hackmatrix.errors import UserError
from hackmatrix.parallel import startup
from hackmatrix.parallel.failures import is_transient

TRANSIENT = [
    "UNAVAILABLE: failed to connect to all addresses; last error: connection refused",
    "DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: hackmatrix/end",
    "ABORTED: The coordination service has found task 1 in error",
    "UNKNOWN: Gloo AllReduce failed: Connection closed by peer [127.0.0.1]:43713",
    "FAILED_PRECONDITION: Buffer Definition Event: Gloo: Connection reset by peer",
    "INTERNAL: Failed to execute: UNAVAILABLE: Socket closed",
    "INTERNAL: NCCL operation ncclGroupEnd() failed: remote process exited or there was a network "
    "error.",
    "INTERNAL: The TPU worker was preempted",
    "UNKNOWN: The tasks have crashed: task 1 (heartbeat timeout)",
]
PERMANENT = [
    "RESOURCE_EXHAUSTED: Out of memory allocating 137438953472 bytes.",
    "INTERNAL: Failed to launch: RESOURCE_EXHAUSTED: Out of memory while trying to allocate",
    "INVALID_ARGUMENT: Executable expected parameter 0 of size 64 but got buffer of size 32",
    "INTERNAL: Mosaic failed to compile TPU kernel: unsupported shape cast",
    "INTERNAL: RET_CHECK failure (xla/service/hlo_verifier.cc:812) shape mismatch",
    "INTERNAL: INVALID_ARGUMENT: connection refused in a name of a program",
    "UNIMPLEMENTED: not on this platform",
    "NOT_FOUND: there is no such program",
]


@pytest.mark.parametrize("text", TRANSIENT)
def test_the_loss_of_a_process_or_machine_is_transient(text: str) -> None:
    assert is_transient(JaxRuntimeError(text))
    assert startup.code_after(JaxRuntimeError(text), heartbeat_seconds=0) == 42


@pytest.mark.parametrize("text", PERMANENT)
def test_an_error_in_a_program_is_not_transient(text: str) -> None:
    assert not is_transient(JaxRuntimeError(text))
    assert startup.code_after(JaxRuntimeError(text), heartbeat_seconds=0) == 1


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (ConnectionResetError("reset"), True),
        (ConnectionRefusedError("refused"), True),
        (TimeoutError("late"), True),
        (ValueError("connection reset by peer"), False),
        (KeyError("lr"), False),
        (MemoryError(), False),
        (FileNotFoundError("weights"), False),
        (UserError("lr=-1"), False),
    ],
)
def test_of_pythons_own_errors_only_those_of_connections_are_transient(
    error: Exception, transient: bool
) -> None:
    assert is_transient(error) == transient


def test_running_out_of_memory_in_jax_is_not_transient() -> None:
    with pytest.raises(JaxRuntimeError) as raised:
        jnp.zeros((1 << 48,)).block_until_ready()
    assert not is_transient(raised.value)


def test_a_computation_before_the_processes_have_met_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A constant in a configuration file may be one."""
    jnp.ones(1).block_until_ready()
    monkeypatch.setattr(startup, "_where_jax_aborts", Mock())
    with socket.create_server(("127.0.0.1", 0)) as server:
        _, port = server.getsockname()
    given = startup.Membership(f"127.0.0.1:{port}", 1, 0)
    with pytest.raises(UserError, match="JAX was used before the processes met: do not compute"):
        startup.join(given, program="launch.train", heartbeat_seconds=9, join_seconds=9)
