"""What this machine has, as far as that shows without JAX."""

from __future__ import annotations

import glob
import importlib.util
import os
import socket
import sys
from pathlib import Path

# What there is where JAX might find more than a CPU. /dev/vfio/vfio alone is on many machines.
_TPUS = "/dev/accel[0-9]*", "/dev/vfio/[0-9]*"
_GPUS = "/dev/nvidia*", "/proc/driver/nvidia", "/dev/kfd", "/dev/dxg"


def has_tpu() -> bool:
    return any(map(glob.glob, _TPUS))


def has_gpu() -> bool:
    return any(map(glob.glob, _GPUS))


def has_libtpu() -> bool:
    return importlib.util.find_spec("libtpu") is not None


def process_space() -> str:
    """The same for processes that see each other's ids: not in two containers of one machine."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def leave_missing_tpu() -> None:
    """Keeps an installed libtpu from complaining at length that there is no TPU, where JAX would
    fall back to the CPU in the end. JAX reads the variable when it is imported; if it has been
    already, it is told.
    """
    if "JAX_PLATFORMS" in os.environ or not has_libtpu() or has_tpu() or has_gpu():
        return
    os.environ["JAX_PLATFORMS"] = "cpu"
    jax = sys.modules.get("jax")
    if jax and not jax.config.jax_platforms:
        jax.config.update("jax_platforms", "cpu")
