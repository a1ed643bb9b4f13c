"""A stream and a broadcast stream: every subtask receives all broadcast records and keeps them in broadcast state.

Only the broadcast side writes that state. Because every subtask receives the same broadcast records, each of them holds
the same state, as long as the function writes the same values for the same record everywhere.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, overload

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.plan import BroadcastProcessSpec, TwoInputKeys
from millstream.core.records.type_variables import T1_co, T2_co, T_co
from millstream.core.records.types import AnyType, TypeInformation
from millstream.datastream.adapters.signatures import checked_callable, element_type
from millstream.datastream.data_stream.connected_streams import common_type, two_input_stream
from millstream.datastream.data_stream.data_stream import DataStream
from millstream.datastream.data_stream.keyed_stream import KeyedStream
from millstream.datastream.functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from millstream.datastream.state import MapStateDescriptor

OUT = TypeVar("OUT")


class BroadcastStream(Generic[T_co]):
    """A stream that is sent to every subtask, with the states that it fills. `DataStream.broadcast` returns it."""

    def __init__(
        self,
        input_stream: DataStream[T_co],
        broadcast_state_descriptors: tuple[MapStateDescriptor[Any, Any], ...],
    ) -> None:
        names: set[str] = set()
        for descriptor in broadcast_state_descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise InvalidProgramError(f"broadcast: expected a MapStateDescriptor, got {descriptor!r}")
            if descriptor.name in names:
                raise InvalidProgramError(f"broadcast: two of the states are called '{descriptor.name}'")
            if descriptor.ttl is not None:
                raise InvalidProgramError(
                    f"broadcast: state '{descriptor.name}' has a time-to-live, which broadcast state cannot have"
                )
            names.add(descriptor.name)
        self.input_stream = input_stream
        self.broadcast_state_descriptors = broadcast_state_descriptors


class BroadcastConnectedStream(Generic[T1_co, T2_co]):
    """A stream, with or without keys, and a broadcast stream. `DataStream.connect` returns it."""

    def __init__(
        self,
        non_broadcast_stream: DataStream[T1_co],
        broadcast_stream: BroadcastStream[T2_co],
        broadcast_state_descriptors: tuple[MapStateDescriptor[Any, Any], ...] | None = None,
    ) -> None:
        """The states are those of the broadcast stream, unless others are given."""
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        if broadcast_state_descriptors is not None:
            self.broadcast_stream = BroadcastStream(broadcast_stream.input_stream, tuple(broadcast_state_descriptors))

    @overload
    def process(
        self,
        func: BroadcastProcessFunction[T1_co, T2_co, OUT] | KeyedBroadcastProcessFunction[Any, T1_co, T2_co, OUT],
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self,
        func: BroadcastProcessFunction[T1_co, T2_co, object]
        | KeyedBroadcastProcessFunction[Any, T1_co, T2_co, object],
        output_type: TypeInformation[OUT] | type[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self,
        func: BroadcastProcessFunction[T1_co, T2_co, object]
        | KeyedBroadcastProcessFunction[Any, T1_co, T2_co, object],
        output_type: AnyType,
    ) -> DataStream[object]: ...

    @overload
    def process(
        self,
        func: BroadcastProcessFunction[T1_co, T2_co, object]
        | KeyedBroadcastProcessFunction[Any, T1_co, T2_co, object],
        output_type: object,
    ) -> DataStream[Any]: ...

    def process(self, func: Any, output_type: Any = None) -> DataStream[Any]:
        """Returns the stream of the results of a function of both streams.

        `func` is a KeyedBroadcastProcessFunction when the first stream is keyed, else a BroadcastProcessFunction;
        `output_type` is the type of one result. Raises `InvalidProgramError` for anything else.

            prices.connect(rules.broadcast(RULES)).process(ApplyRules())
        """
        keys = self._keys()
        wanted = BroadcastProcessFunction if keys is None else KeyedBroadcastProcessFunction
        if not isinstance(func, wanted):
            keyed = "a stream that is not keyed" if keys is None else "a keyed stream"
            raise InvalidProgramError(
                f"process: {keyed} and a broadcast one need a {wanted.__name__}, got {type(func).__qualname__}"
            )
        methods = ("process_element", "process_broadcast_element")
        targets = [checked_callable("process", func, method, 2) for method in methods]
        record_type = common_type(*(element_type(target, output_type) for target in targets))
        name = "Co-Process-Broadcast" if keys is None else "Co-Process-Broadcast-Keyed"
        spec = BroadcastProcessSpec(func, self.broadcast_stream.broadcast_state_descriptors, keys)
        return two_input_stream(self.non_broadcast_stream, self.broadcast_stream.input_stream, name, spec, record_type)

    def _keys(self) -> TwoInputKeys | None:
        stream = self.non_broadcast_stream
        if not isinstance(stream, KeyedStream):
            return None
        return TwoInputKeys(stream.key_selector, None, stream.get_key_type())
