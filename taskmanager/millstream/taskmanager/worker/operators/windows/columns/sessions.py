"""Session windows of columns: rows of a key whose intervals overlap or touch are one session.

Each record is an interval from its time on, as long as the gap. Records are buffered; they are merged with the existing
sessions when one of these may have ended, or when there are many: rows are sorted by key and start, and a new session
begins with a new key, or where a start is after all ends before it. Sessions of all keys are in one table. Invariant:
after each watermark, all sessions that have ended have fired, and `fired` is set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from millstream.core.jobs.progress import TimedKind
from millstream.core.records.batches import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.taskmanager.worker.operators.columns.partials import Partials
from millstream.taskmanager.worker.operators.windows.columns.fired import END, FIRED, START, Frozen, Waiting
from millstream.taskmanager.worker.operators.windows.columns.intervals import components

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

_AT_LEAST = 64 * 1024  # rows
_SESSION = "session"


class SessionWindows:
    """Session windows with one gap for all records. See `ColumnWindows`."""

    def __init__(self, gap: int, lateness: int, partials: Partials) -> None:
        self._gap, self._lateness = gap, lateness
        self._partials = partials
        self._tables: list[list[pa.Table]] = [[] for _ in range(1 + len(partials.distinct))]
        self._rows = 0
        self._merged_rows = 0
        self._is_merged = True
        self._next = MAX_TIMESTAMP  # no session ends or is removed before this time
        self._watermark = MIN_TIMESTAMP

    # Records

    def late(self, data: pa.RecordBatch, times: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """The records whose session, with all that it has merged with by then, was removed."""
        watermark = self._watermark
        suspects = times + (self._gap - 1 + self._lateness) <= watermark
        if not suspects.any():
            return None
        import numpy as np
        import pyarrow as pa

        self._merge()
        spans = self._partials.of_records(data, 0, self._spans(times))[0].select(self._span_columns())
        sessions = [table.select(self._span_columns()) for table in self._tables[0]]
        (*of_sessions, of_records), merged = components([*sessions, spans], self._partials.key_names)
        ends = merged.column(END).to_numpy()
        late: npt.NDArray[Any] = suspects & (ends[of_records] - 1 + self._lateness <= watermark)
        # Whether the remaining suspects are late depends on the order in which the records of their session arrive.
        unclear = np.unique(of_records[suspects & ~late])
        if len(unclear):
            spans_of: dict[int, list[tuple[int, int]]] = {number: [] for number in unclear.tolist()}
            for table, numbers in zip(sessions, of_sessions, strict=True):
                chosen = np.isin(numbers, unclear)
                mine = table.filter(pa.array(chosen))
                known = zip(mine.column(START).to_pylist(), mine.column(END).to_pylist(), strict=True)
                for number, span in zip(numbers[chosen].tolist(), known, strict=True):
                    spans_of[number].append(span)
            for row in np.flatnonzero(np.isin(of_records, unclear)).tolist():
                late[row] = self._is_late(spans_of[int(of_records[row])], int(times[row]))
        return late if late.any() else None

    def _is_late(self, sessions: list[tuple[int, int]], time: int) -> bool:
        start, end = time, time + self._gap
        touching = [session for session in sessions if session[0] <= end and start <= session[1]]
        start, end = min([start, *(s for s, _ in touching)]), max([end, *(e for _, e in touching)])
        if end - 1 + self._lateness <= self._watermark:
            return True
        sessions[:] = [session for session in sessions if session not in touching]
        sessions.append((start, end))
        return False

    def take(self, data: pa.RecordBatch, times: npt.NDArray[Any], first: int) -> Iterator[pa.Table]:
        """Adds records; sessions that had ended fire again at once."""
        import pyarrow as pa

        rows = len(times)
        for part, table in enumerate(self._partials.of_records(data, first, self._spans(times))):
            if part == 0:
                table = table.append_column(FIRED, pa.repeat(0, rows))
            self._tables[part].append(table)
        self._rows += rows
        self._is_merged = False
        self._next = min(self._next, int(times.min()) + self._gap - 1)
        if self._rows >= max(_AT_LEAST, 2 * self._merged_rows):
            self._merge()
        if self._next <= self._watermark:
            yield from self._fire()

    def _spans(self, times: npt.NDArray[Any]) -> dict[str, Any]:
        import pyarrow as pa

        return {START: pa.array(times), END: pa.array(times + self._gap)}

    def _span_columns(self) -> list[str]:
        return [START, END, *self._partials.key_names]

    # Windows

    def advance(self, watermark: int) -> Iterator[pa.Table]:
        """Fires all sessions that have ended, in one table."""
        self._watermark = watermark
        if self._next <= watermark:
            yield from self._fire()

    def next_end(self) -> int | None:
        """The earliest possible end of a session."""
        return None if self._next == MAX_TIMESTAMP else self._next + 1

    def waiting(self) -> Waiting:
        """The sessions, and buffered records that may yet merge."""
        return TimedKind.SESSIONS, self._rows, self.next_end()

    def _fire(self) -> Iterator[pa.Table]:
        import numpy as np
        import pyarrow as pa

        self._merge()
        if not self._tables[0]:
            self._next = MAX_TIMESTAMP
            return
        main = self._tables[0][0]
        last = main.column(END).to_numpy() - 1
        fired = main.column(FIRED).to_numpy() != 0
        due = (last <= self._watermark) & ~fired
        if due.any():
            yield self._results(main.filter(pa.array(due)))
            place = main.schema.get_field_index(FIRED)
            main = main.set_column(place, FIRED, pa.array((fired | due).astype(np.int64)))
        fired = fired | due
        stays = last + self._lateness > self._watermark
        self._tables[0] = [main]
        if not stays.all():
            for part, tables in enumerate(self._tables):
                if tables:
                    ends = tables[0].column(END).to_numpy()
                    tables[0] = tables[0].filter(pa.array(ends - 1 + self._lateness > self._watermark))
                    self._tables[part] = [tables[0]] if tables[0].num_rows else []
        upcoming = np.where(fired, last + self._lateness, last)[stays]
        self._next = int(upcoming.min()) if len(upcoming) else MAX_TIMESTAMP
        self._rows = self._merged_rows = int(stays.sum())

    def _results(self, due: pa.Table) -> pa.Table:
        """Adds the counts of distinct values."""
        partials, groups = self._partials, self._span_columns()
        tables, counted = [due], []
        for number, distinct in enumerate(partials.distinct):
            if self._tables[number + 1]:
                tables.append(partials.counted(number, self._tables[number + 1], groups))
                counted.append((distinct.name, "sum"))
        if not counted:
            return due
        result = partials.combined(tables, groups, [*counted, (FIRED, "max")])
        return result.filter(result.column(FIRED).is_valid())  # the others are not due

    def _merge(self) -> None:
        if not self._is_merged:
            self._tables = [[] if table is None else [table] for table in _merged(self._partials, self._tables)]
            self._rows = self._merged_rows = self._tables[0][0].num_rows
            self._is_merged = True

    # Snapshots

    def freeze(self) -> Frozen:
        """Keeps references to all tables; they are merged once, where needed."""
        tables, merged = [list(part) for part in self._tables], list[Any]()

        def frozen(part: int) -> pa.Table | None:
            if not merged:
                merged.extend(_merged(self._partials, tables) if tables[0] else [None] * len(tables))
            table: pa.Table | None = merged[part]
            return table

        return frozen

    def restore(self, part: int, table: pa.Table) -> None:
        """Restores sessions."""
        import pyarrow.compute as pc

        self._tables[part].append(table)
        self._is_merged = False
        if part == 0 and table.num_rows:
            self._rows += table.num_rows
            self._next = min(self._next, pc.min(table.column(END)).as_py() - 1)


def _merged(partials: Partials, parts: Sequence[Sequence[pa.Table]]) -> list[pa.Table | None]:
    """The rows of each part, one per session, or one per session and value."""
    import pyarrow as pa

    keys = partials.key_names
    whole = [pa.concat_tables(tables, promote_options="default") if tables else None for tables in parts]
    present = [table for table in whole if table is not None]
    of_rows, sessions = components([table.select([START, END, *keys]) for table in present], keys)
    merged: list[pa.Table | None] = []
    owners = iter(of_rows)
    for part, table in enumerate(whole):
        if table is None:
            merged.append(None)
            continue
        table = table.drop_columns([START, END, *keys]).append_column(_SESSION, pa.array(next(owners)))
        if part == 0:
            grouped = partials.combined([table], [_SESSION], [(FIRED, "min")])
        else:
            grouped = partials.different([table], [_SESSION])
        places = sessions.take(grouped.column(_SESSION))
        grouped = grouped.drop_columns(_SESSION)
        merged.append(pa.table([*places.columns, *grouped.columns], [*places.column_names, *grouped.column_names]))
    return merged
