"""What windows over columns have in common, of whatever kind. Owned by the task's thread, but for what is frozen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from millstream.core.jobs.progress import TimedKind

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

START, END = "start", "end"
"""The columns of where in time a row belongs, in all tables that leave."""
FIRED = "fired"
"""Of stored rows: which windows have fired with them already, so that these do not after a restore."""

Waiting = tuple[TimedKind, int, int | None]
"""What kind of windows wait, how many, and the end of the first of them."""

Frozen = Callable[[int], "pa.Table | None"]
"""Makes one table, with a row for each group, of what is kept in a part, if there is any; on any thread."""


class ColumnWindows(Protocol):
    """The windows of one operator's subtask. Windows that have fired are emitted as main tables with start and end."""

    def late(self, data: pa.RecordBatch, times: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """Which records come when all their windows are gone, as a mask; None: there are none."""

    def take(self, data: pa.RecordBatch, times: npt.NDArray[Any], first: int) -> Iterator[pa.Table]:
        """Records that are not late, numbered from `first` on; windows that had fired and fire again with them."""

    def advance(self, watermark: int) -> Iterator[pa.Table]:
        """Windows that end by then, in their order; what is not needed any more is forgotten."""

    def next_end(self) -> int | None:
        """Not before when the next window ends."""

    def waiting(self) -> Waiting:
        """What has not fired, for people; it costs little."""

    def freeze(self) -> Frozen:
        """Everything as it is now, in tables with start, end and what has fired."""

    def restore(self, part: int, table: pa.Table) -> None:
        """Takes over such a table."""
