"""`SinkFunction`: a sink that is one function of a record. For what writes batches there is `Sink`.

PyFlink's class of this name stands for one in Java; this is what that one is, in Python. It is at least once: after a
failure, the records since the last checkpoint come again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from millstream.core.errors import InvalidProgramError
from millstream.core.records.batches import Watermark
from millstream.datastream.functions.function import Function

T = TypeVar("T")


class SinkContext(ABC):
    """What is known of the record at hand; one object serves all of them."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """The record's event time, if it has one."""

    @abstractmethod
    def current_watermark(self) -> int:
        """How far event time has come."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The machine's clock, in milliseconds since the epoch."""


class SinkFunction(Function, Generic[T]):
    """Called for each record. It may block, which is backpressure; behind `key_by` it has keyed state."""

    def __init__(self, sink_func: Any = None) -> None:
        if sink_func is not None:
            raise InvalidProgramError(
                f"SinkFunction({sink_func!r:.100}): there are no functions of Java here; derive a class from it, with "
                "a method invoke(value, context)"
            )

    @abstractmethod
    def invoke(self, value: T, context: SinkContext) -> None:
        """Writes a record."""
        raise NotImplementedError

    def write_watermark(self, watermark: Watermark) -> None:  # a hook
        """Called when event time has moved."""

    def finish(self) -> None:  # a hook
        """Called after the last record of a bounded stream: what is held has to be out when it returns."""
