"""The general functions of one stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, TypeAlias

from millstream.datastream.functions.contexts import Context as _ProcessContext
from millstream.datastream.functions.contexts import KeyedContext
from millstream.datastream.functions.contexts import OnTimerContext as _TimerContext
from millstream.datastream.functions.function import Function, TimedFunction


class ProcessFunction(Function, ABC):
    """The general function: any number out, side outputs, and the record's context."""

    Context: TypeAlias = _ProcessContext

    @abstractmethod
    def process_element(self, value: Any, ctx: _ProcessContext) -> Iterable[Any] | None:
        """Called for each record; yields results, or `(tag, result)` for a side output."""


class KeyedProcessFunction(TimedFunction[_TimerContext], ABC):
    """The same on a keyed stream, with timers."""

    Context: TypeAlias = KeyedContext
    OnTimerContext: TypeAlias = _TimerContext

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Called for each record; yields results, or `(tag, result)` for a side output."""
