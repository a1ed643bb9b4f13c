"""The batch side, on PySpark: state from data at rest, and savepoints as data and back.

The only package that uses Spark. It shares the snapshot format and the key groups of `millstream.core` with the
runtime, and knows none of the services.
"""

from millstream.spark.functions import KeyedStateBootstrapFunction
from millstream.spark.operator_identifier import OperatorIdentifier
from millstream.spark.reading.reader import SavepointReader
from millstream.spark.registration import register
from millstream.spark.savepoint_diff import SavepointDiff
from millstream.spark.savepoint_writer import SavepointWriter, Untouched
from millstream.spark.writing.identity import KeepOnConflict

__all__ = [
    "KeepOnConflict",
    "KeyedStateBootstrapFunction",
    "OperatorIdentifier",
    "SavepointDiff",
    "SavepointReader",
    "SavepointWriter",
    "Untouched",
    "register",
]
