"""What a function counts and measures for its users: metrics of a subtask.

They are read where the task reports what it has done, on the thread that calls the function.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable


class Counter:
    """A metric that counts; reported with the task's metrics and with the job's result."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Adds `n` to the count."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Subtracts `n` from the count."""
        self._count -= n

    def get_count(self) -> int:
        """The count so far."""
        return self._count


class Meter:
    """How many events there are in a second, over the last while."""

    __slots__ = ("_count", "_seen", "_span")

    def __init__(self, time_span_in_seconds: int = 60) -> None:
        if isinstance(time_span_in_seconds, bool) or not time_span_in_seconds > 0:
            raise ValueError(f"the time span of a meter is a number of seconds above 0, not {time_span_in_seconds!r}")
        self._count = 0
        self._span = time_span_in_seconds
        self._seen: deque[tuple[float, int]] = deque()  # when it was looked at, and the count then

    def mark_event(self, value: int = 1) -> None:
        """Counts `value` events."""
        self._count += value

    def get_count(self) -> int:
        """All events so far."""
        return self._count

    def rate(self, now: float) -> float:
        """Events for each second of the time span, as far as it was looked at; `now` is of a clock in seconds."""
        seen = self._seen
        while len(seen) > 1 and seen[1][0] <= now - self._span:
            seen.popleft()
        seen.append((now, self._count))
        since, count = seen[0]
        return (self._count - count) / (now - since) if now > since else 0.0


_RECENT = 1024


class Distribution:
    """How values are spread: their number, sum, smallest, largest and mean, and the last of them."""

    __slots__ = ("count", "maximum", "minimum", "recent", "total")

    def __init__(self) -> None:
        self.recent: deque[float] = deque(maxlen=_RECENT)
        """The last values, which reported quantiles are of."""
        self.count = 0
        self.total: float = 0
        self.minimum: float | None = None
        self.maximum: float | None = None

    def update(self, value: float) -> None:
        """Takes a value in."""
        self.count += 1
        self.recent.append(value)
        self.total += value
        self.minimum = value if self.minimum is None else min(self.minimum, value)
        self.maximum = value if self.maximum is None else max(self.maximum, value)

    def readings(self) -> dict[str, float]:
        """What there is to say, by name; before the first value, that there is none."""
        if self.minimum is None or self.maximum is None:
            return {"count": 0}
        mean = self.total / self.count
        return {
            "count": self.count, "sum": self.total, "min": self.minimum, "max": self.maximum, "mean": mean
        }  # fmt: skip


class MetricGroup(ABC):
    """Where a function registers its metrics."""

    @abstractmethod
    def counter(self, name: str) -> Counter:
        """The counter of this name in this subtask; the same one each time."""

    @abstractmethod
    def gauge(self, name: str, obj: Callable[[], float]) -> None:
        """Registers the gauge `name`, in place of an earlier one.

        `obj` is called for a number whenever metrics are reported.
        """

    @abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Returns the meter `name` of this subtask; the same one each time.

        Its rate is that of `time_span_in_seconds`.
        """

    @abstractmethod
    def distribution(self, name: str) -> Distribution:
        """The distribution of this name in this subtask; the same one each time."""

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Returns the group `name`, whose metrics are named below this group's.

        With `extra` it is one of several of a kind: `add_group("shard", "7")` is `shard.7` in names, and where metrics
        have labels, `shard` with a label `shard="7"`.
        """
