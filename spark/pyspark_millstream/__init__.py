"""Where Spark looks for data sources by itself: modules named `pyspark_*` with a `DefaultSource`.

So the format `millstream` is known wherever Millstream is installed, also where no Python program could register it, as
in `spark-sql`.
"""

from millstream.spark.reading.source import StateSource as DefaultSource

__all__ = ["DefaultSource"]
