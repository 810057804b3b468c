"""The provenance of a run: versions, revision, devices and command line, to reproduce it."""

from __future__ import annotations

import platform
import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hackmatrix.compile_cache.sources import version

_PACKAGES = (
    "hackmatrix", "jax", "jaxlib", "libtpu", "flax", "optax", "orbax-checkpoint", "distrax",
    "ml-collections", "numpy", "tensorboardX",
)  # fmt: skip
_ROOT = Path(__file__).parents[3]


def provenance() -> dict[str, Any]:
    """Returns versions, revision, devices and command line of this process. It initialises JAX's
    devices, so call `jax.distributed.initialize` first if it is needed.
    """
    import jax

    device = jax.devices()[0]
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.orig_argv,
        "git": git(_ROOT),
        "python": platform.python_version(),
        "versions": versions(),
        "devices": {
            "platform": device.platform,
            "kind": device.device_kind,
            "count": jax.device_count(),
            "processes": jax.process_count(),
        },
        "host": {"name": socket.gethostname(), "system": platform.platform()},
    }


def versions() -> dict[str, str]:
    """Returns the versions of those packages that a run depends on and that are installed."""
    return {name: found for name in _PACKAGES if (found := version(name))}


def git(root: Path) -> dict[str, Any] | None:
    """Returns the revision of the work tree at `root`, and whether tracked files differ from it;
    None if that is unknown, as for an installed package.
    """
    try:
        if Path(_git(root, "rev-parse", "--show-toplevel")).resolve() != root.resolve():
            return None
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
        return {"revision": _git(root, "rev-parse", "HEAD"), "dirty": changed != ""}
    except (OSError, subprocess.SubprocessError):
        return None


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()
