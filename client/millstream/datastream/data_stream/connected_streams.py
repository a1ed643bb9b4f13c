"""`ConnectedStreams`: two streams as the two inputs of one operator, with PyFlink's names.

A function of connected streams has one method for the records of each stream; a pair of callables does as well. When
both streams are keyed, records of one key meet in one subtask and share the key's state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar, overload

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.plan import CoFlatMapSpec, CoMapSpec, CoProcessSpec, OperatorSpec, TwoInputKeys
from millstream.core.records.type_variables import T1_co, T2_co
from millstream.core.records.types import PICKLED, AnyType, TypeInformation
from millstream.datastream.adapters.paired_functions import (
    PairedFlatMapFunction,
    PairedMapFunction,
    PairedProcessFunction,
)
from millstream.datastream.adapters.signatures import checked_callable, element_type, refuse_generator, result_type
from millstream.datastream.data_stream.data_stream import DataStream
from millstream.datastream.data_stream.keyed_stream import KeyedStream
from millstream.datastream.functions import (
    BaseBroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedContext,
    KeyedCoProcessFunction,
    KeySelector,
    OutputTag,
)

OUT = TypeVar("OUT")


class ConnectedStreams(Generic[T1_co, T2_co]):
    """Two streams of any types, as the inputs of one operator. `DataStream.connect` returns it.

    A function of connected streams has one method for the records of each stream; a pair of callables can be given in
    its place.
    """

    def __init__(self, stream1: DataStream[T1_co], stream2: DataStream[T2_co]) -> None:
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(
        self,
        key_selector1: Callable[[T1_co], Any] | KeySelector[T1_co, Any] | str | int | Sequence[str | int],
        key_selector2: Callable[[T2_co], Any] | KeySelector[T2_co, Any] | str | int | Sequence[str | int],
        key_type: Any = None,
    ) -> ConnectedStreams[T1_co, T2_co]:
        """Groups both streams by key: records with equal keys of both are processed by the same subtask.

        `key_selector1` and `key_selector2` are those of `DataStream.key_by`, for the first and the second stream, and
        `key_type` is the type of the keys. The operation that follows raises `InvalidProgramError` when the keys are
        declared with different types.

            clicks.connect(purchases).key_by(lambda click: click.user, lambda purchase: purchase.user)
        """
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type), self.stream2.key_by(key_selector2, key_type)
        )

    @overload
    def map(
        self,
        func: CoMapFunction[T1_co, T2_co, OUT] | tuple[Callable[[T1_co], OUT | None], Callable[[T2_co], OUT | None]],
    ) -> DataStream[OUT]: ...

    @overload
    def map(
        self,
        func: CoMapFunction[T1_co, T2_co, object] | tuple[Callable[[T1_co], object], Callable[[T2_co], object]],
        output_type: TypeInformation[OUT] | type[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    def map(
        self,
        func: CoMapFunction[T1_co, T2_co, object] | tuple[Callable[[T1_co], object], Callable[[T2_co], object]],
        output_type: AnyType,
    ) -> DataStream[object]: ...

    @overload
    def map(
        self,
        func: CoMapFunction[T1_co, T2_co, object] | tuple[Callable[[T1_co], object], Callable[[T2_co], object]],
        output_type: object,
    ) -> DataStream[Any]: ...

    def map(self, func: Any, output_type: Any = None) -> DataStream[Any]:
        """Returns the stream of the results for the records of both streams: one for each; None is dropped.

        `func` is a CoMapFunction or a pair of callables, and `output_type` the type of the results. Raises
        `InvalidProgramError` for anything else, for generator functions and for async functions.

            numbers.connect(words).map((lambda number: str(number), lambda word: word))
        """
        function = _function("map", func, (CoMapFunction,), PairedMapFunction, 1)
        targets = _targets("map", func, function, ("map1", "map2"), 1)
        for target in targets:
            refuse_generator("map", target, "use flat_map for any number of results")
        kind = common_type(*(result_type(target, output_type) for target in targets))
        return self._then("Co-Map", CoMapSpec(function, self._keys("map")), kind)

    @overload
    def flat_map(
        self,
        func: CoFlatMapFunction[T1_co, T2_co, OUT]
        | tuple[Callable[[T1_co], Iterable[OUT] | None], Callable[[T2_co], Iterable[OUT] | None]],
    ) -> DataStream[OUT]: ...

    @overload
    def flat_map(
        self,
        func: CoFlatMapFunction[T1_co, T2_co, object]
        | tuple[Callable[[T1_co], Iterable[object] | None], Callable[[T2_co], Iterable[object] | None]],
        output_type: TypeInformation[OUT] | type[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    def flat_map(
        self,
        func: CoFlatMapFunction[T1_co, T2_co, object]
        | tuple[Callable[[T1_co], Iterable[object] | None], Callable[[T2_co], Iterable[object] | None]],
        output_type: AnyType,
    ) -> DataStream[object]: ...

    @overload
    def flat_map(
        self,
        func: CoFlatMapFunction[T1_co, T2_co, object]
        | tuple[Callable[[T1_co], Iterable[object] | None], Callable[[T2_co], Iterable[object] | None]],
        output_type: object,
    ) -> DataStream[Any]: ...

    def flat_map(self, func: Any, output_type: Any = None) -> DataStream[Any]:
        """Returns the stream of the results for the records of both streams: any number for each.

        `func` is a CoFlatMapFunction or a pair of callables, and `output_type` the type of one result. Raises
        `InvalidProgramError` for anything else, and for async functions.

            lines.connect(words).flat_map((str.split, lambda word: [word]))
        """
        function = _function("flat_map", func, (CoFlatMapFunction,), PairedFlatMapFunction, 1)
        targets = _targets("flat_map", func, function, ("flat_map1", "flat_map2"), 1)
        kind = common_type(*(element_type(target, output_type) for target in targets))
        spec = CoFlatMapSpec(function, self._keys("flat_map"))
        return self._then("Co-Flat Map", spec, kind)

    @overload
    def process(
        self,
        func: CoProcessFunction[T1_co, T2_co, OUT]
        | KeyedCoProcessFunction[Any, T1_co, T2_co, OUT]
        | tuple[
            Callable[[T1_co, KeyedContext[Any]], Iterable[OUT | tuple[OutputTag[Any], Any]] | None],
            Callable[[T2_co, KeyedContext[Any]], Iterable[OUT | tuple[OutputTag[Any], Any]] | None],
        ],
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self,
        func: CoProcessFunction[T1_co, T2_co, object]
        | KeyedCoProcessFunction[Any, T1_co, T2_co, object]
        | tuple[
            Callable[[T1_co, KeyedContext[Any]], Iterable[object] | None],
            Callable[[T2_co, KeyedContext[Any]], Iterable[object] | None],
        ],
        output_type: TypeInformation[OUT] | type[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self,
        func: CoProcessFunction[T1_co, T2_co, object]
        | KeyedCoProcessFunction[Any, T1_co, T2_co, object]
        | tuple[
            Callable[[T1_co, KeyedContext[Any]], Iterable[object] | None],
            Callable[[T2_co, KeyedContext[Any]], Iterable[object] | None],
        ],
        output_type: AnyType,
    ) -> DataStream[object]: ...

    @overload
    def process(
        self,
        func: CoProcessFunction[T1_co, T2_co, object]
        | KeyedCoProcessFunction[Any, T1_co, T2_co, object]
        | tuple[
            Callable[[T1_co, KeyedContext[Any]], Iterable[object] | None],
            Callable[[T2_co, KeyedContext[Any]], Iterable[object] | None],
        ],
        output_type: object,
    ) -> DataStream[Any]: ...

    def process(self, func: Any, output_type: Any = None) -> DataStream[Any]:
        """Returns the stream of the results of the general function of both streams, with side outputs.

        `func` is a CoProcessFunction, a KeyedCoProcessFunction, which has keyed state and timers and needs both streams
        keyed, or a pair of callables `(value, ctx)`; `output_type` is the type of one result. Raises
        `InvalidProgramError` for anything else, and for async functions.

            orders.connect(prices).key_by("article", "article").process(LatestPrice(), output_type=Offer)
        """
        keys = self._keys("process")
        if isinstance(func, KeyedCoProcessFunction) and keys is None:
            raise InvalidProgramError(
                f"process: {type(func).__qualname__} is a KeyedCoProcessFunction, which needs both streams keyed; call "
                "connect(...).key_by(key_of_first, key_of_second) first"
            )
        if isinstance(func, BaseBroadcastProcessFunction):
            raise InvalidProgramError(
                f"process: {type(func).__qualname__} needs a broadcast stream; connect other.broadcast(descriptor)"
            )
        function = _function("process", func, (CoProcessFunction, KeyedCoProcessFunction), PairedProcessFunction, 2)
        targets = _targets("process", func, function, ("process_element1", "process_element2"), 2)
        kind = common_type(*(element_type(target, output_type) for target in targets))
        spec = CoProcessSpec(function, keys)
        if keys is None:
            return self._then("Co-Process", spec, kind)
        return self._then("Keyed Co-Process", spec, kind)

    def _keys(self, method: str) -> TwoInputKeys | None:
        first, second = self.stream1, self.stream2
        if not isinstance(first, KeyedStream) or not isinstance(second, KeyedStream):
            return None
        return two_input_keys(method, first, second)

    def _then(self, name: str, spec: OperatorSpec, record_type: TypeInformation[OUT]) -> DataStream[OUT]:
        return two_input_stream(self.stream1, self.stream2, name, spec, record_type)


def two_input_keys(method: str, first: KeyedStream, second: KeyedStream) -> TwoInputKeys:
    """How equal keys of two streams meet."""
    types = (first.get_key_type(), second.get_key_type())
    if PICKLED not in types and types[0] != types[1]:
        raise InvalidProgramError(
            f"{method}: the connected streams are keyed by different types, {types[0]} and {types[1]}; equal keys "
            "would not meet. Key both by the same type"
        )
    return TwoInputKeys(first.key_selector, second.key_selector, common_type(*types))


def two_input_stream(
    first: DataStream,
    second: DataStream,
    name: str,
    spec: OperatorSpec,
    record_type: TypeInformation[OUT],
) -> DataStream[OUT]:
    """The output of an operator with two inputs."""
    environment = first.get_execution_environment()
    operator = environment.add_operator(
        name, first.transformation, spec, record_type, more_inputs=(second.transformation,)
    )
    return DataStream(environment, operator, record_type)


def common_type(first: TypeInformation, second: TypeInformation) -> TypeInformation:
    """The type of both when it is the same one, else any."""
    return first if first == second else PICKLED


def _function(method: str, func: Any, rich: tuple[type, ...], paired: Callable[[Any, Any], Any], arguments: int) -> Any:
    if isinstance(func, rich):
        return func
    if isinstance(func, tuple | list) and len(func) == 2:
        return paired(*(checked_callable(method, part, "__call__", arguments) for part in func))
    names = " or a ".join(kind.__name__ for kind in rich)
    raise InvalidProgramError(
        f"{method}: on connected streams expected a {names}, or a pair of callables (for the first stream, for the "
        f"second), got {func!r}"
    )


def _targets(
    method: str, given: Any, function: Any, names: tuple[str, str], arguments: int
) -> tuple[Callable[..., Any], ...]:
    """What carries the user's annotations: the methods of a rich function, or the pair itself."""
    if given is not function:
        return tuple(given)
    return tuple(checked_callable(method, function, name, arguments) for name in names)
