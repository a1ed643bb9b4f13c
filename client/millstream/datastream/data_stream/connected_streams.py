"""`ConnectedStreams`: two streams as the two inputs of one operator, with PyFlink's names.

A function of connected streams has one method for the records of each stream; a pair of callables does as well. When
both streams are keyed, records of one key meet in one subtask and share the key's state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.plan import CoFlatMapSpec, CoMapSpec, CoProcessSpec, OperatorSpec, TwoInputKeys
from millstream.core.records.types import PICKLED, TypeInformation
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
    KeyedCoProcessFunction,
)


class ConnectedStreams:
    """Two streams of any types. Made by `DataStream.connect`."""

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(self, key_selector1: Any, key_selector2: Any, key_type: Any = None) -> ConnectedStreams:
        """Groups both streams by key; equal keys of both meet in one subtask."""
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type), self.stream2.key_by(key_selector2, key_type)
        )

    def map(self, func: Any, output_type: Any = None) -> DataStream:
        """One record out for each record in; `func` is a CoMapFunction or a pair of callables. None is dropped."""
        function = _function("map", func, (CoMapFunction,), PairedMapFunction, 1)
        targets = _targets("map", func, function, ("map1", "map2"), 1)
        for target in targets:
            refuse_generator("map", target, "use flat_map for any number of results")
        kind = common_type(*(result_type(target, output_type) for target in targets))
        return self._then("Co-Map", CoMapSpec(function, self._keys("map")), kind)

    def flat_map(self, func: Any, output_type: Any = None) -> DataStream:
        """Any number of records out for each one in; `func` is a CoFlatMapFunction or a pair of callables."""
        function = _function("flat_map", func, (CoFlatMapFunction,), PairedFlatMapFunction, 1)
        targets = _targets("flat_map", func, function, ("flat_map1", "flat_map2"), 1)
        kind = common_type(*(element_type(target, output_type) for target in targets))
        spec = CoFlatMapSpec(function, self._keys("flat_map"))
        return self._then("Co-Flat Map", spec, kind)

    def process(self, func: Any, output_type: Any = None) -> DataStream:
        """The general operator: a CoProcessFunction, a KeyedCoProcessFunction or a pair of callables `(value, ctx)`."""
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

    def _then(self, name: str, spec: OperatorSpec, record_type: TypeInformation) -> DataStream:
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
    record_type: TypeInformation,
) -> DataStream:
    """The stream that an operator makes of two others."""
    environment = first.get_execution_environment()
    operator = environment.add_operator(
        name, first.transformation, spec, record_type, second_input=second.transformation
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
