"""Aggregates over columns, and the registry in which operators, programs and query planners find them by name.

An aggregate's state is a few columns with one value for each group, and everything that is done with it is done for
many groups at once. To add an aggregate: a class derived from `Aggregate`, and `register` for one object of it.
"""

from __future__ import annotations

from millstream.core.aggregates.aggregate import Aggregate, PlannedAggregate, RetractionError, StateColumn
from millstream.core.aggregates.avg import AVG
from millstream.core.aggregates.changed_records import ChangedRecords
from millstream.core.aggregates.count import COUNT
from millstream.core.aggregates.count_distinct import COUNT_DISTINCT
from millstream.core.aggregates.extremes import MAX, MIN
from millstream.core.aggregates.positions import FIRST, LAST
from millstream.core.aggregates.registry import aggregate_named, register
from millstream.core.aggregates.sum import SUM

for _aggregate in (COUNT, SUM, AVG, MIN, MAX, FIRST, LAST, COUNT_DISTINCT):
    register(_aggregate)

__all__ = [
    "AVG",
    "COUNT",
    "COUNT_DISTINCT",
    "FIRST",
    "LAST",
    "MAX",
    "MIN",
    "SUM",
    "Aggregate",
    "ChangedRecords",
    "PlannedAggregate",
    "RetractionError",
    "StateColumn",
    "aggregate_named",
    "register",
]
