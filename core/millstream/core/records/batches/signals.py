"""The signals between the batches of a channel.

The task itself handles the end of the input and barriers: it ends, and takes its snapshot, between two elements. All
other signals are `StreamSignal`s, which the task passes to its operators in order. Channels and gates do not interpret
them.
"""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.barriers import Barrier


class EndOfInput(Struct, frozen=True):
    """The producer has finished: no elements follow on this channel."""


class StreamSignal:
    """Base of the signals that operators receive and forward, in order with the records."""

    __slots__ = ()


MIN_TIMESTAMP = -(2**63)
"""Before every record: where event time begins."""
MAX_TIMESTAMP = 2**63 - 1
"""Behind every record: where event time ends."""


class Watermark(StreamSignal, Struct, frozen=True):
    """Event time has reached this timestamp: later records with a timestamp up to it are late."""

    timestamp: int


class WatermarkStatus(StreamSignal, Struct, frozen=True):
    """Whether the channel is active or idle; an idle channel does not hold event time back."""

    is_idle: bool


class LatencyMarker(StreamSignal, Struct, frozen=True):
    """Emitted by a source to measure the latency to downstream operators."""

    marked_ms: int
    operator_id: str
    """The source, and its subtask."""
    subtask: int = 0


LAST_WATERMARK = Watermark(MAX_TIMESTAMP)
Signal = EndOfInput | Barrier | StreamSignal
END_OF_INPUT = EndOfInput()
