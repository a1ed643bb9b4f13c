"""Two keyed streams joined by event time: `a.interval_join(b).between(lower, upper).process(function)`.

PyFlink's DataStream API has no such join; the names are those of Flink's Java API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, NoReturn, Self, TypeVar, overload

from millstream.common.time import plain_milliseconds
from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.join_plan import IntervalJoinSpec
from millstream.core.records.type_variables import T1_co, T2_co
from millstream.core.records.types import AnyType, TypeInformation
from millstream.datastream.adapters.signatures import checked_callable, element_type
from millstream.datastream.data_stream.connected_streams import two_input_keys, two_input_stream
from millstream.datastream.data_stream.data_stream import DataStream
from millstream.datastream.data_stream.keyed_stream import KeyedStream
from millstream.datastream.functions import Function, JoinContext, OutputTag, ProcessJoinFunction

OUT = TypeVar("OUT")


class IntervalJoin(Generic[T1_co, T2_co]):
    """Two keyed streams. `KeyedStream.interval_join` returns it."""

    def __init__(self, stream_one: KeyedStream[Any, T1_co], stream_two: KeyedStream[Any, T2_co]) -> None:
        self._streams = (stream_one, stream_two)
        two_input_keys("interval_join", stream_one, stream_two)

    def in_event_time(self) -> Self:
        """Returns this join: interval joins always use event time."""
        return self

    def in_processing_time(self) -> NoReturn:
        """Raises `InvalidProgramError`: interval joins always use event time, as in Flink."""
        raise InvalidProgramError("interval_join: records are joined by their timestamps, so only in event time")

    def between(self, lower_bound: Any, upper_bound: Any) -> IntervalJoined[T1_co, T2_co]:
        """Sets how far the timestamp of a right record may be after that of a left one (before it, if negative).

        The bounds are `Time`, `Duration`, timedelta or milliseconds. Both are inclusive unless they are made exclusive.
        Raises `InvalidProgramError` for anything else, and for a lower bound above the upper one.
        """
        return IntervalJoined(*self._streams, _bound("lower", lower_bound), _bound("upper", upper_bound))


class IntervalJoined(Generic[T1_co, T2_co]):
    """An interval join with its bounds. Its settings are made before `process`."""

    def __init__(
        self, left_stream: KeyedStream[Any, T1_co], right_stream: KeyedStream[Any, T2_co], lower: int, upper: int
    ) -> None:
        if lower > upper:
            raise InvalidProgramError(f"between: the lower bound of {lower} ms is above the upper one of {upper} ms")
        self._left = left_stream
        self._right = right_stream
        self._lower = lower
        self._upper = upper
        self._exclusive_lower = False
        self._exclusive_upper = False
        self._left_tag: OutputTag[Any] | None = None
        self._right_tag: OutputTag[Any] | None = None

    def lower_bound_exclusive(self) -> Self:
        """Excludes right records exactly at the lower bound."""
        self._exclusive_lower = True
        return self

    def upper_bound_exclusive(self) -> Self:
        """Excludes right records exactly at the upper bound."""
        self._exclusive_upper = True
        return self

    def side_output_left_late_data(self, output_tag: OutputTag[Any]) -> Self:
        """Sends late left records to a side output; without one they are dropped and counted."""
        self._left_tag = _tag("side_output_left_late_data", output_tag)
        return self

    def side_output_right_late_data(self, output_tag: OutputTag[Any]) -> Self:
        """Sends late right records to a side output; without one they are dropped and counted."""
        self._right_tag = _tag("side_output_right_late_data", output_tag)
        return self

    @overload
    def process(
        self,
        process_join_function: ProcessJoinFunction[T1_co, T2_co, OUT]
        | Callable[[T1_co, T2_co, JoinContext], Iterable[OUT | tuple[OutputTag[Any], Any]] | None],
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self,
        process_join_function: ProcessJoinFunction[T1_co, T2_co, object]
        | Callable[[T1_co, T2_co, JoinContext], Iterable[object] | None],
        output_type: TypeInformation[OUT] | type[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self,
        process_join_function: ProcessJoinFunction[T1_co, T2_co, object]
        | Callable[[T1_co, T2_co, JoinContext], Iterable[object] | None],
        output_type: AnyType,
    ) -> DataStream[object]: ...

    @overload
    def process(
        self,
        process_join_function: ProcessJoinFunction[T1_co, T2_co, object]
        | Callable[[T1_co, T2_co, JoinContext], Iterable[object] | None],
        output_type: object,
    ) -> DataStream[Any]: ...

    def process(self, process_join_function: Any, output_type: Any = None) -> DataStream[Any]:
        """Calls a function for each pair; returns the stream of its results, which have the later timestamp of a pair.

        The function is a ProcessJoinFunction, or a callable `(left, right, ctx)` that returns or yields results. Raises
        `InvalidProgramError` for another function class, and for an async function.
        """
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


def _tag(method: str, tag: OutputTag[Any]) -> OutputTag[Any]:
    if not isinstance(tag, OutputTag):
        raise InvalidProgramError(f"{method}: expected an OutputTag, got {tag!r}")
    return tag
