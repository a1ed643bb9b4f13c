"""Tumbling and sliding event-time windows that fire once at their end: whole batches and whole windows at a time.

Each window has one value per key (a reduce or an aggregate). A batch is folded into the windows of its records in one
pass; only a new entry sets a timer. When the watermark passes the end of a window, all its keys are read and removed
together. The user function is the only call per record.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice, repeat
from operator import is_, length_hint
from typing import Any, NamedTuple

from millstream.core.jobs.plan.window_plan import WindowSpec
from millstream.core.records.batches import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.datastream.window import EventTimeTrigger, SlidingEventTimeWindows, TumblingEventTimeWindows
from millstream.taskmanager.worker.operators.windows.contents import SingleContents, WindowContents
from millstream.taskmanager.worker.state.table import MISSING
from millstream.taskmanager.worker.state.timers import DueTimers, TimerQueue

_FEW = 8  # records: below, NumPy arrays cost more than they save


class Fired(NamedTuple):
    """A window that has ended: the result of each of its keys."""

    window: Any
    keys: list[Any]
    results: list[Any]
    is_removed: bool


class _Windows(dict[int, tuple[int, int]]):
    """Windows by their start, each created once."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def __missing__(self, start: int) -> tuple[int, int]:
        window = self[start] = (start, start + self._size)
        return window


