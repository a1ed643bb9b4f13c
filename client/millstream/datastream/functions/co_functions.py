"""Functions of two connected streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, TypeAlias

from millstream.datastream.functions.contexts import Context as _ProcessContext
from millstream.datastream.functions.contexts import KeyedContext
from millstream.datastream.functions.contexts import OnTimerContext as _TimerContext
from millstream.datastream.functions.function import Function, TimedFunction


class CoMapFunction(Function, ABC):
    """One record out for each record of two connected streams. A result of None is dropped."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Called for each record of the first stream."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Called for each record of the second stream."""


class CoFlatMapFunction(Function, ABC):
    """Any number out for each record of two connected streams."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Called for each record of the first stream."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Called for each record of the second stream."""


class CoProcessFunction(Function, ABC):
    """The general function of two connected streams: any number out, side outputs, and the record's context."""

    Context: TypeAlias = _ProcessContext

    @abstractmethod
    def process_element1(self, value: Any, ctx: _ProcessContext) -> Iterable[Any] | None:
        """Called for each record of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: _ProcessContext) -> Iterable[Any] | None:
        """Called for each record of the second stream."""


class KeyedCoProcessFunction(TimedFunction[_TimerContext], ABC):
    """The same on two streams that are keyed alike: records of one key meet in one subtask and share its state."""

    Context: TypeAlias = KeyedContext
    OnTimerContext: TypeAlias = _TimerContext

    @abstractmethod
    def process_element1(self, value: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Called for each record of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Called for each record of the second stream."""
