"""The manifest of a checkpoint: its arrays, their digests, and the run's metadata."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from hackmatrix.train.runs.protocol import WHOLE, Place
from hackmatrix.whole_files import parsed

MANIFEST = "record"  # a folder of every saved checkpoint, so this name must not change
_SEAL = "sha256"


@dataclass(frozen=True)
class Manifest:
    """The manifest of one checkpoint. Every field can be saved as JSON."""

    leaves: dict[str, str]  # shape and dtype of each leaf, by its path
    digests: dict[str, int]
    metadata: dict[str, Any]


def read(directory: Place) -> Manifest:
    """Reads the manifest of the checkpoint in the directory; raises ValueError or OSError if the
    checkpoint is not whole.
    """
    if not (directory / WHOLE).exists():
        raise ValueError(f"{WHOLE} is missing, so the checkpoint was never finished")
    return unseal(parsed((directory / MANIFEST / "metadata").read(), dict))


def seal(manifest: Manifest) -> dict[str, Any]:
    """Returns the manifest for a JSON file, with a hash of its contents."""
    content = json.loads(json.dumps(asdict(manifest)))
    return {**content, _SEAL: _hash(content)}


def unseal(content: dict[str, Any]) -> Manifest:
    """Returns the manifest from a JSON file; raises ValueError if it does not match its hash."""
    sealed = {name: value for name, value in content.items() if name != _SEAL}
    if content.get(_SEAL) != _hash(sealed):
        raise ValueError("its metadata has changed since it was saved")
    return Manifest(**sealed)


def _hash(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
