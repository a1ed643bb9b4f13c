"""Functions of two connected streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from millstream.core.records.type_variables import IN1_contra, IN2_contra, K_co, KEY_contra, OUT_co
from millstream.datastream.functions.contexts import Context as _ProcessContext
from millstream.datastream.functions.contexts import KeyedContext
from millstream.datastream.functions.contexts import OnTimerContext as _TimerContext
from millstream.datastream.functions.function import Function, TimedFunction
from millstream.datastream.output_tag import OutputTag

if TYPE_CHECKING:
    from typing_extensions import TypeAliasType


class CoMapFunction(Function, ABC, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Returns one record for each record of two connected streams; a result of None is dropped.

    `CoMapFunction[IN1, IN2, OUT]` declares the types of both inputs and of the results.

        class Texts(CoMapFunction):
            def map1(self, value: int) -> str:
                return str(value)

            def map2(self, value: str) -> str:
                return value
    """

    @abstractmethod
    def map1(self, value: IN1_contra, /) -> OUT_co | None:
        """Called for each record of the first stream, `value`; returns the record that replaces it, or None."""

    @abstractmethod
    def map2(self, value: IN2_contra, /) -> OUT_co | None:
        """Called for each record of the second stream, `value`; returns the record that replaces it, or None."""


class CoFlatMapFunction(Function, ABC, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Returns any number of records for each record of two connected streams: `CoFlatMapFunction[IN1, IN2, OUT]`.

    For example:

        class Words(CoFlatMapFunction):
            def flat_map1(self, value: str) -> Iterator[str]:
                yield from value.split()

            def flat_map2(self, value: list[str]) -> Iterator[str]:
                yield from value
    """

    @abstractmethod
    def flat_map1(self, value: IN1_contra, /) -> Iterable[OUT_co] | None:
        """Called for each record of the first stream, `value`; returns or yields its results."""

    @abstractmethod
    def flat_map2(self, value: IN2_contra, /) -> Iterable[OUT_co] | None:
        """Called for each record of the second stream, `value`; returns or yields its results."""


class CoProcessFunction(Function, ABC, Generic[IN1_contra, IN2_contra, OUT_co]):
    """The general function of two connected streams without keys: `CoProcessFunction[IN1, IN2, OUT]`.

    For example:

        class Both(CoProcessFunction):
            def process_element1(self, value: int, ctx: CoProcessFunction.Context) -> Iterator[str]:
                yield str(value)

            def process_element2(self, value: str, ctx: CoProcessFunction.Context) -> Iterator[str]:
                yield value
    """

    Context: TypeAlias = _ProcessContext

    @abstractmethod
    def process_element1(
        self, value: IN1_contra, ctx: _ProcessContext, /
    ) -> Iterable[OUT_co | tuple[OutputTag[Any], Any]] | None:
        """Called for each record of the first stream, `value`; yields results, or `(tag, result)` for a side output.

        `ctx` has the timestamp of the record.
        """

    @abstractmethod
    def process_element2(
        self, value: IN2_contra, ctx: _ProcessContext, /
    ) -> Iterable[OUT_co | tuple[OutputTag[Any], Any]] | None:
        """Called for each record of the second stream, `value`; yields results, or `(tag, result)` for a side output.

        `ctx` has the timestamp of the record.
        """


class KeyedCoProcessFunction(
    TimedFunction[_TimerContext[KEY_contra], OUT_co], ABC, Generic[KEY_contra, IN1_contra, IN2_contra, OUT_co]
):
    """The general function of two connected keyed streams: `KeyedCoProcessFunction[KEY, IN1, IN2, OUT]`.

    Records of both streams with the same key are processed by the same subtask and share the state of the key.

        class Offers(KeyedCoProcessFunction):
            def open(self, runtime_context: RuntimeContext) -> None:
                self.price = runtime_context.get_state("price", float)

            def process_element1(self, value: Order, ctx: KeyedCoProcessFunction.Context) -> Iterator[Offer]:
                yield Offer(value, self.price.value())

            def process_element2(self, value: Price, ctx: KeyedCoProcessFunction.Context) -> None:
                self.price.update(value.amount)
    """

    if TYPE_CHECKING:  # aliases with a parameter: `Context[str]`, and `Context` alone
        Context = TypeAliasType("Context", KeyedContext[K_co], type_params=(K_co,))
        OnTimerContext = TypeAliasType("OnTimerContext", _TimerContext[K_co], type_params=(K_co,))
    else:
        Context = KeyedContext
        OnTimerContext = _TimerContext

    @abstractmethod
    def process_element1(
        self, value: IN1_contra, ctx: KeyedContext[KEY_contra], /
    ) -> Iterable[OUT_co | tuple[OutputTag[Any], Any]] | None:
        """Called for each record of the first stream, `value`; yields results, or `(tag, result)` for a side output.

        `ctx` has the key and the timestamp of the record, and the timer service.
        """

    @abstractmethod
    def process_element2(
        self, value: IN2_contra, ctx: KeyedContext[KEY_contra], /
    ) -> Iterable[OUT_co | tuple[OutputTag[Any], Any]] | None:
        """Called for each record of the second stream, `value`; yields results, or `(tag, result)` for a side output.

        `ctx` has the key and the timestamp of the record, and the timer service.
        """
