"""The only place that encodes signals. Each kind has its own tag on the wire.

Tags share their numbers with the codecs of batches (see `codecs`), which stay below `FIRST_TAG`. A signal is one
buffer, never compressed, so that it is recognised as soon as it arrives.
"""

from __future__ import annotations

import msgspec

from millstream.core.records.batches import Barrier, EndOfInput, LatencyMarker, Signal, Watermark, WatermarkStatus

FIRST_TAG = 16
TAGS: dict[type[Signal], int] = {
    EndOfInput: FIRST_TAG, Barrier: 17, Watermark: 18, WatermarkStatus: 19, LatencyMarker: 20
}  # fmt: skip
"""A signal's tag never changes: the two ends of a channel may have different versions."""


class UnknownSignalError(ValueError):
    """Bytes that are not a signal of this version."""


def is_signal(codec: int) -> bool:
    """Whether a buffer with this number is a signal, including those of other versions."""
    return codec >= FIRST_TAG


def encode_signal(signal: Signal) -> tuple[int, bytes]:
    """Returns the tag and the encoded fields."""
    return TAGS[type(signal)], msgspec.msgpack.encode(signal)


def decode_signal(tag: int, payload: bytes) -> Signal:
    """Decodes a signal."""
    for kind, known in TAGS.items():
        if known == tag:
            try:
                return msgspec.msgpack.decode(payload, type=kind)
            except msgspec.MsgspecError as error:
                raise UnknownSignalError(f"a malformed {kind.__name__}: {error}") from error
    raise UnknownSignalError(f"a signal with the unknown tag {tag}")
