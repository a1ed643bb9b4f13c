"""The general functions of one stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from millstream.core.records.type_variables import IN_contra, K_co, KEY_contra, OUT_co
from millstream.datastream.functions.contexts import Context as _ProcessContext
from millstream.datastream.functions.contexts import KeyedContext
from millstream.datastream.functions.contexts import OnTimerContext as _TimerContext
from millstream.datastream.functions.function import Function, TimedFunction
from millstream.datastream.output_tag import OutputTag

if TYPE_CHECKING:
    from typing_extensions import TypeAliasType


class ProcessFunction(Function, ABC, Generic[IN_contra, OUT_co]):
    """Emits any number of records for each record, also to side outputs: `ProcessFunction[IN, OUT]`.

    Example:
        INVALID = OutputTag("invalid", Types.STRING())

        class Parse(ProcessFunction[str, int]):
            def process_element(self, value: str, ctx: ProcessFunction.Context) -> Iterator[Any]:
                if value.isdigit():
                    yield int(value)
                else:
                    yield INVALID, value
    """

    Context: TypeAlias = _ProcessContext

    @abstractmethod
    def process_element(
        self, value: IN_contra, ctx: _ProcessContext, /
    ) -> Iterable[OUT_co | tuple[OutputTag[Any], Any]] | None:
        """Called for each record, `value`; yields results, or `(tag, result)` for a side output.

        `ctx` has the timestamp of the record. An exception fails the job.
        """


class KeyedProcessFunction(
    TimedFunction[_TimerContext[KEY_contra], OUT_co], ABC, Generic[KEY_contra, IN_contra, OUT_co]
):
    """The general function of a keyed stream, with keyed state and timers: `KeyedProcessFunction[KEY, IN, OUT]`.

    Example:
        class Count(KeyedProcessFunction[str, Event, tuple[str, int]]):
            def open(self, runtime_context: RuntimeContext) -> None:
                self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

            def process_element(
                self, value: Event, ctx: KeyedProcessFunction.Context
            ) -> Iterator[tuple[str, int]]:
                count = (self.count.value() or 0) + 1
                self.count.update(count)
                yield ctx.get_current_key(), count
    """

    if TYPE_CHECKING:  # aliases with a parameter: `Context[str]`, and `Context` alone
        Context = TypeAliasType("Context", KeyedContext[K_co], type_params=(K_co,))
        OnTimerContext = TypeAliasType("OnTimerContext", _TimerContext[K_co], type_params=(K_co,))
    else:
        Context = KeyedContext
        OnTimerContext = _TimerContext

    @abstractmethod
    def process_element(
        self, value: IN_contra, ctx: KeyedContext[KEY_contra], /
    ) -> Iterable[OUT_co | tuple[OutputTag[Any], Any]] | None:
        """Called for each record, `value`; yields results, or `(tag, result)` for a side output.

        `ctx` has the key and the timestamp of the record, and the timer service. An exception fails the job.
        """
