"""Reads record batches as they come and hands them on in slices. The position is the number of rows handed on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from millstream.core.records.batches import ColumnBatch
from millstream.datastream.connectors.errors import MalformedInputError
from millstream.datastream.connectors.file_system.splits import FormatReader

if TYPE_CHECKING:
    import pyarrow as pa


class ColumnReader(FormatReader):
    """`batches` starts at row `first_row` of the split; rows before `resume_at` are passed over."""

    def __init__(
        self,
        path: str,
        batches: Iterator[pa.RecordBatch],
        close: Callable[[], None],
        first_row: int = 0,
        resume_at: int = 0,
    ) -> None:
        self._path = path
        self._batches = batches
        self._close = close
        self._batch: pa.RecordBatch | None = None
        self._at = 0
        self._skip = resume_at - first_row
        self._position = resume_at

    def read(self, max_rows: int) -> ColumnBatch | None:
        """A slice of the current batch, or of the next one."""
        while self._batch is None or self._at >= self._batch.num_rows:
            self._batch = self._next_batch()
            if self._batch is None:
                return None
            self._at = min(self._skip, self._batch.num_rows)
            self._skip -= self._at
        piece = self._batch.slice(self._at, max_rows)
        self._at += piece.num_rows
        self._position += piece.num_rows
        return ColumnBatch(piece)

    def _next_batch(self) -> pa.RecordBatch | None:
        import pyarrow as pa

        try:
            return next(self._batches, None)
        except (pa.ArrowException, OSError) as error:
            reason = f"{' '.join(str(error).split())}; behind row {self._position}"
            raise MalformedInputError(self._path, reason) from error

    def position(self) -> int:
        """Rows handed on since the split's start."""
        return self._position

    def close(self) -> None:
        """Drops what is held and closes the file."""
        self._batch = None
        self._close()
