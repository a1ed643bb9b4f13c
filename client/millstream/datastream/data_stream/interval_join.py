"""Two keyed streams joined by event time: `a.interval_join(b).between(lower, upper).process(function)`.

PyFlink's DataStream API has no such join; the names are those of Flink's Java API.
"""

from __future__ import annotations

from typing import Any, NoReturn, Self

from millstream.common.time import plain_milliseconds
from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.join_plan import IntervalJoinSpec
from millstream.datastream.adapters.signatures import checked_callable, element_type
from millstream.datastream.data_stream.connected_streams import two_input_keys, two_input_stream
from millstream.datastream.data_stream.data_stream import DataStream
from millstream.datastream.data_stream.keyed_stream import KeyedStream
from millstream.datastream.functions import Function, OutputTag, ProcessJoinFunction


class IntervalJoin:
    """Two keyed streams. Made by `KeyedStream.interval_join`."""

    def __init__(self, stream_one: KeyedStream, stream_two: KeyedStream) -> None:
        self._streams = (stream_one, stream_two)
        two_input_keys("interval_join", stream_one, stream_two)

    def in_event_time(self) -> Self:
        """Which it always is."""
        return self

    def in_processing_time(self) -> NoReturn:
        """Refused, as by Flink."""
        raise InvalidProgramError("interval_join: records are joined by their timestamps, so only in event time")

    def between(self, lower_bound: Any, upper_bound: Any) -> IntervalJoined:
        """How far after a left record (before it, if negative) a right one may be: `Time`, `Duration`, timedelta or ms.

        Both bounds are included, unless they are made exclusive.
        """
        return IntervalJoined(*self._streams, _bound("lower", lower_bound), _bound("upper", upper_bound))


class IntervalJoined:
    """The bounds are known. Its settings are made before `process`."""

    def __init__(self, left_stream: KeyedStream, right_stream: KeyedStream, lower: int, upper: int) -> None:
        if lower > upper:
            raise InvalidProgramError(f"between: the lower bound of {lower} ms is above the upper one of {upper} ms")
        self._left = left_stream
        self._right = right_stream
        self._lower = lower
        self._upper = upper
        self._exclusive_lower = False
        self._exclusive_upper = False
        self._left_tag: OutputTag | None = None
        self._right_tag: OutputTag | None = None

    def lower_bound_exclusive(self) -> Self:
        """A right record exactly at the lower bound does not count."""
        self._exclusive_lower = True
        return self

    def upper_bound_exclusive(self) -> Self:
        """A right record exactly at the upper bound does not count."""
        self._exclusive_upper = True
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> Self:
        """Where left records go that come behind the watermark; otherwise they are dropped and counted."""
        self._left_tag = _tag("side_output_left_late_data", output_tag)
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> Self:
        """Where right records go that come behind the watermark; otherwise they are dropped and counted."""
        self._right_tag = _tag("side_output_right_late_data", output_tag)
        return self

    def process(self, process_join_function: Any, output_type: Any = None) -> DataStream:
        """A ProcessJoinFunction, or a callable `(left, right, ctx)`, for each pair; results have the later time."""
        if isinstance(process_join_function, Function) and not isinstance(process_join_function, ProcessJoinFunction):
            raise InvalidProgramError(
                f"interval_join: expected a ProcessJoinFunction or a callable, got {process_join_function!r}"
            )
        target = checked_callable("interval_join", process_join_function, "process_element", 3)
        lower, upper = self._lower + self._exclusive_lower, self._upper - self._exclusive_upper
        keys = two_input_keys("interval_join", self._left, self._right)
        tags = tuple(None if tag is None else tag.tag_id for tag in (self._left_tag, self._right_tag))
        spec = IntervalJoinSpec(process_join_function, keys, lower, upper, (tags[0], tags[1]))
        return two_input_stream(self._left, self._right, "Interval Join", spec, element_type(target, output_type))


def _bound(name: str, given: Any) -> int:
    bound = plain_milliseconds(given)
    if isinstance(bound, bool) or not isinstance(bound, int):
        raise InvalidProgramError(f"between: the {name} bound is a length of time or milliseconds, not {given!r}")
    return bound


def _tag(method: str, tag: OutputTag) -> OutputTag:
    if not isinstance(tag, OutputTag):
        raise InvalidProgramError(f"{method}: expected an OutputTag, got {tag!r}")
    return tag
