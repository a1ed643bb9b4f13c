"""The batch side, on PySpark: state from data at rest, and savepoints as data and back.

The only package that uses Spark. It shares the snapshot format and the key groups of `millstream.core` with the
runtime, and knows none of the services.

Names are imported when they are first used: Spark starts a Python process for each step of planning a read, which needs
little of this.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millstream.spark.functions import KeyedStateBootstrapFunction, StateBootstrapFunction
    from millstream.spark.operator_identifier import OperatorIdentifier
    from millstream.spark.reading.reader import SavepointReader
    from millstream.spark.registration import register
    from millstream.spark.savepoint_diff import SavepointDiff
    from millstream.spark.savepoint_writer import SavepointWriter, Untouched
    from millstream.spark.writing.identity import KeepOnConflict
else:

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


__all__ = [
    "KeepOnConflict",
    "KeyedStateBootstrapFunction",
    "OperatorIdentifier",
    "SavepointDiff",
    "SavepointReader",
    "SavepointWriter",
    "StateBootstrapFunction",
    "Untouched",
    "register",
]

_MODULES = {
    "KeepOnConflict": "writing.identity",
    "KeyedStateBootstrapFunction": "functions",
    "OperatorIdentifier": "operator_identifier",
    "SavepointDiff": "savepoint_diff",
    "SavepointReader": "reading.reader",
    "SavepointWriter": "savepoint_writer",
    "StateBootstrapFunction": "functions",
    "Untouched": "savepoint_writer",
    "register": "registration",
}
