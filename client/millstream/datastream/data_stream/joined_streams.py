"""Two streams joined in windows: `a.join(b).where(key of a).equal_to(key of b).window(assigner).apply(function)`.

PyFlink's DataStream API has no such joins; the names are those of Flink's Java API. `join` calls its function with each
pair of records that have the same key and window, `co_group` once with all of them, also where one side has none.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar, overload

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.window_plan import CoGroupSpec, Tagged
from millstream.core.records.type_variables import T1_co, T2_co
from millstream.core.records.types import PICKLED, AnyType, TypeInformation
from millstream.datastream.adapters.paired_functions import (
    CallableCoGroupFunction,
    CallableFlatJoinFunction,
    CallableJoinFunction,
)
from millstream.datastream.adapters.signatures import (
    checked_callable,
    element_type,
    refuse_async,
    refuse_generator,
    result_type,
)
from millstream.datastream.data_stream.connected_streams import two_input_keys, two_input_stream
from millstream.datastream.data_stream.data_stream import DataStream
from millstream.datastream.data_stream.keyed_stream import KeyedStream
from millstream.datastream.data_stream.window_settings import WindowSettings
from millstream.datastream.functions import (
    CoGroupFunction,
    FlatJoinFunction,
    Function,
    JoinFunction,
    KeySelector,
    TaggedUnion,
)
from millstream.datastream.window import WindowAssigner

OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
WINDOW = TypeVar("WINDOW", bound="_PairedWindow[Any, Any]")


class JoinedStreams(Generic[T1_co, T2_co]):
    """Two streams to be joined pair by pair. `DataStream.join` returns it."""

    def __init__(self, input1: DataStream[T1_co], input2: DataStream[T2_co]) -> None:
        self._inputs = (input1, input2)

    def where(
        self,
        key_selector: Callable[[T1_co], Any] | KeySelector[T1_co, Any] | str | int | Sequence[str | int],
        key_type: Any = None,
    ) -> Where[JoinWindow[T1_co, T2_co], T1_co, T2_co]:
        """Sets the key of the first stream, as for `key_by`."""
        return Where("join", JoinWindow, *self._inputs, key_selector, key_type)


class CoGroupedStreams(Generic[T1_co, T2_co]):
    """Two streams whose windows are evaluated together. `DataStream.co_group` returns it."""

    def __init__(self, input1: DataStream[T1_co], input2: DataStream[T2_co]) -> None:
        self._inputs = (input1, input2)

    def where(
        self,
        key_selector: Callable[[T1_co], Any] | KeySelector[T1_co, Any] | str | int | Sequence[str | int],
        key_type: Any = None,
    ) -> Where[CoGroupWindow[T1_co, T2_co], T1_co, T2_co]:
        """Sets the key of the first stream, as for `key_by`."""
        return Where("co_group", CoGroupWindow, *self._inputs, key_selector, key_type)


class Where(Generic[WINDOW, T1_co, T2_co]):
    """A join whose first key is set."""

    def __init__(
        self,
        method: str,
        made: type[WINDOW],
        first: DataStream[T1_co],
        second: DataStream[T2_co],
        selector: Any,
        kind: Any,
    ) -> None:
        self._method = method
        self._made = made
        self._second = second
        self._key_type = kind
        self._first: KeyedStream[Any, T1_co] = first.key_by(selector, kind)

    def equal_to(
        self, key_selector: Callable[[T2_co], Any] | KeySelector[T2_co, Any] | str | int | Sequence[str | int]
    ) -> EqualTo[WINDOW, T1_co, T2_co]:
        """Sets the key of the second stream, as for `key_by`. Records with equal keys are joined.

        Raises `InvalidProgramError` when the keys are declared with different types.
        """
        second = self._second.key_by(key_selector)
        if second.get_key_type() == PICKLED:  # nothing else declares it
            second = self._second.key_by(key_selector, self._key_type)
        return EqualTo(self._method, self._made, self._first, second)


class EqualTo(Generic[WINDOW, T1_co, T2_co]):
    """A join whose keys are both set."""

    def __init__(
        self, method: str, made: type[WINDOW], first: KeyedStream[Any, T1_co], second: KeyedStream[Any, T2_co]
    ) -> None:
        self._made = made
        self._streams = (first, second)
        two_input_keys(method, first, second)

    def window(self, assigner: WindowAssigner[Any, Any]) -> WINDOW:
        """Sets the windows: only records of the same window are joined.

        An assigner, trigger or evictor receives a `TaggedUnion`. Raises `InvalidProgramError` unless the argument is a
        WindowAssigner.
        """
        return self._made(*self._streams, assigner)


class _PairedWindow(WindowSettings[TaggedUnion], ABC, Generic[T1_co, T2_co]):
    """Both streams in windows. Its settings are made before `apply`."""

    _method: ClassVar[str]

    def __init__(
        self, first: KeyedStream[Any, T1_co], second: KeyedStream[Any, T2_co], assigner: WindowAssigner[Any, Any]
    ) -> None:
        super().__init__(assigner, first.get_execution_environment())
        self._first = first
        self._second = second

    def _apply(self, function: Any, output_type: Any) -> DataStream[Any]:
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


class JoinWindow(_PairedWindow[T1_co, T2_co]):
    """The windows of a join. Its settings are made before `apply`."""

    _method = "join"

    @overload
    def apply(
        self, function: FlatJoinFunction[T1_co, T2_co, OUT] | Callable[[T1_co, T2_co], Iterator[OUT]]
    ) -> DataStream[OUT]: ...

    @overload
    def apply(
        self, function: JoinFunction[T1_co, T2_co, OUT] | Callable[[T1_co, T2_co], OUT]
    ) -> DataStream[OUT]: ...

    @overload
    def apply(
        self,
        function: FlatJoinFunction[T1_co, T2_co, object]
        | JoinFunction[T1_co, T2_co, object]
        | Callable[[T1_co, T2_co], object],
        output_type: TypeInformation[OUT] | type[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    def apply(
        self,
        function: FlatJoinFunction[T1_co, T2_co, object]
        | JoinFunction[T1_co, T2_co, object]
        | Callable[[T1_co, T2_co], object],
        output_type: AnyType,
    ) -> DataStream[object]: ...

    @overload
    def apply(
        self,
        function: FlatJoinFunction[T1_co, T2_co, object]
        | JoinFunction[T1_co, T2_co, object]
        | Callable[[T1_co, T2_co], object],
        output_type: object,
    ) -> DataStream[Any]: ...

    def apply(self, function: Any, output_type: Any = None) -> DataStream[Any]:
        """Calls a function with each pair; returns the stream of its results, with the time of the end of their window.

        The function is a JoinFunction, a FlatJoinFunction, or a callable `(first, second)`; a generator function yields
        any number of results. Raises `InvalidProgramError` for another function class, and for an async function.
        """
        return self._apply(function, output_type)

    def _checked(self, function: Any, output_type: Any) -> tuple[Any, TypeInformation]:
        if isinstance(function, JoinFunction | FlatJoinFunction):
            refuse_async("join", function.join)
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


class CoGroupWindow(_PairedWindow[T1_co, T2_co]):
    """The windows of a co-group. Its settings are made before `apply`."""

    _method = "co_group"

    @overload
    def apply(
        self,
        function: CoGroupFunction[T1_co, T2_co, OUT] | Callable[[list[T1_co], list[T2_co]], Iterable[OUT] | None],
    ) -> DataStream[OUT]: ...

    @overload
    def apply(
        self,
        function: CoGroupFunction[T1_co, T2_co, object]
        | Callable[[list[T1_co], list[T2_co]], Iterable[object] | None],
        output_type: TypeInformation[OUT] | type[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    def apply(
        self,
        function: CoGroupFunction[T1_co, T2_co, object]
        | Callable[[list[T1_co], list[T2_co]], Iterable[object] | None],
        output_type: AnyType,
    ) -> DataStream[object]: ...

    @overload
    def apply(
        self,
        function: CoGroupFunction[T1_co, T2_co, object]
        | Callable[[list[T1_co], list[T2_co]], Iterable[object] | None],
        output_type: object,
    ) -> DataStream[Any]: ...

    def apply(self, function: Any, output_type: Any = None) -> DataStream[Any]:
        """Calls a function with all records of a key and window; returns the stream of its results.

        The function is a CoGroupFunction or a callable `(first_records, second_records)`; one of the lists may be
        empty. Raises `InvalidProgramError` for another function class, and for an async function.
        """
        return self._apply(function, output_type)

    def _checked(self, function: Any, output_type: Any) -> tuple[Any, TypeInformation]:
        if isinstance(function, CoGroupFunction):
            refuse_async("co_group", function.co_group)
            return function, element_type(function.co_group, output_type)
        _refuse_other("co_group", function, "a CoGroupFunction")
        target = checked_callable("co_group", function, "co_group", 2)
        return CallableCoGroupFunction(target), element_type(target, output_type)


def _refuse_other(method: str, function: Any, wanted: str) -> None:
    if isinstance(function, Function):
        raise InvalidProgramError(f"{method}: expected {wanted} or a callable, got {function!r}")
