"""Timers as a kind of keyed state: callbacks that an operator has registered, by key, or by key and namespace.

A timer exists once, however often it is registered for the same time. It belongs to its key's group, and so is captured
and restored with it, at any parallelism. Each domain has a clock of its own, which the operator advances: it takes out
the timers that are due, in the order of timestamps, and handles them; the order within one timestamp is unspecified.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from typing import Any, NamedTuple, Protocol


class TimeDomain(Enum):
    """The clock that a timer follows, as stored in snapshots."""

    EVENT = "event"
    PROCESSING = "processing"


class Timer(NamedTuple):
    """A timer that was due; its namespace is None if there are none."""

    timestamp: int
    key: Any
    namespace: Any = None


class DueTimers(NamedTuple):
    """All timers of one timestamp, as parallel columns."""

    timestamp: int
    keys: list[Any]
    namespaces: list[Any] | None


class TimerQueue(Protocol):
    """The timers of one operator in one time domain. Namespaces are passed if they were declared, and only then."""

    def register(self, timestamp: int, namespace: Any = None) -> None:
        """Registers a timer for the current key, unless it exists."""

    def delete(self, timestamp: int, namespace: Any = None) -> None:
        """Deletes a timer of the current key, if it exists."""

    def register_all(
        self, timestamps: Iterable[int], keys: Collection[Any], namespaces: Iterable[Any] | None = None
    ) -> None:
        """The same for many keys at once."""

    def delete_all(
        self, timestamps: Iterable[int], keys: Collection[Any], namespaces: Iterable[Any] | None = None
    ) -> None:
        """The same for many keys at once."""

    def next_timestamp(self) -> int | None:
        """The timestamp of the next timer; None: there is none."""

    def owners(self, most: int) -> int:
        """How many keys, or keys with namespaces, have timers; counting stops at `most`."""

    def due(self, until: int) -> Iterator[Timer]:
        """Removes and returns timers one after another, in order, as long as they are due: not after `until`.

        Timers that are registered or deleted between two of them take effect.
        """

    def take_due(self, until: int) -> DueTimers | None:
        """Removes and returns all timers of the first timestamp, if it is due. Call it until it returns None."""


class Timers(Protocol):
    """The timers of one name."""

    @property
    def event(self) -> TimerQueue:
        """The event-time timers."""

    @property
    def processing(self) -> TimerQueue:
        """The processing-time timers."""
