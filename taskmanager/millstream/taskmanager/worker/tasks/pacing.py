"""How many rows a task takes in one step, for its own latency and for that of its consumers. Pure.

A step should be short, because mails wait meanwhile, and it should not spend a fixed cost, such as a round trip of a
sink, on few rows. The duration of a step is modelled as `fixed + rows * each`; both are estimated from the last two
steps of different size. The next step aims at 20 ms, or at twice its fixed cost if that is longer, and its size changes
by at most a factor of two. Steps of single rows cannot distinguish a fixed cost from a slow row, so a step of two is
tried from time to time. Column sources start with full batches and may take 100 ms, because small batches make kernels
slow.
"""

from __future__ import annotations

_STEP = 0.02  # seconds
_COLUMN_STEP = 0.1
_FIRST = 2  # rows: a slow function must not have to finish a full batch first
_BATCHES = 12  # batches of the preferred size in flight to a consumer of one channel, by default
_SINGLES = 16  # steps of a single row until two are tried


class Pace:
    """The pace of one task: at most `limit` rows, and few enough that a step emits few batches of `batch` rows."""

    __slots__ = ("_aim", "_batch", "_each", "_fixed", "_most", "_rows_before", "_singles", "_took_before", "rows")

    def __init__(self, most: int, columns: bool = False, batch: int | None = None) -> None:
        self.rows = most if columns else min(_FIRST, most)
        self._aim = _COLUMN_STEP if columns else _STEP
        self._most = most
        self._batch = batch or most
        self._rows_before = 0
        self._took_before = 0.0
        self._each = 0.0
        self._fixed = 0.0
        self._singles = 0

    def stepped(self, rows: int, took: float, records_out: int) -> None:
        """Learns from a step that processed so many rows in so many seconds and emitted so many records."""
        if rows <= 0:
            return
        if rows != self._rows_before:
            if self._rows_before:
                self._each = max(0.0, (took - self._took_before) / (rows - self._rows_before))
            else:
                self._each = took / rows
            self._rows_before, self._took_before = rows, took
        elif not self._took_before / 2 <= took <= 2 * self._took_before:  # the cost of the same rows has changed
            self._each, self._took_before = took / rows, took
        self._fixed = max(0.0, took - self._each * rows)
        aim = max(self._aim, 3 * self._fixed)
        wanted = self._most if self._each == 0.0 else int((aim - self._fixed) / self._each)
        is_exploding = records_out > 4 * self._batch
        if is_exploding:
            wanted = min(wanted, rows // 2)
        self.rows = max(1, min(wanted, 2 * self.rows, self._most), min(self.rows // 2, self._most))
        self._singles = self._singles + 1 if rows == self.rows == 1 and not is_exploding else 0
        if self._singles == _SINGLES:
            self._singles, self.rows = 0, min(2, self._most)


class Outlet:
    """How many rows a step may take so that each consumer gets about what it wants in one batch.

    A step that emitted more to one of them shortens the next in proportion; one that emitted less than half to each of
    them lets the next be twice as long. A step that takes long may emit more: as much as the consumers process
    meanwhile. `target` is how long the records in flight to a consumer should last, or None if consumers set no limit.
    """

    __slots__ = ("_most", "_target", "rows")

    def __init__(self, most: int, target: float | None) -> None:
        self.rows = most if target is None else 1
        self._most = most
        self._target = target

    def stepped(self, rows: int, took: float, crowding: float) -> None:
        """Learns from a step that emitted to some consumer `crowding` times the rows that it wants in one batch."""
        if self._target is None:
            return
        crowding /= 1 + _BATCHES * took / self._target
        if crowding > 1.0:
            self.rows = max(1, int(rows / crowding))
        elif crowding <= 0.5 and 2 * rows > self.rows:
            self.rows = min(2 * self.rows, self._most)
