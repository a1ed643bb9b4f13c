"""The Spark jobs of a write: rows to blocks, blocks to the tasks of their parts, parts to files. On the driver.

What a job returns is what its successful attempts have written, one report for each part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import msgspec

from millstream.core.snapshot.metadata.model import StateFile, StateSnapshot
from millstream.spark.errors import SavepointWriteError
from millstream.spark.planning import is_of_one_size, planned
from millstream.spark.writing.blocks import BLOCK_SCHEMA, PART, Cut, blocks, gathered
from millstream.spark.writing.columns import stored_table
from millstream.spark.writing.identity import KeepOnConflict, Rule
from millstream.spark.writing.parts import REPORT_SCHEMA, Destination, PartReport, write_part

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Tables = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.Table"]]
"""What makes rows of the snapshot format of what a DataFrame hands over; runs in tasks."""
Write = Callable[[Iterable["pa.RecordBatch"], int], PartReport]
"""What makes files of the blocks of a part; runs in tasks."""

_BATCHES = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}
"""For rows that are of one size. With fewer bytes, Spark requests the size of a batch at each row that it hands over,
which takes as long as all the rest of that."""
_BYTES_PER_PART = 128 * 1024 * 1024


class Rows(msgspec.Struct, frozen=True):
    """A DataFrame, and what its batches mean; of what side they are when two are merged."""

    frame: Any
    tables: Tables
    side: int = 0
    size: int | None = None
    """How many bytes they have in files, if that is known."""


def of_columns(frame: DataFrame, state: StateSnapshot, side: int = 0, size: int | None = None) -> Rows:
    """A DataFrame whose columns are named as those of the state's files, and only have to get their types."""

    def tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        return (stored_table(table, state) for table in gathered(batches))

    return Rows(frame, tables, side, size)


def write_rows(
    rows: Sequence[Rows], state: StateSnapshot, cut: Cut, destination: Destination,
    rule: Rule = KeepOnConflict.NEITHER,
) -> tuple[StateFile, ...]:  # fmt: skip
    """Writes one state of the rows; returns its files."""

    def write(batches: Iterable[pa.RecordBatch], part: int) -> PartReport:
        return write_part(batches, state, destination, part, rule)

    return tuple(file for _, files in run(rows, cut, write) for file in files)


def run(rows: Sequence[Rows], cut: Cut, write: Write) -> list[tuple[StateSnapshot, tuple[StateFile, ...]]]:
    """Cuts the rows into parts and has each written. Raises what was wrong with the rows."""
    sides = len(rows) > 1
    frames = [_blocks(each, msgspec.structs.replace(cut, side=each.side if sides else None)) for each in rows]
    moved = reduce(lambda one, other: one.unionByName(other), frames).repartitionById(cut.parts, PART)
    if all(is_of_one_size(each.frame.schema) for each in rows):
        moved = planned(moved, _BATCHES)

    def written(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "it runs in a task"
        yield write(batches, context.partitionId()).encoded()

    reports = [PartReport.decoded(row[0]) for row in moved.mapInArrow(written, REPORT_SCHEMA).collect()]
    for report in reports:
        if report.fault:
            raise SavepointWriteError(report.fault)
    return [files for report in reports for files in report.files]


def _blocks(rows: Rows, cut: Cut) -> DataFrame:
    tables = rows.tables

    def made(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return blocks(tables(batches), cut)

    frame: DataFrame = rows.frame.mapInArrow(made, BLOCK_SCHEMA)
    return frame


def parts_for(spark: SparkSession, rows: Sequence[Rows], max_parallelism: int) -> int:
    """In how many parts to write, so that files have some size: as far as that of the rows is known, or guessed.

    Of a DataFrame it is Spark's guess, within bounds: a part for each core at least, as many as shuffles have at most.
    """
    cores = spark.sparkContext.defaultParallelism
    known = sum(each.size or 0 for each in rows)
    guessed = sum(_guessed(each.frame) for each in rows if each.size is None)
    most = max(int(spark.conf.get("spark.sql.shuffle.partitions") or 200), cores)
    wanted = max(-(-(known + guessed) // _BYTES_PER_PART), cores if guessed else 1)
    return min(most if guessed else wanted, wanted, max_parallelism)


def _guessed(frame: Any) -> int:
    return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))  # noqa: SLF001  # Spark offers it nowhere else
