"""The bytes of windows: 64-bit numbers, the highest byte first, as Flink writes them."""

from __future__ import annotations

import struct
from typing import BinaryIO

from millstream.common.serializer import TypeSerializer
from millstream.core.overriding import override
from millstream.datastream.window.windows import CountWindow, GlobalWindow, TimeWindow

_TIMES = struct.Struct(">qq")
_NUMBER = struct.Struct(">q")


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """16 bytes: the start and the end."""

    @override
    def serialize(self, element: TimeWindow, stream: BinaryIO) -> None:
        stream.write(_TIMES.pack(element.start, element.end))

    @override
    def deserialize(self, stream: BinaryIO) -> TimeWindow:
        return TimeWindow(*_TIMES.unpack(_read(stream, _TIMES.size, "time")))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """8 bytes: the number."""

    @override
    def serialize(self, element: CountWindow, stream: BinaryIO) -> None:
        stream.write(_NUMBER.pack(element.id))

    @override
    def deserialize(self, stream: BinaryIO) -> CountWindow:
        return CountWindow(*_NUMBER.unpack(_read(stream, _NUMBER.size, "count")))


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """One byte, 0: there is only one such window."""

    @override
    def serialize(self, element: GlobalWindow, stream: BinaryIO) -> None:
        stream.write(b"\0")

    @override
    def deserialize(self, stream: BinaryIO) -> GlobalWindow:
        _read(stream, 1, "global")
        return GlobalWindow.get()


def _read(stream: BinaryIO, size: int, kind: str) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise EOFError(f"a {kind} window has {size} bytes, but only {len(data)} were left to read")
    return data
