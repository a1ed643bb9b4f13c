"""How many rows a task takes in one step: for its own sake, and for that of its consumers. Pure.

A step should be short, because mails wait meanwhile, and it should not waste a fixed cost, such as a sink's round trip,
on few rows. The time of a step is taken to be `fixed + rows * each`; both are estimated from the last two steps of
different size. The next step aims at 20 ms, or at twice its fixed cost when that is more, and changes by at most two.
From single rows alone a fixed cost cannot be distinguished from a slow row, so that now and then a step of two is
tried. Column sources start with full batches and may take 100 ms: small batches are what makes kernels slow.
"""

from __future__ import annotations

_STEP = 0.02  # seconds
_COLUMN_STEP = 0.1
_FIRST = 2  # rows: a slow function must not have to finish a full batch first
_BATCHES = 12  # of the size that it wants are in flight to a consumer of one channel, by default
_SINGLES = 16  # steps of a single row until two are tried


class Pace:
    """The pace of one task: of at most so many rows, and of so few that few batches of `batch` rows come of a step."""

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
        """Learns from a step of so many rows that took so many seconds and gave so many records."""
        if rows <= 0:
            return
        if rows != self._rows_before:
            if self._rows_before:
                self._each = max(0.0, (took - self._took_before) / (rows - self._rows_before))
            else:
                self._each = took / rows
            self._rows_before, self._took_before = rows, took
        elif not self._took_before / 2 <= took <= 2 * self._took_before:  # the same rows cost something else now
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
    """How many rows a step may take so that what comes of it is what the task's consumers want in one batch.

    A step that gave one of them more is made shorter in proportion; one that gave all of them less than half lets the
    next one be twice as long. A step that takes long may give more: what they process meanwhile. `target` is how long
    what is in flight to a consumer should last, or None when they take anything.
    """

    __slots__ = ("_most", "_target", "rows")

    def __init__(self, most: int, target: float | None) -> None:
        self.rows = most if target is None else 1
        self._most = most
        self._target = target

    def stepped(self, rows: int, took: float, crowding: float) -> None:
        """A step of so many rows gave some consumer so many times the rows that it wants in one batch."""
        if self._target is None:
            return
        crowding /= 1 + _BATCHES * took / self._target
        if crowding > 1.0:
            self.rows = max(1, int(rows / crowding))
        elif crowding <= 0.5 and 2 * rows > self.rows:
            self.rows = min(2 * self.rows, self._most)
