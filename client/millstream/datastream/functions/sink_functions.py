"""`SinkFunction`: a sink that is one function of a record. For what writes batches there is `Sink`.

PyFlink's class of this name stands for one in Java; this is what that one is, in Python. It is at least once: after a
failure, the records since the last checkpoint come again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic

from millstream.core.errors import InvalidProgramError
from millstream.core.records.batches import Watermark
from millstream.core.records.type_variables import T_contra
from millstream.datastream.functions.function import Function


class SinkContext(ABC):
    """The context of a record. One object is used for all records."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """Returns the event time of the record in milliseconds, or None if it has none."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Returns the event time of the operator in milliseconds; -2^63 before the first watermark."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Returns the processing time, in milliseconds since the Unix epoch."""


class SinkFunction(Function, Generic[T_contra]):
    """Writes records one by one; applied with `DataStream.add_sink`.

    It may block, which causes backpressure. After `key_by` it has keyed state. It is at least once: after a failure,
    the records since the last checkpoint are written again.

        class Posts(SinkFunction):
            def open(self, runtime_context: RuntimeContext) -> None:
                self.session = requests.Session()

            def invoke(self, value: str, context: SinkContext) -> None:
                self.session.post("http://localhost:9000/lines", data=value).raise_for_status()
    """

    def __init__(self, sink_func: Any = None) -> None:
        if sink_func is not None:
            raise InvalidProgramError(
                f"SinkFunction({sink_func!r:.100}): there are no functions of Java here; derive a class from it, with "
                "a method invoke(value, context)"
            )

    @abstractmethod
    def invoke(self, value: T_contra, context: SinkContext, /) -> None:
        """Called for each record; writes `value`. An exception fails the job.

        `context` has the timestamp of the record and the clocks.
        """
        raise NotImplementedError

    def write_watermark(self, watermark: Watermark, /) -> None:  # a hook
        """Called when the watermark has advanced."""

    def finish(self) -> None:  # a hook
        """Called after the last record of a bounded stream; has to write all buffered records."""
