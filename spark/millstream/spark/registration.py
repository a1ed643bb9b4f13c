"""Making the data source `millstream` known to a session of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from millstream.spark.reading.source import StateSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_registered: WeakSet[Any] = WeakSet()  # Spark logs a warning when a name is registered again


def register(spark: SparkSession) -> None:
    """Registers the data source, once for each session."""
    if spark not in _registered:
        spark.dataSource.register(StateSource)
        _registered.add(spark)
