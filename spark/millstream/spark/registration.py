"""Sessions of Spark: which kind is needed, and making the data source `millstream` known to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from millstream.core.errors import MillstreamError
from millstream.spark.reading.source import StateSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkConnectError(MillstreamError):
    """The session is of Spark Connect."""


_registered: WeakSet[Any] = WeakSet()  # Spark logs a warning when a name is registered again


def require_classic(spark: Any) -> None:
    """Refuses a session of Spark Connect: planning needs the driver's JVM, which such a session does not have."""
    from pyspark.sql import SparkSession

    if not isinstance(spark, SparkSession):
        raise SparkConnectError(
            "millstream.spark needs a session in the driver itself, and this one is of Spark Connect: make it with "
            "SparkSession.builder.master(...), and run the program with spark-submit, or on the driver"
        )


def register(spark: SparkSession) -> None:
    """Registers the data source, once for each session."""
    if spark not in _registered:
        spark.dataSource.register(StateSource)
        _registered.add(spark)
