"""Rows in flight through Spark's shuffle: blocks of Arrow columns, each for one of the tasks that write files.

The first half of a write. A task hashes its rows to key groups by the column, sorts them by these, and cuts them by the
key groups that each writing task takes. Spark moves blocks, not rows: nothing is sorted or decoded in the JVM. A block
has the columns of the state and no others; how many rows it has of each key group, and of which side they are when two
are merged, is in its schema. What is wrong with the rows travels as a block too, so that the driver can say it, and
Spark does not try the same rows again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from millstream.core.errors import MillstreamError
from millstream.core.keys.key_groups import key_group_range
from millstream.core.snapshot.metadata.model import TypeJson
from millstream.core.snapshot.tables.key_columns import key_hashes
from millstream.core.snapshot.tables.table import KEY, KEY_GROUP
from millstream.spark.errors import RowFault

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

PART, DATA = "part", "data"
BLOCK_SCHEMA = f"{PART} int, {DATA} binary"
SIDE = "side"
GATHERED = 16 * 1024 * 1024
"""How many bytes of rows a task gathers before it cuts them: a block has a part's share of them."""

_FAULT = b"fault:"
_ABOUT = b"millstream.block"


class Cut(msgspec.Struct, frozen=True):
    """How rows are cut: into key groups, and these into parts. `key` is the stored type of the keys; None: one part."""

    max_parallelism: int
    parts: int
    key: TypeJson | None
    side: int | None = None
    unpickle: bool = False


class _About(msgspec.Struct, frozen=True):
    """What a block's schema holds about its rows: how many each key group has, from the first one on."""

    first: int | None = None
    counts: tuple[int, ...] = ()
    side: int | None = None


class _Keyed(NamedTuple):
    """Rows, and the key group of each; None: they have none."""

    table: pa.Table
    groups: npt.NDArray[np.uint16] | None


def gathered(batches: Iterable[pa.RecordBatch], size: int = GATHERED) -> Iterator[pa.Table]:
    """The rows of many small batches in few tables, for what is done by the column."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        waiting.append(batch)
        held += batch.nbytes
        if held >= size:
            yield pa.Table.from_batches(waiting)
            waiting, held = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def blocks(tables: Iterable[pa.Table], cut: Cut, gathered: int = GATHERED) -> Iterator[pa.RecordBatch]:
    """The rows as blocks; those of tables that raise end with the fault."""
    waiting: list[_Keyed] = []
    size = 0
    try:
        for table in tables:
            waiting.append(_keyed(table, cut))
            size += table.nbytes
            if size >= gathered:
                yield _cut(waiting, cut)
                waiting, size = [], 0
        if waiting:
            yield _cut(waiting, cut)
    except MillstreamError as error:
        batch = _Batch()
        batch.add_fault(str(error))
        yield batch.finished()


def _keyed(table: pa.Table, cut: Cut) -> _Keyed:
    import numpy as np

    table = table.drop_columns(KEY_GROUP) if KEY_GROUP in table.column_names else table
    if cut.key is None:
        return _Keyed(table, None)
    hashes = key_hashes(table.column(KEY).combine_chunks(), cut.key, unpickle=cut.unpickle)
    return _Keyed(table, (hashes % np.uint64(cut.max_parallelism)).astype(np.uint16))


def _cut(rows: list[_Keyed], cut: Cut) -> pa.RecordBatch:
    import numpy as np
    import pyarrow as pa

    batch = _Batch()
    by_schema: dict[Any, list[_Keyed]] = {}  # times have another type in another zone
    for some in rows:
        by_schema.setdefault(tuple(some.table.schema), []).append(some)
    for alike in by_schema.values():
        table = pa.concat_tables([some.table for some in alike]).combine_chunks()
        if cut.key is None:
            batch.add(0, table, _About(side=cut.side))
            continue
        groups = np.concatenate([some.groups for some in alike if some.groups is not None])
        table = table.take(pa.array(np.argsort(groups, kind="stable")))
        counts = np.bincount(groups, minlength=cut.max_parallelism)
        start = 0
        for number in range(cut.parts):
            owned = key_group_range(number, cut.max_parallelism, cut.parts)
            some_counts = counts[owned.start : owned.stop].tolist()
            size = sum(some_counts)
            if size:
                about = _About(owned.start, tuple(some_counts), cut.side)
                batch.add(number, table.slice(start, size), about)
            start += size
    return batch.finished()


class _Batch:
    """A batch of blocks in the making: they are written one behind the other, where they stay."""

    def __init__(self) -> None:
        import pyarrow as pa

        self._sink = pa.BufferOutputStream()
        self._numbers: list[int] = []
        self._ends: list[int] = []

    def add(self, number: int, table: pa.Table, about: _About) -> None:
        """A block for a part."""
        import pyarrow as pa

        table = table.replace_schema_metadata({_ABOUT: msgspec.msgpack.encode(about)})
        with pa.ipc.new_stream(self._sink, table.schema) as writer:
            writer.write_table(table)
        self._end(number)

    def add_fault(self, reason: str) -> None:
        """The error of the rows, which any part may report."""
        self._sink.write(_FAULT + reason.encode())
        self._end(0)

    def _end(self, number: int) -> None:
        self._numbers.append(number)
        self._ends.append(self._sink.tell())

    def finished(self) -> pa.RecordBatch:
        """All blocks, as rows for Spark."""
        import pyarrow as pa

        offsets = pa.array([0, *self._ends], pa.int32()).buffers()[1]
        data = pa.Array.from_buffers(pa.binary(), len(self._ends), [None, offsets, self._sink.getvalue()])
        return pa.RecordBatch.from_arrays([pa.array(self._numbers, pa.int32()), data], [PART, DATA])


def opened(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows of the blocks that came to a part, with key groups and sides. Raises what was wrong with the rows."""
    import numpy as np
    import pyarrow as pa

    for batch in batches:
        for block in batch.column(DATA):
            data = block.as_buffer()
            if data.slice(0, len(_FAULT)).to_pybytes() == _FAULT:
                raise RowFault(data.slice(len(_FAULT)).to_pybytes().decode())
            with pa.ipc.open_stream(data) as reader:
                table = reader.read_all()
            about = msgspec.msgpack.decode(table.schema.metadata[_ABOUT], type=_About)
            table = table.replace_schema_metadata(None)
            if about.first is not None:
                groups = np.arange(about.first, about.first + len(about.counts), dtype=np.int32)
                table = table.add_column(0, KEY_GROUP, pa.array(np.repeat(groups, about.counts)))
            if about.side is not None:
                table = table.append_column(SIDE, pa.array(np.full(table.num_rows, about.side, np.uint8)))
            yield table
