"""HTTP/2 as bytes, well-formed or not: frames, and the headers and the body of a gRPC call."""

from __future__ import annotations

import struct
from collections.abc import Iterable

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS = 0, 1, 4
END_STREAM, END_HEADERS = 1, 4


def frame(kind: int, flags: int, stream: int, payload: bytes, length: int | None = None) -> bytes:
    """A frame with its actual length, or another one."""
    told = len(payload) if length is None else length
    return struct.pack(">I", told)[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def beginning() -> bytes:
    """The start of a client's connection."""
    return PREFACE + frame(SETTINGS, 0, 0, b"")


def call_of(method: str, headers: Iterable[tuple[str, str]] = ()) -> bytes:
    """The headers of a gRPC call, on the first stream."""
    fields = [(":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "localhost")]
    fields += [("te", "trailers"), ("content-type", "application/grpc"), *headers]
    packed = b"".join(b"\x00" + _text(name) + _text(value) for name, value in fields)
    return frame(HEADERS, END_HEADERS, 1, packed)


def message(content: bytes, length: int | None = None, compressed: int = 0) -> bytes:
    """A gRPC message in one frame of data, with its actual length, or another one."""
    told = len(content) if length is None else length
    return frame(DATA, END_STREAM, 1, struct.pack(">BI", compressed, told) + content)


def _text(text: str) -> bytes:
    raw = text.encode()
    assert len(raw) < 127, "longer ones are written in several bytes"
    return bytes([len(raw)]) + raw
