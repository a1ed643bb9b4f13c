"""A stream and a broadcast one: every subtask sees all broadcast records and keeps what they say in broadcast state.

Only the broadcast side writes that state. Because every subtask sees the same broadcast records, each of them holds the
same state, as long as the function writes the same for the same record everywhere.
"""

from __future__ import annotations

from typing import Any

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.plan import BroadcastProcessSpec, TwoInputKeys
from millstream.datastream.adapters.signatures import checked_callable, element_type
from millstream.datastream.data_stream.connected_streams import common_type, two_input_stream
from millstream.datastream.data_stream.data_stream import DataStream
from millstream.datastream.data_stream.keyed_stream import KeyedStream
from millstream.datastream.functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from millstream.datastream.state import MapStateDescriptor


class BroadcastStream:
    """A stream that goes to every subtask, with the states that it fills. Made by `DataStream.broadcast`."""

    def __init__(self, input_stream: DataStream, broadcast_state_descriptors: tuple[MapStateDescriptor, ...]) -> None:
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


class BroadcastConnectedStream:
    """A stream, keyed or not, and a broadcast one. Made by `DataStream.connect`."""

    def __init__(
        self,
        non_broadcast_stream: DataStream,
        broadcast_stream: BroadcastStream,
        broadcast_state_descriptors: tuple[MapStateDescriptor, ...] | None = None,
    ) -> None:
        """The states are the broadcast stream's own, unless others are given."""
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        if broadcast_state_descriptors is not None:
            self.broadcast_stream = BroadcastStream(broadcast_stream.input_stream, tuple(broadcast_state_descriptors))

    def process(self, func: Any, output_type: Any = None) -> DataStream:
        """A KeyedBroadcastProcessFunction when the first stream is keyed, else a BroadcastProcessFunction."""
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
