"""The batch side, on PySpark: state from data at rest, and savepoints as data and back.

The only package that uses Spark. It shares the snapshot format and the key groups of `millstream.core` with the
runtime, and knows none of the services.
"""

from millstream.spark.reading.reader import SavepointReader
from millstream.spark.registration import register

__all__ = ["SavepointReader", "register"]
