"""Bucket assigners, and the folders that a file sink makes for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sink_harness import SinkHarness, write_all

from millstream.core.clock import ManualClock
from millstream.core.records.batches import ColumnBatch, RowBatch, lines_of
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system import BucketAssigner, FileSink

NO_BUCKETS = ["/etc", "../up", "a/../b", "a//b", "_hidden", ".hidden", "a/.b", "nul\0"]
NOON = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC


def contents(folder: Path) -> dict[str, list[str]]:
    """The lines of the visible files, by folder."""
    return {str(p.parent.relative_to(folder)): p.read_text().split() for p in folder.rglob("part-*")}


def bucket_at(milliseconds: int, *arguments: Any) -> str:
    ((bucket, _),) = BucketAssigner.date_time_bucket_assigner(*arguments).split(RowBatch([1]), milliseconds)
    return bucket


def test_everything_goes_to_the_base_path_by_default(tmp_path: Path) -> None:
    sink = FileSink.for_row_format(tmp_path)
    for chosen in (sink, sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())):
        write_all(chosen, RowBatch(["a"]))
    assert contents(tmp_path) == {".": ["a"]}
    assert len(list(tmp_path.iterdir())) == 2


def test_dates_are_written_with_javas_letters() -> None:
    assert bucket_at(NOON, "yyyy-MM-dd--HH", "UTC") == "2023-11-14--22"
    assert bucket_at(NOON, "yyyy-MM-dd--HH", "Asia/Tokyo") == "2023-11-15--07"
    assert bucket_at(NOON, "yyyy-MM-dd--HH", "GMT-08:00") == "2023-11-14--14"
    assert bucket_at(NOON, "dd--HHmm", "+05:30") == "15--0343"
    assert bucket_at(NOON, "'year='yyyy/'day='DDD/HHmmss", "UTC") == "year=2023/day=318/221320"
    assert bucket_at(NOON, "yy''%MM", "UTC") == "23'%11"
    assert len(bucket_at(NOON)) == len("2023-11-14--22")


def test_buckets_by_time_change_with_the_clock(tmp_path: Path) -> None:
    clock = ManualClock(NOON)
    assigner = BucketAssigner.date_time_bucket_assigner(timezone_id="UTC")
    writer = SinkHarness(FileSink.for_row_format(tmp_path).with_bucket_assigner(assigner).with_clock(clock))
    writer.write(RowBatch(["a"]))
    clock.advance(3600)
    writer.write(RowBatch(["b"]))
    writer.end()
    assert contents(tmp_path) == {"2023-11-14--22": ["a"], "2023-11-14--23": ["b"]}


def test_buckets_by_a_function_of_the_record(tmp_path: Path) -> None:
    assigner = BucketAssigner.custom_bucket_assigner(lambda row: f"by/{row % 2}")
    sink = FileSink.for_row_format(tmp_path).with_bucket_assigner(assigner)
    writer = SinkHarness(sink, checkpointed=True)
    writer.write(RowBatch([1, 2, 3]))
    held = writer.checkpoint(1)
    writer.close()
    writer = SinkHarness(sink, attempt=1, checkpointed=True, restored=held)
    writer.write(RowBatch([4, 5]))
    writer.finish()
    writer.commit(2)
    writer.close()
    assert contents(tmp_path) == {"by/1": ["1", "3", "5"], "by/0": ["2", "4"]}
    assert not list(tmp_path.rglob(".*"))


def test_columns_stay_columns(tmp_path: Path) -> None:
    assigner = BucketAssigner.custom_bucket_assigner(lambda row: row.c)
    batch = ColumnBatch(pa.RecordBatch.from_pydict({"c": ["x", "y", "x"], "i": [1, 2, 3]}))
    write_all(FileSink.for_parquet(tmp_path).with_bucket_assigner(assigner), batch)
    assert {f.parent.name: pq.read_table(f)["i"].to_pylist() for f in tmp_path.rglob("part-*")} == {
        "x": [1, 3], "y": [2],
    }  # fmt: skip


@given(st.lists(st.integers(0, 5)), st.booleans())
def test_a_split_keeps_every_record_and_its_order(values: list[int], columns: bool) -> None:
    batch = ColumnBatch(pa.RecordBatch.from_pydict({"value": values})) if columns else RowBatch(values)
    parts = dict(BucketAssigner.custom_bucket_assigner(lambda value: f"b{value % 3}").split(batch, 0))
    assert {bucket: lines_of(part) for bucket, part in parts.items() if len(part)} == {
        f"b{n}": kept for n in range(3) if (kept := [value for value in values if value % 3 == n])
    }


@pytest.mark.parametrize(
    ("bucket", "reason"),
    [
        *((bucket, "is no bucket: it has to be a relative path") for bucket in NO_BUCKETS),
        (7, "the bucket of 'a' must be a text, got 7"),
    ],
)
def test_a_bucket_is_a_text_that_stays_below_the_path_and_can_be_read(tmp_path: Path, bucket: Any, reason: str) -> None:
    assigner = BucketAssigner.custom_bucket_assigner(lambda row: bucket)
    writer = SinkHarness(FileSink.for_row_format(tmp_path).with_bucket_assigner(assigner))
    with pytest.raises(ConnectorError, match=reason):
        writer.write(RowBatch(["a"]))
    writer.close()
    assert not list(tmp_path.iterdir())
