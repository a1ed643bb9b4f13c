"""The evictors of Flink: by the number of records, by their time, and by how much they differ from the last."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic

from millstream.common.time import Interval
from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.type_variables import T, W
from millstream.datastream.window.evictor import Evictor, TimestampedValue
from millstream.datastream.window.lengths import milliseconds, positive_count


class _OneSidedEvictor(Evictor[T, W]):
    """Evicts before the window function, or after it."""

    def __init__(self, do_evict_after: bool) -> None:
        self.do_evict_after = do_evict_after

    @override
    def evict_before(
        self, elements: list[TimestampedValue[T]], size: int, window: W, evictor_context: Evictor.EvictorContext
    ) -> None:
        if not self.do_evict_after:
            self._evict(elements)

    @override
    def evict_after(
        self, elements: list[TimestampedValue[T]], size: int, window: W, evictor_context: Evictor.EvictorContext
    ) -> None:
        if self.do_evict_after:
            self._evict(elements)

    @abstractmethod
    def _evict(self, elements: list[TimestampedValue[T]]) -> None: ...


class CountEvictor(_OneSidedEvictor[T, W]):
    """Keeps the last records of a window, up to a number."""

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self.max_count = positive_count("CountEvictor", "max_count", max_count)

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor[Any, Any]:
        """Keeps the last `max_count` records.

        Evicts before the function is called, or after it with `do_evict_after`.
        """
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue[T]]) -> None:
        del elements[: -self.max_count]

    def __repr__(self) -> str:
        return f"CountEvictor({self.max_count})"


class TimeEvictor(_OneSidedEvictor[T, W]):
    """Keeps the records that are less than so much older than the newest; those without a timestamp stay."""

    def __init__(self, window_size: Interval, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self.window_size = milliseconds("TimeEvictor", "window_size", window_size)
        if self.window_size < 0:
            raise InvalidProgramError(f"TimeEvictor: window_size must not be negative, not {self.window_size} ms")

    @staticmethod
    def of(window_size: Interval, do_evict_after: bool = False) -> TimeEvictor[Any, Any]:
        """Keeps the records of the last `window_size`, a duration.

        Records are evicted before the function is called, or after it with `do_evict_after`.
        """
        return TimeEvictor(window_size, do_evict_after)

    def _evict(self, elements: list[TimestampedValue[T]]) -> None:
        newest = max((e.timestamp for e in elements if e.timestamp is not None), default=None)
        if newest is not None:
            limit = newest - self.window_size
            elements[:] = [e for e in elements if e.timestamp is None or e.timestamp > limit]

    def __repr__(self) -> str:
        return f"TimeEvictor({self.window_size})"


class DeltaFunction(ABC, Generic[T]):
    """How much two records differ; a callable `(old, new)` does as well."""

    @abstractmethod
    def get_delta(self, old_data_point: T, new_data_point: T, /) -> float:
        """Returns the difference of `old_data_point` and `new_data_point`."""


class DeltaEvictor(_OneSidedEvictor[T, W]):
    """Evicts the records that differ from the last one by the threshold or more."""

    def __init__(
        self, threshold: float, delta_function: DeltaFunction[T] | Callable[[T, T], float], do_evict_after: bool = False
    ) -> None:
        super().__init__(do_evict_after)
        if isinstance(threshold, bool) or not isinstance(threshold, int | float):
            raise InvalidProgramError(f"DeltaEvictor: threshold must be a number, not {threshold!r}")
        delta: Any = delta_function.get_delta if isinstance(delta_function, DeltaFunction) else delta_function
        if not callable(delta):
            raise InvalidProgramError(
                f"DeltaEvictor: expected a DeltaFunction or a callable (old, new), got {delta_function!r}"
            )
        self.threshold = threshold
        self.delta_function = delta_function
        self._delta = delta

    @staticmethod
    def of(
        threshold: float, delta_function: DeltaFunction[T] | Callable[[T, T], float], do_evict_after: bool = False
    ) -> DeltaEvictor[T, Any]:
        """Evicts records that differ from the last one by `threshold` or more.

        `delta_function` is a DeltaFunction or a callable `(old, new)`. Records are evicted before the function is
        called, or after it with `do_evict_after`.
        """
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: list[TimestampedValue[T]]) -> None:
        if elements:
            last = elements[-1].value
            elements[:] = [e for e in elements if self._delta(e.value, last) < self.threshold]

    def __repr__(self) -> str:
        return f"DeltaEvictor({self.delta_function!r}, {self.threshold})"
