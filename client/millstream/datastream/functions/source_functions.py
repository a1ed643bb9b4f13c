"""`SourceFunction`: a source that is one function, which runs until it returns. For what has splits there is `Source`.

PyFlink's class of this name stands for one in Java; this is what that one is, in Python. `run` has a thread of its own
in its task, and may block. What it collects waits for the task, a few thousand records at the most: then collecting
blocks, which is backpressure.

A function with state is a `CheckpointedFunction` too. Its `snapshot_state` is called on the task's thread, at any
moment between two statements of `run`. So `run` holds the checkpoint lock around what belongs together, as in Flink:

    with ctx.get_checkpoint_lock():
        ctx.collect(self.next)
        self.next += 1

Everything collected before the snapshot leaves before the checkpoint's barrier. A function without state needs no lock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any, Generic

from millstream.core.errors import InvalidProgramError
from millstream.core.records.type_variables import T_co, T_contra
from millstream.datastream.functions.function import Function


class SourceContext(ABC, Generic[T_contra]):
    """Emits the records and watermarks of a source function, from any thread. Raises once the task is cancelled."""

    @abstractmethod
    def collect(self, element: T_contra) -> None:
        """Emits the record `element` without a timestamp. Blocks under backpressure."""

    @abstractmethod
    def collect_with_timestamp(self, element: T_contra, timestamp: int) -> None:
        """Emits the record `element` with its event time, the `timestamp` in milliseconds since the Unix epoch."""

    @abstractmethod
    def emit_watermark(self, timestamp: Any) -> None:
        """Emits a watermark: no record up to `timestamp`, a `Watermark` or its milliseconds, follows.

        Watermarks never decrease.
        """

    @abstractmethod
    def mark_as_temporarily_idle(self) -> None:
        """Marks the source as idle: event time does not wait for it until it emits the next record or watermark."""

    @abstractmethod
    def get_checkpoint_lock(self) -> AbstractContextManager[Any]:
        """Returns the lock that prevents snapshots while it is held; `collect` does not block then. It is reentrant."""

    @abstractmethod
    def is_cancelled(self) -> bool:
        """Returns whether `run` should return: the task is cancelled or stopped, or has failed."""


class SourceFunction(Function, Generic[T_co]):
    """A source that is one function, in one subtask; applied with `StreamExecutionEnvironment.add_source`.

    `open` is called before `run`, and `close` after it has ended. Example:

        class Ticks(SourceFunction[int]):
            def run(self, ctx: SourceContext[int]) -> None:
                number = 0
                while not ctx.is_cancelled():
                    ctx.collect(number)
                    number += 1
    """

    def __init__(self, source_func: Any = None) -> None:
        if source_func is not None:
            raise InvalidProgramError(
                f"SourceFunction({source_func!r:.100}): there are no functions of Java here; derive a class from it, "
                "with a method run(ctx)"
            )

    @abstractmethod
    def run(self, ctx: SourceContext[T_co], /) -> None:
        """Emits records through `ctx`. The source ends when this returns, and fails when it raises."""
        raise NotImplementedError

    def cancel(self) -> None:  # a hook
        """Called on another thread when `run` has to return. Collecting ends it too, by raising.

        A `run` that waits for something outside has to be woken here: a thread that still waits after five seconds is
        abandoned and ends with its process.
        """


class ParallelSourceFunction(SourceFunction[T_co]):
    """A source function that runs in each subtask; `open` receives the number of the subtask in its runtime context."""
