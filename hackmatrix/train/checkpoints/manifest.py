"""The manifest of a checkpoint: its arrays, their digests, and what the run adds."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from hackmatrix.train.runs.protocol import WHOLE, Place

MANIFEST = "record"  # a folder of every checkpoint on a disk, so this name stays
_SEAL = "sha256"


@dataclass(frozen=True)
class Manifest:
    """Of one checkpoint. Every field is what JSON can say."""

    leaves: dict[str, str]  # shape and type
    digests: dict[str, int]
    metadata: dict[str, Any]


def read(directory: Place) -> Manifest:
    """The manifest of the checkpoint in the directory; ValueError or OSError if it is not whole."""
    if not (directory / WHOLE).exists():
        raise ValueError(f"{WHOLE} is missing, so it was never finished")
    return unseal(json.loads((directory / MANIFEST / "metadata").read()))


def seal(manifest: Manifest) -> dict[str, Any]:
    """The manifest for a JSON file, with a hash of itself."""
    content = json.loads(json.dumps(asdict(manifest)))
    return {**content, _SEAL: _hash(content)}


def unseal(content: dict[str, Any]) -> Manifest:
    """The manifest from a JSON file; ValueError if it is not what was sealed."""
    sealed = {name: value for name, value in content.items() if name != _SEAL}
    if content.get(_SEAL) != _hash(sealed):
        raise ValueError("its metadata is not what was saved")
    return Manifest(**sealed)


def _hash(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
