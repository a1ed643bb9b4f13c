"""Two streams joined in windows: `a.join(b).where(key of a).equal_to(key of b).window(assigner).apply(function)`.

PyFlink's DataStream API has no such joins; the names are those of Flink's Java API. `join` calls its function with each
pair of records that have the same key and window, `co_group` once with all of them, also where one side has none.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.window_plan import CoGroupSpec, Tagged
from millstream.core.records.types import PICKLED, TypeInformation
from millstream.datastream.adapters.paired_functions import (
    CallableCoGroupFunction,
    CallableFlatJoinFunction,
    CallableJoinFunction,
)
from millstream.datastream.adapters.signatures import checked_callable, element_type, refuse_generator, result_type
from millstream.datastream.data_stream.connected_streams import two_input_keys, two_input_stream
from millstream.datastream.data_stream.data_stream import DataStream
from millstream.datastream.data_stream.keyed_stream import KeyedStream
from millstream.datastream.data_stream.window_settings import WindowSettings
from millstream.datastream.functions import CoGroupFunction, FlatJoinFunction, Function, JoinFunction
from millstream.datastream.window import WindowAssigner


class JoinedStreams:
    """Two streams to be joined pair by pair. Made by `DataStream.join`."""

    def __init__(self, input1: DataStream, input2: DataStream) -> None:
        self._inputs = (input1, input2)

    def where(self, key_selector: Any, key_type: Any = None) -> Where:
        """The key of the first stream's records, as for `key_by`."""
        return Where("join", JoinWindow, *self._inputs, key_selector, key_type)


class CoGroupedStreams:
    """Two streams whose windows are seen together. Made by `DataStream.co_group`."""

    def __init__(self, input1: DataStream, input2: DataStream) -> None:
        self._inputs = (input1, input2)

    def where(self, key_selector: Any, key_type: Any = None) -> Where:
        """The key of the first stream's records, as for `key_by`."""
        return Where("co_group", CoGroupWindow, *self._inputs, key_selector, key_type)


class Where:
    """The first stream's key is known."""

    def __init__(
        self, method: str, made: type[_PairedWindow], first: DataStream, second: DataStream, selector: Any, kind: Any
    ) -> None:
        self._method = method
        self._made = made
        self._second = second
        self._key_type = kind
        self._first = first.key_by(selector, kind)

    def equal_to(self, key_selector: Any) -> EqualTo:
        """The key of the second stream's records. Records with equal keys come together."""
        second = self._second.key_by(key_selector)
        if second.get_key_type() == PICKLED:  # nothing else says what it is
            second = self._second.key_by(key_selector, self._key_type)
        return EqualTo(self._method, self._made, self._first, second)


class EqualTo:
    """Both keys are known."""

    def __init__(self, method: str, made: type[_PairedWindow], first: KeyedStream, second: KeyedStream) -> None:
        self._made = made
        self._streams = (first, second)
        two_input_keys(method, first, second)

    def window(self, assigner: WindowAssigner[Any, Any]) -> _PairedWindow:
        """Only records of the same window are joined. An assigner, trigger or evictor gets a `TaggedUnion`."""
        return self._made(*self._streams, assigner)


class _PairedWindow(WindowSettings, ABC):
    """Both streams in windows. Its settings are made before `apply`."""

    _method: ClassVar[str]

    def __init__(self, first: KeyedStream, second: KeyedStream, assigner: WindowAssigner[Any, Any]) -> None:
        super().__init__(assigner, first.get_execution_environment())
        self._first = first
        self._second = second

    def apply(self, function: Any, output_type: Any = None) -> DataStream:
        """What is done with what comes together; results have the time of the end of their window."""
        chosen, kind = self._checked(function, output_type)
        keys = two_input_keys(self._method, self._first, self._second)
        spec = CoGroupSpec(
            self._assigner,
            self._trigger,
            Tagged(self._first.get_type(), self._second.get_type()),
            chosen,
            self._first.key_selector,
            keys.key_type,
            self._evictor,
            self._lateness,
            second_selector=self._second.key_selector,
        )
        name = f"{type(self._assigner).__name__}, {'Join' if self._method == 'join' else 'Co-Group'}"
        return two_input_stream(self._first, self._second, name, spec, kind)

    @abstractmethod
    def _checked(self, function: Any, output_type: Any) -> tuple[Any, TypeInformation]:
        """The function that the operator calls, and the type of its results."""


class JoinWindow(_PairedWindow):
    """For a JoinFunction, a FlatJoinFunction, or a callable `(first, second)`; a generator yields any number."""

    _method = "join"

    def _checked(self, function: Any, output_type: Any) -> tuple[Any, TypeInformation]:
        if isinstance(function, JoinFunction):
            refuse_generator("join", function.join, "use a FlatJoinFunction for any number of results")
            return function, result_type(function.join, output_type)
        if isinstance(function, FlatJoinFunction):
            return function, element_type(function.join, output_type)
        _refuse_other("join", function, "a JoinFunction, a FlatJoinFunction")
        target = checked_callable("join", function, "join", 2)
        if inspect.isgeneratorfunction(target):
            return CallableFlatJoinFunction(target), element_type(target, output_type)
        return CallableJoinFunction(target), result_type(target, output_type)


class CoGroupWindow(_PairedWindow):
    """For a CoGroupFunction or a callable `(first records, second records)`."""

    _method = "co_group"

    def _checked(self, function: Any, output_type: Any) -> tuple[Any, TypeInformation]:
        if isinstance(function, CoGroupFunction):
            return function, element_type(function.co_group, output_type)
        _refuse_other("co_group", function, "a CoGroupFunction")
        target = checked_callable("co_group", function, "co_group", 2)
        return CallableCoGroupFunction(target), element_type(target, output_type)


def _refuse_other(method: str, function: Any, wanted: str) -> None:
    if isinstance(function, Function):
        raise InvalidProgramError(f"{method}: expected {wanted} or a callable, got {function!r}")
