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
from typing import Any, Generic, TypeVar

from millstream.core.errors import InvalidProgramError
from millstream.datastream.functions.function import Function

T = TypeVar("T")


class SourceContext(ABC, Generic[T]):
    """What `run` emits through, from any thread. Emitting raises once the task has been cancelled."""

    @abstractmethod
    def collect(self, element: T) -> None:
        """Emits a record without a timestamp. Blocks while the task has enough to do."""

    @abstractmethod
    def collect_with_timestamp(self, element: T, timestamp: int) -> None:
        """Emits a record with its event time, in milliseconds since the epoch."""

    @abstractmethod
    def emit_watermark(self, timestamp: Any) -> None:
        """Says that no record up to this time follows: a `Watermark`, or its milliseconds. It never goes back."""

    @abstractmethod
    def mark_as_temporarily_idle(self) -> None:
        """Says that event time need not wait for this source, until it emits the next record or watermark."""

    @abstractmethod
    def get_checkpoint_lock(self) -> AbstractContextManager[Any]:
        """While it is held no snapshot is taken, and backpressure does not block. May be taken again inside."""

    @abstractmethod
    def is_cancelled(self) -> bool:
        """Whether `run` should return: the task has been cancelled or stopped, or has failed."""


class SourceFunction(Function, Generic[T]):
    """Runs in one subtask. `open` is called before `run`, and `close` after it has ended."""

    def __init__(self, source_func: Any = None) -> None:
        if source_func is not None:
            raise InvalidProgramError(
                f"SourceFunction({source_func!r:.100}): there are no functions of Java here; derive a class from it, "
                "with a method run(ctx)"
            )

    @abstractmethod
    def run(self, ctx: SourceContext[T]) -> None:
        """Emits through the context. When it returns the source has ended, and when it raises it has failed."""
        raise NotImplementedError

    def cancel(self) -> None:  # a hook
        """Called on another thread when `run` should return at once. Collecting ends it too, by raising.

        One that waits for something outside has to be woken here: whatever it waits in after five seconds is left
        behind, on a thread that ends with its process.
        """


class ParallelSourceFunction(SourceFunction[T]):
    """Runs in each subtask, as many as the operator has; which one it is the runtime context says, in `open`."""
