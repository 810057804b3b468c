"""The flags by which a program finds the other processes of a run, and meeting them."""

from __future__ import annotations

from absl import flags

from launch.startup import starting

_COORDINATOR = flags.DEFINE_string(
    "coordinator",
    None,
    "HOST:PORT of process 0, where several processes meet; TPU slices need none.",
)
_NUM_PROCESSES = flags.DEFINE_integer(
    "num_processes", None, "The number of processes.", lower_bound=1
)
_PROCESS_ID = flags.DEFINE_integer("process_id", None, "The number of this process, from 0.")


def meet(program: str, *, heartbeat_seconds: int, join_seconds: int) -> None:
    """Meets the others, if there are any; a UserError where the flags do not fit together."""
    from hackmatrix.parallel import startup  # it imports JAX

    startup.join(
        startup.membership(_COORDINATOR.value, _NUM_PROCESSES.value, _PROCESS_ID.value),
        program=program,
        heartbeat_seconds=heartbeat_seconds,
        join_seconds=join_seconds,
        meanwhile=starting.waiting(f"{program}: meeting the other processes"),
    )
