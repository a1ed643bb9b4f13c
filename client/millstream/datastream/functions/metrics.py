"""What a function counts for its users: metrics of a subtask."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Counter:
    """A metric that counts; reported with the task's metrics and with the job's result."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Adds to the count."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Takes from the count."""
        self._count -= n

    def get_count(self) -> int:
        """The count so far."""
        return self._count


class MetricGroup(ABC):
    """Where a function registers its metrics."""

    @abstractmethod
    def counter(self, name: str) -> Counter:
        """The counter of this name in this subtask; the same one each time."""

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """A group whose metrics are named below this one's."""
