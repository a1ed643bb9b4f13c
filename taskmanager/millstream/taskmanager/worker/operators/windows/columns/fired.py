"""What all windows over columns have in common. Owned by the task's thread, except for frozen tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from millstream.core.jobs.progress import TimedKind

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

START, END = "start", "end"
"""The columns of the interval of a row, in all emitted tables."""
FIRED = "fired"
"""Of stored rows: which windows have fired with them, so that these do not fire again after a restore."""

Waiting = tuple[TimedKind, int, int | None]
"""The kind of pending windows, their number, and the end of the first of them."""

Frozen = Callable[[int], "pa.Table | None"]
"""Combines what is kept in a part into one table with a row per group, if there is any; called on any thread."""


class ColumnWindows(Protocol):
    """The windows of one operator's subtask. Fired windows are emitted as main tables with start and end."""

    def late(self, data: pa.RecordBatch, times: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """Which records arrive after all their windows were removed, as a mask; None: there are none."""

    def take(self, data: pa.RecordBatch, times: npt.NDArray[Any], first: int) -> Iterator[pa.Table]:
        """Adds records that are not late, numbered from `first` on; returns windows that had fired and fire again."""

    def advance(self, watermark: int) -> Iterator[pa.Table]:
        """Fires the windows that have ended, in order, and removes what is not needed any more."""

    def next_end(self) -> int | None:
        """The earliest time at which the next window may end."""

    def waiting(self) -> Waiting:
        """What has not fired, for users; it is cheap."""

    def freeze(self) -> Frozen:
        """The current contents, in tables with start, end and what has fired."""

    def restore(self, part: int, table: pa.Table) -> None:
        """Restores such a table."""
