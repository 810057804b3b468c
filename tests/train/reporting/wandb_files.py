"""Reads wandb's files as wandb does: a log of records in blocks, in the format of LevelDB."""

from __future__ import annotations

import importlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_BLOCK, _FILE_HEADER, _HEADER = 32768, 7, 7
_FULL, _FIRST, _MIDDLE, _LAST = range(1, 5)


def records(directory: Path) -> list[Any]:
    """Returns the records of the one session in this directory."""
    protocol: Any = importlib.import_module("wandb.proto.wandb_internal_pb2")
    (file,) = directory.glob("run-*.wandb")
    return [protocol.Record.FromString(data) for data in _texts(file.read_bytes())]


def _texts(data: bytes) -> Iterator[bytes]:
    assert data.startswith(b":W&B")
    place, text = _FILE_HEADER, b""
    while place < len(data):
        if _BLOCK - place % _BLOCK < _HEADER:  # what is left of a block has no room for a header
            place += _BLOCK - place % _BLOCK
            continue
        _, size, kind = struct.unpack_from("<IHB", data, place)
        place += _HEADER
        assert kind in (_FULL, _FIRST, _MIDDLE, _LAST)
        text = b"" if kind in (_FULL, _FIRST) else text
        text += data[place : place + size]
        place += size
        if kind in (_FULL, _LAST):
            yield text


def only(found: list[Any], kind: str) -> Any:
    (record,) = (each for each in found if each.WhichOneof("record_type") == kind)
    return getattr(record, kind)


def history(found: list[Any]) -> list[tuple[int, dict[str, Any]]]:
    """Returns the logged steps, each with its metrics."""
    lines = [
        {
            item.key or ".".join(item.nested_key): json.loads(item.value_json)
            for item in record.history.item
        }
        for record in found
        if record.WhichOneof("record_type") == "history"
    ]
    return [
        (line["_step"], {name: line[name] for name in line if not name.startswith("_")})
        for line in lines
    ]
