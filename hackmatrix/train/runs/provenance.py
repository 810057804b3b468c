"""The provenance of a run: versions, revision, devices, command line, and hashes of the user's own
modules, to reproduce it.
"""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hackmatrix import plugins
from hackmatrix.compile_cache.sources import short_hash, version
from hackmatrix.train.config import Config

_PACKAGES = (
    "hackmatrix", "jax", "jaxlib", "libtpu", "flax", "optax", "orbax-checkpoint", "distrax",
    "ml-collections", "numpy", "tensorboardX",
)  # fmt: skip
_ROOT = Path(__file__).parents[3]
# By the name of a user's own module: the spec of its import, which a reload replaces, and the hash
# that its file had when it was first asked for.
_imported: dict[str, tuple[Any, str]] = {}


def provenance(config: Config) -> dict[str, Any]:
    """Returns the provenance of this process, which trains a run with this configuration. It
    initialises JAX's devices, so call `jax.distributed.initialize` first if it is needed.
    """
    import jax

    device = jax.devices()[0]
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.orig_argv,
        "git": git(_ROOT),
        "own_modules": own_modules(config),
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


def own_modules(config: Config) -> dict[str, str]:
    """Returns hashes of the files of the modules that the configuration names as MODULE:NAME and
    that are imported, from before they were edited in a session of Python; also of the modules
    that define what these only import. Others that these import are not included.
    """
    return {name: before for name, before, _ in _hashes(config)}


def edited_modules(config: Config) -> list[str]:
    """Returns the user's own modules that were edited, but not reloaded, in this process."""
    return [name for name, before, now in _hashes(config) if before != now]


def _hashes(config: Config) -> Iterator[tuple[str, str, str]]:
    """Yields each of the user's own modules with the first hash of its file and that of today."""
    addresses = filter(plugins.is_address, (config.env, config.network, config.algorithm))
    for name in sorted({module for each in addresses for module in _modules(each)}):
        module = sys.modules.get(name)
        file = Path(getattr(module, "__file__", None) or "")
        if module and file.is_file():  # not in an archive
            now = short_hash(file.read_bytes())
            if name not in _imported or _imported[name][0] is not module.__spec__:
                _imported[name] = module.__spec__, now
            yield name, _imported[name][1], now


def _modules(address: str) -> Iterator[str]:
    """Yields the module that an address names, and the one that defines what it only imports."""
    module, name = plugins.parts(address)
    yield module
    defined = getattr(getattr(sys.modules.get(module), name, None), "__module__", None) or module
    if defined.partition(".")[0] != plugins.__package__:
        yield defined


def changed_modules(starts: Sequence[Mapping[str, Any]], config: Config) -> list[str]:
    """Returns the user's own modules that have changed since the last of these starts of a run."""
    before = starts[-1].get("own_modules", {}) if starts else {}
    return [each for each, now in own_modules(config).items() if before.get(each, now) != now]


def git(root: Path) -> dict[str, Any] | None:
    """Returns the revision of the work tree at `root`, and whether tracked files differ from it;
    None if that is unknown, as for an installed package.
    """
    try:
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
        return {"revision": _git(root, "rev-parse", "HEAD"), "dirty": changed != ""}
    except (OSError, subprocess.SubprocessError):
        return None


def _git(root: Path, *arguments: str) -> str:
    # Named like this, the checkout may be another user's, as in a container.
    command = ["git", f"--git-dir={root / '.git'}", f"--work-tree={root}", *arguments]
    done = subprocess.run(command, capture_output=True, check=True, timeout=10)
    return os.fsdecode(done.stdout).strip()
