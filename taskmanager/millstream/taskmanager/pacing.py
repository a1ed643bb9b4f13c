"""How many rows a task takes in one step. Pure.

A step should be short, because mails wait meanwhile, and it should not waste a fixed cost, such as a sink's round trip,
on few rows. The time of a step is taken to be `fixed + rows * each`; both are estimated from the last two steps of
different size. The next step aims at 20 ms, or at twice its fixed cost when that is more, and changes by at most two.
Column sources start with full batches and may take 100 ms: small batches are what makes kernels slow.
"""

from __future__ import annotations

_STEP = 0.02  # seconds
_COLUMN_STEP = 0.1
_FIRST = 16  # rows: a slow function must not have to finish a full batch first


class Pace:
    """The pace of one task."""

    __slots__ = ("_aim", "_each", "_fixed", "_most", "_rows_before", "_took_before", "rows")

    def __init__(self, most: int, columns: bool = False) -> None:
        self.rows = most if columns else min(_FIRST, most)
        self._aim = _COLUMN_STEP if columns else _STEP
        self._most = most
        self._rows_before = 0
        self._took_before = 0.0
        self._each = 0.0
        self._fixed = 0.0

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
        if records_out > 4 * self._most:
            wanted = min(wanted, rows // 2)
        self.rows = max(1, min(wanted, 2 * self.rows, self._most), min(self.rows // 2, self._most))
