"""Detects what this machine has, without JAX."""

from __future__ import annotations

import glob
import importlib.util
import os
import socket
import sys
from pathlib import Path

# Files that show that JAX may find more than a CPU. Many machines have /dev/vfio/vfio alone.
_TPUS = "/dev/accel[0-9]*", "/dev/vfio/[0-9]*"
_GPUS = "/dev/nvidia*", "/proc/driver/nvidia", "/dev/kfd", "/dev/dxg"


def has_tpu() -> bool:
    return any(map(glob.glob, _TPUS))


def has_gpu() -> bool:
    return any(map(glob.glob, _GPUS))


def has_libtpu() -> bool:
    return importlib.util.find_spec("libtpu") is not None


def process_space() -> str:
    """Returns the same for processes that see each other's ids, but not across containers."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def leave_missing_tpu() -> None:
    """Selects the CPU where libtpu is installed but there is neither a TPU nor a GPU: libtpu would
    complain at length before JAX falls back to the CPU. JAX reads the variable on import; if it is
    imported already, its setting is updated.
    """
    if "JAX_PLATFORMS" in os.environ or not has_libtpu() or has_tpu() or has_gpu():
        return
    os.environ["JAX_PLATFORMS"] = "cpu"
    jax = sys.modules.get("jax")
    if jax and not jax.config.jax_platforms:
        jax.config.update("jax_platforms", "cpu")
