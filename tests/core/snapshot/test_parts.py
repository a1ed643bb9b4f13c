"""The parts of Parquet files, also of damaged ones: none of these may end the process that opens it."""

from __future__ import annotations

import contextlib
import io
import struct

import pyarrow as pa
import pyarrow.parquet as pq

from millstream.core.snapshot.metadata.model import StateFile
from millstream.core.snapshot.tables.parts import FileParts, open_parts

FILE = StateFile("state.parquet", 0, 0, 128, 6, 0, "")


def parquet(groups: list[int | None], rows_of_a_part: int = 3) -> bytes:
    table = pa.table({"key_group": pa.array(groups, pa.int32()), "value": [str(group) for group in groups]})
    written = io.BytesIO()
    pq.write_table(table, written, row_group_size=rows_of_a_part)
    return written.getvalue()


def opened(data: bytes) -> FileParts:
    return open_parts(data, FILE, "state.parquet")


def test_parts_have_the_key_groups_of_their_rows() -> None:
    parts = opened(parquet([0, 1, 1, 5, 5, 9, 12]))
    assert (parts.count, parts.rows) == (3, 7)
    assert parts.ranges == [(0, 2), (5, 10), (12, 13)]
    assert parts.read([1], ["value"]).column("value").to_pylist() == ["5", "5", "9"]


def test_key_groups_that_are_not_known() -> None:
    assert opened(parquet([None, None])).ranges == [None]
    assert opened(parquet([])).ranges == [None] * opened(parquet([])).count
    written = io.BytesIO()
    pq.write_table(pa.table({"value": [1, 2]}), written)
    assert opened(written.getvalue()).ranges == [None]


def test_no_damaged_byte_of_the_footer_ends_the_process() -> None:
    data = parquet([1, 2, 3])
    (length,) = struct.unpack("<I", data[-8:-4])
    for position in range(len(data) - 8 - length, len(data) - 8):
        for damaged in {0, 35, 255, data[position] ^ 1, data[position] ^ 6} - {data[position]}:
            changed = bytearray(data)
            changed[position] = damaged
            with contextlib.suppress(pa.ArrowException, OSError, ValueError, KeyError):
                parts = opened(bytes(changed))
                if None not in parts.ranges:
                    parts.read(range(parts.count))
