"""Reads event files as TensorBoard does."""

from __future__ import annotations

import struct
from pathlib import Path

from tensorboardX.crc32c import crc32c
from tensorboardX.proto.event_pb2 import Event


def masked_crc(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def events(directory: Path) -> list[Event]:
    """Returns the events in a directory, with its files in the order in which TensorBoard reads."""
    found = []
    for path in sorted(directory.glob("*tfevents*")):
        data = path.read_bytes()
        while data:
            (size, crc) = struct.unpack("<QI", data[:12].ljust(12))
            if len(data) < 16 + size:
                break  # truncated by a full disk
            assert crc == masked_crc(data[:8])
            record, (crc,) = data[12 : 12 + size], struct.unpack("<I", data[12 + size : 16 + size])
            assert crc == masked_crc(record)
            found.append(Event.FromString(record))
            data = data[16 + size :]
    return found
