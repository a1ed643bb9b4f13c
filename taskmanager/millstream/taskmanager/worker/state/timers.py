"""Timers as a kind of keyed state: what an operator wants to be called back for, by key, or key and namespace.

A timer is there once, however often it is registered for the same time. It belongs to its key's group, and so is
captured and restored with it, at any parallelism. Each domain has a clock of its own, which the operator advances: it
takes out what is due, in the order of timestamps, and handles it; the order within one timestamp is the backend's own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from typing import Any, NamedTuple, Protocol


class TimeDomain(Enum):
    """Whose clock a timer follows, as snapshots name it."""

    EVENT = "event"
    PROCESSING = "processing"


class Timer(NamedTuple):
    """One that was due; None for its namespace where there are none."""

    timestamp: int
    key: Any
    namespace: Any = None


class DueTimers(NamedTuple):
    """All timers of one timestamp, as parallel columns."""

    timestamp: int
    keys: list[Any]
    namespaces: list[Any] | None


class TimerQueue(Protocol):
    """The timers of one operator in one time domain. Namespaces are given where they were declared, and only there."""

    def register(self, timestamp: int, namespace: Any = None) -> None:
        """A timer of the key at hand; nothing happens when it is there."""

    def delete(self, timestamp: int, namespace: Any = None) -> None:
        """Removes a timer of the key at hand; nothing happens when it is not there."""

    def register_all(
        self, timestamps: Iterable[int], keys: Collection[Any], namespaces: Iterable[Any] | None = None
    ) -> None:
        """The same for many keys at once."""

    def delete_all(
        self, timestamps: Iterable[int], keys: Collection[Any], namespaces: Iterable[Any] | None = None
    ) -> None:
        """The same for many keys at once."""

    def next_timestamp(self) -> int | None:
        """When the next one is due; None: there is none."""

    def owners(self, most: int) -> int:
        """How many keys have timers, or keys with their namespaces; counting ends at `most`, and costs no more."""

    def due(self, until: int) -> Iterator[Timer]:
        """Takes out one after another, in order, as long as they are due: their timestamp is not after `until`.

        Timers that are registered or deleted between two of them count.
        """

    def take_due(self, until: int) -> DueTimers | None:
        """Takes out all timers of the first timestamp, if that is due. Call it until it returns None."""


class Timers(Protocol):
    """The timers of one name."""

    @property
    def event(self) -> TimerQueue:
        """Those that follow the watermark."""

    @property
    def processing(self) -> TimerQueue:
        """Those that follow the machine's clock."""
