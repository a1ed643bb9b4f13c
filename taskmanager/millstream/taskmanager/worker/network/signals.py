"""Signals as bytes: the one place that encodes them. Each kind has a tag of its own on the wire.

Tags share their numbers with the codecs of batches (see `codecs`), which stay below `FIRST_TAG`. A signal is one
buffer, never compressed, so that it is known as soon as it arrives.
"""

from __future__ import annotations

import msgspec

from millstream.core.records.batches import Barrier, EndOfInput, LatencyMarker, Signal, Watermark, WatermarkStatus

FIRST_TAG = 16
TAGS: dict[type[Signal], int] = {
    EndOfInput: FIRST_TAG, Barrier: 17, Watermark: 18, WatermarkStatus: 19, LatencyMarker: 20
}  # fmt: skip
"""A tag stays its signal's for good: two ends of a channel may be of different versions."""


class UnknownSignalError(ValueError):
    """Bytes that are no signal of this version's."""


def is_signal(codec: int) -> bool:
    """Whether a buffer with this number is a signal; also one of another version's."""
    return codec >= FIRST_TAG


def encode_signal(signal: Signal) -> tuple[int, bytes]:
    """Its tag, and its fields."""
    return TAGS[type(signal)], msgspec.msgpack.encode(signal)


def decode_signal(tag: int, payload: bytes) -> Signal:
    """The signal again."""
    for kind, known in TAGS.items():
        if known == tag:
            try:
                return msgspec.msgpack.decode(payload, type=kind)
            except msgspec.MsgspecError as error:
                raise UnknownSignalError(f"a malformed {kind.__name__}: {error}") from error
    raise UnknownSignalError(f"a signal of the unknown tag {tag}")
