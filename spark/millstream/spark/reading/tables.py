"""A state as a DataFrame, planned here: for a data source, Spark starts two Python workers to plan it.

Rows take a shorter way, too: 10 M of them take two thirds of the time that Spark's data sources take.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from millstream.spark.planning import planned
from millstream.spark.reading.source import PICKLED_AS_BINARY, StateSource

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def state_table(spark: SparkSession, snapshot: str, operator: str, state: str) -> DataFrame:
    """All columns of a state, whatever its kind, with what is pickled as bytes.

    The operator is that of the uid, of the id, or of the name that only one has.
    """
    return source_frame(spark, {"path": snapshot, "uid": operator, "state": state, "pickled": PICKLED_AS_BINARY})


def source_frame(spark: SparkSession, options: dict[str, str], schema: Any = None) -> DataFrame:
    """What the data source reads with these options; with a given schema no file is read."""
    source = StateSource(options)
    columns = source.schema() if schema is None else schema
    reader = source.reader(columns)
    partitions = reader.partitions()

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from reader.read(partitions[number])

    numbers = spark.range(0, len(partitions), 1, max(1, len(partitions)))
    return planned(numbers).mapInArrow(read, columns)  # whose size Spark does not guess by that of the numbers
