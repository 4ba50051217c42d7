"""How the worker's parent and process talk: one message each way, a JSON header and blobs.

Four bytes of length, the header, then the blobs that its ``blobs`` lists (name, length), in order.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import IO, Any

Header = dict[str, Any]
Blobs = dict[str, bytes]


def read_message(stream: IO[bytes]) -> tuple[Header, Blobs] | None:
    """One message, or ``None`` where the stream ends first."""
    head = _read_exactly(stream, 4)
    if head is None:
        return None
    (size,) = struct.unpack("<I", head)
    text = _read_exactly(stream, size)
    if text is None:
        return None
    header: Header = json.loads(text)
    blobs: Blobs = {}
    for name, length in header["blobs"]:
        blob = _read_exactly(stream, length)
        if blob is None:
            return None
        blobs[name] = blob
    return header, blobs


def write_message(stream: IO[bytes], header: Mapping[str, Any], blobs: Mapping[str, bytes]) -> None:
    """Write one message."""
    sizes = [[name, len(blob)] for name, blob in blobs.items()]
    data = json.dumps({**header, "blobs": sizes}).encode()
    stream.write(struct.pack("<I", len(data)) + data + b"".join(blobs.values()))
    stream.flush()


def _read_exactly(stream: IO[bytes], size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        part = stream.read(size - len(data))
        if not part:
            return None
        data += part
    return data
