"""A state as a table, whatever its kind: all its columns, with what is pickled as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.spark.reading.source import NAME, PICKLED_AS_BINARY
from millstream.spark.registration import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def state_table(spark: SparkSession, snapshot: str, operator: str, state: str) -> DataFrame:
    """The rows of a state of a snapshot, by the operator's uid, id, or name that only one has."""
    register(spark)
    reader = spark.read.format(NAME).option("uid", operator).option("state", state)
    return reader.option("pickled", PICKLED_AS_BINARY).load(snapshot)
