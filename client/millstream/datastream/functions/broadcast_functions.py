"""Functions of a stream and a broadcast one, and what they can ask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from millstream.datastream.functions.contexts import Context, KeyedContext, OnTimerContext
from millstream.datastream.functions.function import Function, TimedFunction
from millstream.datastream.state import BroadcastState, MapStateDescriptor, ReadOnlyBroadcastState
from millstream.datastream.state.descriptors import StateDescriptor


class BroadcastContext(Context):
    """What the broadcast side can ask: it reads and writes the broadcast states."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """The state of this descriptor, which was passed to `broadcast(...)`. Write the same on every subtask."""


class KeyedStateFunction(ABC):
    """What `apply_to_keyed_state` calls for each key."""

    @abstractmethod
    def process(self, key: Any, state: Any) -> None:
        """The state is the key's, to be read and changed."""


class KeyedBroadcastContext(BroadcastContext):
    """The same beside a keyed stream."""

    @abstractmethod
    def apply_to_keyed_state(
        self, state_descriptor: StateDescriptor, function: KeyedStateFunction | Callable[[Any, Any], None]
    ) -> None:
        """Calls the function, `(key, state)`, for all keys of this subtask that have something in a keyed state."""


class ReadOnlyBroadcastContext(Context):
    """What the side that is not broadcast can ask: it only reads the broadcast states."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """The state of this descriptor, which was passed to `broadcast(...)`."""


class KeyedReadOnlyBroadcastContext(ReadOnlyBroadcastContext, KeyedContext):
    """The same when that side is keyed."""


class BroadcastTimerContext(KeyedReadOnlyBroadcastContext, OnTimerContext):
    """What `on_timer` can ask beside a broadcast stream."""


class BaseBroadcastProcessFunction(Function, ABC):
    """What the two functions for a stream and a broadcast one share."""

    Context: TypeAlias = BroadcastContext

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: BroadcastContext) -> Iterable[Any] | None:
        """Called on every subtask for each broadcast record; may write the broadcast states."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, ABC):
    """Applies what is broadcast, such as rules, to the records of another stream."""

    ReadOnlyContext: TypeAlias = ReadOnlyBroadcastContext

    @abstractmethod
    def process_element(self, value: Any, ctx: ReadOnlyBroadcastContext) -> Iterable[Any] | None:
        """Called for each record that is not broadcast; may only read the broadcast states."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, TimedFunction[BroadcastTimerContext], ABC):
    """The same for a keyed stream. Keyed state belongs to `process_element`: a broadcast record has no key.

    Its context lets `process_broadcast_element` visit all keys: `ctx.apply_to_keyed_state(descriptor, function)`.
    """

    Context: TypeAlias = KeyedBroadcastContext
    ReadOnlyContext: TypeAlias = KeyedReadOnlyBroadcastContext
    OnTimerContext: TypeAlias = BroadcastTimerContext

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedReadOnlyBroadcastContext) -> Iterable[Any] | None:
        """Called for each record of the keyed stream; may only read the broadcast states."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastContext) -> Iterable[Any] | None:  # type: ignore[override]  # what calls it gives it this context
        """Called on every subtask for each broadcast record; may write the broadcast states, and visit all keys."""
