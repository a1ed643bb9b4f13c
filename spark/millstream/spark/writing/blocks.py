"""Rows on their way through Spark's shuffle: blocks of Arrow columns, each for one of the tasks that write files.

The first half of a write. A task hashes its rows to key groups by the column, and cuts them by the key groups that each
writing task takes. Spark moves blocks, not rows: nothing is sorted or decoded in the JVM. What is wrong with the rows
travels as a block too, so that the driver can say it, and Spark does not try the same rows again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from millstream.core.errors import MillstreamError
from millstream.core.keys.key_groups import subtask_of
from millstream.core.snapshot.metadata.model import TypeJson
from millstream.core.snapshot.tables.key_columns import key_hashes
from millstream.core.snapshot.tables.table import KEY, KEY_GROUP
from millstream.spark.errors import RowFault

if TYPE_CHECKING:
    import pyarrow as pa

PART, DATA = "part", "data"
BLOCK_SCHEMA = f"{PART} int, {DATA} binary"
HASH = "hash"
SIDE = "side"
GATHERED = 32 * 1024 * 1024
"""How many bytes of rows a task gathers before it cuts them: a block has a part's share of them."""

_FAULT = b"fault:"


class Cut(msgspec.Struct, frozen=True):
    """How rows are cut: into key groups, and these into parts. `key` is the stored type of the keys; None: one part."""

    max_parallelism: int
    parts: int
    key: TypeJson | None
    side: int = 0
    unpickle: bool = False


def blocks(tables: Iterable[pa.Table], cut: Cut, gathered: int = GATHERED) -> Iterator[pa.RecordBatch]:
    """The rows as blocks; those of tables that raise end with the fault."""
    waiting: list[pa.Table] = []
    size = 0
    try:
        for table in tables:
            waiting.append(_keyed(table, cut))
            size += waiting[-1].nbytes
            if size >= gathered:
                yield _cut(waiting, cut)
                waiting, size = [], 0
        if waiting:
            yield _cut(waiting, cut)
    except MillstreamError as error:
        yield _batch([0], [_FAULT + str(error).encode()])


def _keyed(table: pa.Table, cut: Cut) -> pa.Table:
    """The rows with their key groups and hashes."""
    import numpy as np
    import pyarrow as pa

    side = pa.array(np.full(table.num_rows, cut.side, np.uint8))
    if cut.key is None:
        hashes = np.zeros(table.num_rows, np.uint64)
        return table.append_column(HASH, pa.array(hashes)).append_column(SIDE, side)
    hashes = key_hashes(table.column(KEY).combine_chunks(), cut.key, unpickle=cut.unpickle)
    groups = (hashes % np.uint64(cut.max_parallelism)).astype(np.int32)
    table = table.drop_columns(KEY_GROUP) if KEY_GROUP in table.column_names else table
    table = table.add_column(0, KEY_GROUP, pa.array(groups))
    return table.append_column(HASH, pa.array(hashes)).append_column(SIDE, side)


def _cut(tables: list[pa.Table], cut: Cut) -> pa.RecordBatch:
    import numpy as np
    import pyarrow as pa

    numbers, data = [], []
    by_schema: dict[Any, list[pa.Table]] = {}  # times have another type in another zone
    for table in tables:
        by_schema.setdefault(tuple(table.schema), []).append(table)
    for alike in by_schema.values():
        table = pa.concat_tables(alike)
        if cut.key is None or cut.parts == 1:
            numbers.append(0)
            data.append(_encoded(table))
            continue
        groups: Any = table.column(KEY_GROUP).to_numpy().astype(np.int64)
        part: Any = subtask_of(groups, cut.max_parallelism, cut.parts)
        part = part.astype(np.uint16)
        table = table.combine_chunks().take(pa.array(np.argsort(part, kind="stable")))
        ends = np.cumsum(np.bincount(part, minlength=cut.parts)).tolist()
        for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
            if end > start:
                numbers.append(number)
                data.append(_encoded(table.slice(start, end - start)))
    return _batch(numbers, data)


def _encoded(table: pa.Table) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _batch(numbers: list[int], data: list[bytes]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int32()), pa.array(data, pa.binary())], [PART, DATA])


def opened(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows of the blocks that came to a part. Raises what was wrong with the rows."""
    import pyarrow as pa

    for batch in batches:
        for block in batch.column(DATA):
            data = block.as_buffer()
            if data.slice(0, len(_FAULT)).to_pybytes() == _FAULT:
                raise RowFault(data.slice(len(_FAULT)).to_pybytes().decode())
            with pa.ipc.open_stream(data) as reader:
                yield reader.read_all()
