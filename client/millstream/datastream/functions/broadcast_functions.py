"""Functions of a stream and a broadcast stream, and their contexts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from millstream.core.records.type_variables import IN1_contra, IN2_contra, K, K_co, KEY_contra, OUT_co, T, V
from millstream.datastream.functions.contexts import Context, KeyedContext, OnTimerContext
from millstream.datastream.functions.function import Function, TimedFunction
from millstream.datastream.output_tag import OutputTag
from millstream.datastream.state import BroadcastState, MapStateDescriptor, ReadOnlyBroadcastState
from millstream.datastream.state.descriptors import StateDescriptor

if TYPE_CHECKING:
    from typing_extensions import TypeAliasType

C_contra = TypeVar("C_contra", contravariant=True)


class BroadcastContext(Context):
    """The context of a broadcast record: it gives access to the broadcast states for reading and writing."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> BroadcastState[K, V]:
        """Returns the broadcast state of `state_descriptor`, one of the descriptors passed to `broadcast(...)`.

        The function has to write the same values on every subtask.

            ctx.get_broadcast_state(PRICES).put(price.article, price)
        """


class KeyedStateFunction(ABC, Generic[KEY_contra, T]):
    """The function that `apply_to_keyed_state` calls for each key: `KeyedStateFunction[KEY, STATE]`."""

    @abstractmethod
    def process(self, key: KEY_contra, state: T, /) -> None:
        """Called for each key with its state, which it may read and change."""


class KeyedBroadcastContext(BroadcastContext):
    """The context of a broadcast record next to a keyed stream."""

    @abstractmethod
    def apply_to_keyed_state(
        self,
        state_descriptor: StateDescriptor,
        function: KeyedStateFunction[Any, Any] | Callable[[Any, Any], None],
    ) -> None:
        """Calls `function(key, state)` for all keys of this subtask with a value in the state of `state_descriptor`.

        For example:

            ctx.apply_to_keyed_state(COUNT, lambda key, state: state.clear())
        """


class ReadOnlyBroadcastContext(Context):
    """The context of a record that is not broadcast: it gives access to the broadcast states for reading."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> ReadOnlyBroadcastState[K, V]:
        """Returns the broadcast state of `state_descriptor`, one of the descriptors passed to `broadcast(...)`.

        For example:

            price = ctx.get_broadcast_state(PRICES).get(value.article)
        """


class KeyedReadOnlyBroadcastContext(ReadOnlyBroadcastContext, KeyedContext[K_co]):
    """The context of a record of a keyed stream next to a broadcast stream."""


class BroadcastTimerContext(KeyedReadOnlyBroadcastContext[K_co], OnTimerContext[K_co]):
    """The context of `on_timer` next to a broadcast stream."""


class BaseBroadcastProcessFunction(Function, ABC, Generic[C_contra, IN2_contra, OUT_co]):
    """What both functions of a stream and a broadcast stream have in common."""

    @abstractmethod
    def process_broadcast_element(
        self, value: IN2_contra, ctx: C_contra, /
    ) -> Iterable[OUT_co | tuple[OutputTag[Any], Any]] | None:
        """Called on every subtask for each broadcast record, `value`; may write the broadcast states of `ctx`."""


class BroadcastProcessFunction(
    BaseBroadcastProcessFunction[BroadcastContext, IN2_contra, OUT_co], ABC, Generic[IN1_contra, IN2_contra, OUT_co]
):
    """Applies broadcast records, such as rules, to the records of another stream.

    `BroadcastProcessFunction[IN1, IN2, OUT]`: IN2 is the type of the broadcast records.

        class Priced(BroadcastProcessFunction):
            def process_element(self, value: Order, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Offer]:
                yield Offer(value, ctx.get_broadcast_state(PRICES).get(value.article))

            def process_broadcast_element(self, value: Price, ctx: BroadcastProcessFunction.Context) -> None:
                ctx.get_broadcast_state(PRICES).put(value.article, value.amount)
    """

    Context: TypeAlias = BroadcastContext
    ReadOnlyContext: TypeAlias = ReadOnlyBroadcastContext

    @abstractmethod
    def process_element(
        self, value: IN1_contra, ctx: ReadOnlyBroadcastContext, /
    ) -> Iterable[OUT_co | tuple[OutputTag[Any], Any]] | None:
        """Called for each record that is not broadcast, `value`; may only read the broadcast states of `ctx`."""


class KeyedBroadcastProcessFunction(
    BaseBroadcastProcessFunction[KeyedBroadcastContext, IN2_contra, OUT_co],
    TimedFunction[BroadcastTimerContext[KEY_contra], OUT_co],
    ABC,
    Generic[KEY_contra, IN1_contra, IN2_contra, OUT_co],
):
    """Applies broadcast records to the records of a keyed stream: `KeyedBroadcastProcessFunction[KEY, IN1, IN2, OUT]`.

    Keyed state belongs to `process_element`: a broadcast record has no key. The context of
    `process_broadcast_element` visits all keys: `ctx.apply_to_keyed_state(descriptor, function)`.

        class Alerts(KeyedBroadcastProcessFunction):
            def open(self, runtime_context: RuntimeContext) -> None:
                self.count = runtime_context.get_state("count", int)

            def process_element(
                self, value: Login, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
            ) -> Iterator[str]:
                self.count.update((self.count.value() or 0) + 1)
                if self.count.value() == ctx.get_broadcast_state(LIMITS).get("logins"):
                    yield value.user

            def process_broadcast_element(self, value: Limit, ctx: KeyedBroadcastProcessFunction.Context) -> None:
                ctx.get_broadcast_state(LIMITS).put(value.name, value.most)
    """

    Context: TypeAlias = KeyedBroadcastContext
    if TYPE_CHECKING:  # aliases with a parameter: `Context[str]`, and `Context` alone
        ReadOnlyContext = TypeAliasType("ReadOnlyContext", KeyedReadOnlyBroadcastContext[K_co], type_params=(K_co,))
        OnTimerContext = TypeAliasType("OnTimerContext", BroadcastTimerContext[K_co], type_params=(K_co,))
    else:
        ReadOnlyContext = KeyedReadOnlyBroadcastContext
        OnTimerContext = BroadcastTimerContext

    @abstractmethod
    def process_element(
        self, value: IN1_contra, ctx: KeyedReadOnlyBroadcastContext[KEY_contra], /
    ) -> Iterable[OUT_co | tuple[OutputTag[Any], Any]] | None:
        """Called for each record of the keyed stream, `value`; may only read the broadcast states of `ctx`."""