class AlignedWindows:
    """The aligned windows of one operator, as tuples of start and end, which are also the namespaces of the state."""

    def __init__(
        self, size: int, slide: int, offset: int, lateness: int, contents: SingleContents, timers: TimerQueue
    ) -> None:
        self._size = size
        self._slide = slide
        self._offset = offset
        self._lateness = lateness
        self._contents = contents
        self._timers = timers
        self._windows = _Windows(size)

    def take(
        self, keys: list[Any], rows: list[Any], times: array[int], source: Iterator[Any], watermark: int
    ) -> list[int]:
        """Folds all records; `source` iterates over the rows. Returns the records that must be processed singly.

        These have a window that has ended: it was removed, or fires again at once.
        """
        starts, ended = self._placed_few(times, watermark) if len(times) <= _FEW else self._placed(times, watermark)
        if not ended:
            self._fold(keys, starts, rows, source)
            return []
        if self._size > self._slide:
            # A record whose other windows have not ended shares these with later records, and comes before them.
            for i in ended:
                if self._is_open(starts[i], watermark):
                    ended = sorted({*ended, *range(i, len(times))})
                    break
        gone = set(ended)
        on_time = [i for i in range(len(times)) if i not in gone]
        if on_time:
            chosen = [rows[i] for i in on_time]
            left = iter(chosen)
            with _same_place(source, left, lambda taken: on_time[taken - 1] + 1):
                self._fold([keys[i] for i in on_time], [starts[i] for i in on_time], chosen, left)
        return ended

    def _placed(self, times: array[int], watermark: int) -> tuple[list[int], list[int]]:
        """The start of each record's last window, and the records of which the first window has ended.

        The latter include records without a timestamp, and those whose windows do not fit into 64 bits.
        """
        import numpy as np

        stamps = np.frombuffer(times, np.int64)
        last = stamps - (stamps - self._offset) % self._slide
        ended = (last + (self._slide - 1) <= watermark) | (last > stamps) | (stamps == MIN_TIMESTAMP)
        return last.tolist(), np.flatnonzero(ended).tolist()

    def _placed_few(self, times: array[int], watermark: int) -> tuple[list[int], list[int]]:
        """The same for a few records, in a fifth of the time."""
        offset, slide = self._offset, self._slide
        starts = [time - (time - offset) % slide for time in times]
        oldest, newest = max(watermark - slide + 2, MIN_TIMESTAMP + 1), MAX_TIMESTAMP - self._size + 1
        return starts, [i for i, start in enumerate(starts) if not oldest <= start <= newest]

    def _is_open(self, last: int, watermark: int) -> bool:
        """Whether the last window of a record has not ended, if it has one."""
        return watermark < last + self._size - 1 <= MAX_TIMESTAMP

    def _fold(self, keys: list[Any], starts: list[int], rows: list[Any], source: Iterator[Any]) -> None:
        """Folds record by record: each window gets its records in order of arrival."""
        backs = range(0, self._size, self._slide)
        if len(backs) == 1:
            self._fold_once(keys, starts, source)
            return
        left = iter([row for row in rows for _ in backs])
        with _same_place(source, left, lambda taken: -(-taken // len(backs))):
            starts = [start - back for start in starts for back in backs]
            self._fold_once([key for key in keys for _ in backs], starts, left)

    def _fold_once(self, keys: list[Any], starts: list[int], source: Iterator[Any]) -> None:
        contents, count = self._contents, len(keys)
        windows = list(map(self._windows.__getitem__, starts))
        new: list[int] = []

        def first(record: Any) -> Any:
            new.append(count - length_hint(source) - 1)
            return contents.first(record)

        contents.table.fold(keys, source, contents.fold, namespaces=windows, first=first)
        if new:
            named = [windows[i] for i in new]
            owners = [keys[i] for i in new]
            self._timers.register_all([end - 1 for _, end in named], owners, named)
            if self._lateness:
                self._timers.register_all([end - 1 + self._lateness for _, end in named], owners, named)

    def fire(self, until: int) -> Iterator[Fired]:
        """The windows that have ended, in the order of their ends; their state is removed unless it is still needed."""
        table, result = self._contents.table, self._contents.result
        while (due := self._timers.take_due(until)) is not None:
            for window, keys in _by_window(due):
                ends, is_removed = window[1] - 1 == due.timestamp, window[1] - 1 + self._lateness == due.timestamp
                read = table.take_all if is_removed else table.get_all
                values = read(keys, repeat(window, len(keys)))
                if is_removed:
                    self._windows.pop(window[0], None)
                if ends:
                    if any(map(is_, values, repeat(MISSING))):
                        keys = [key for key, value in zip(keys, values, strict=True) if value is not MISSING]
                        values = [value for value in values if value is not MISSING]
                    yield Fired(window, keys, values if result is None else list(map(result, values)), is_removed)


@contextmanager
def _same_place(source: Iterator[Any], left: Iterator[Any], taken: Callable[[int], int]) -> Iterator[None]:
    """If this fails, advances `source` by as many records as were `taken` for the part of `left` that was consumed."""
    count = length_hint(left)
    try:
        yield
    except BaseException:
        deque(islice(source, taken(count - length_hint(left))), maxlen=0)
        raise


def _by_window(due: DueTimers) -> Iterable[tuple[Any, list[Any]]]:
    """The windows of timers with one timestamp, each with its keys: nearly always one window."""
    namespaces = due.namespaces or []
    if len(windows := set(namespaces)) == 1:
        return [(windows.pop(), due.keys)]
    by_window: dict[Any, list[Any]] = {}
    for key, window in zip(due.keys, namespaces, strict=True):
        by_window.setdefault(window, []).append(key)
    return by_window.items()


def aligned_windows(spec: WindowSpec, contents: WindowContents, timers: TimerQueue) -> AlignedWindows | None:
    """None if the windows are not of this kind. Subclasses of these classes may behave differently."""
    if type(spec.trigger) is not EventTimeTrigger or not isinstance(contents, SingleContents):
        return None
    assigner = spec.assigner
    if type(assigner) is TumblingEventTimeWindows:
        return AlignedWindows(assigner.size, assigner.size, assigner.offset, spec.allowed_lateness, contents, timers)
    if type(assigner) is SlidingEventTimeWindows and assigner.size % assigner.slide == 0:
        return AlignedWindows(assigner.size, assigner.slide, assigner.offset, spec.allowed_lateness, contents, timers)
    return None
