"""The flags by which a program finds the other processes of a run, and joining them."""

from __future__ import annotations

from absl import flags

from launch.startup import starting

_COORDINATOR = flags.DEFINE_string(
    "coordinator",
    None,
    "HOST:PORT of process 0, which the other processes connect to; TPU slices need none.",
)
_NUM_PROCESSES = flags.DEFINE_integer("num_processes", None, "The number of processes.", 1, 65_536)
_PROCESS_ID = flags.DEFINE_integer("process_id", None, "The index of this process, from 0.")


def meet(program: str, *, heartbeat_seconds: int, join_seconds: int) -> None:
    """Joins the other processes, if there are any. Raises UserError if the flags are wrong."""
    from hackmatrix.parallel import startup  # it imports JAX

    startup.join(
        startup.membership(_COORDINATOR.value, _NUM_PROCESSES.value, _PROCESS_ID.value),
        program=program,
        heartbeat_seconds=heartbeat_seconds,
        join_seconds=join_seconds,
        meanwhile=starting.waiting(f"{program}: waiting for the other processes"),
    )
