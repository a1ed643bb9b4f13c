"""From aggregates over columns to the specification of their operator, checked against the type of the stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.core.aggregates import PlannedAggregate
from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.plan import KeySelector
from millstream.core.records.types import LONG, RowType, TupleType, TypeInformation
from millstream.datastream.adapters.fields import described_columns, field_type
from millstream.datastream.aggregates import ColumnAggregate
from millstream.datastream.window import (
    EventTimeSessionWindows,
    EventTimeTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

WINDOW_START, WINDOW_END = "window_start", "window_end"

_ASSIGNERS = (
    TumblingEventTimeWindows, SlidingEventTimeWindows, EventTimeSessionWindows, TumblingProcessingTimeWindows,
    SlidingProcessingTimeWindows, ProcessingTimeSessionWindows,
)  # fmt: skip


def check_windows(assigner: Any, trigger: Any, evictor: Any) -> None:
    """Refuses windows that cannot be aggregated by columns. Classes derived from the known ones may do otherwise."""
    advice = "an AggregateFunction, reduce, apply and process take any"
    if type(assigner) not in _ASSIGNERS:
        raise InvalidProgramError(
            f"aggregate: windows of {type(assigner).__name__} cannot be aggregated by columns, only tumbling and "
            f"sliding windows and sessions of one gap; {advice}"
        )
    usual = EventTimeTrigger if assigner.is_event_time() else ProcessingTimeTrigger
    if type(trigger) is not usual:
        raise InvalidProgramError(
            f"aggregate: windows aggregated by columns fire at their end, and not by a {type(trigger).__name__}; "
            f"{advice}"
        )
    if evictor is not None:
        raise InvalidProgramError("aggregate: windows aggregated by columns keep no records for an evictor; " + advice)


def key_columns_of(selector: KeySelector, record_type: TypeInformation) -> tuple[str, ...]:
    """The columns of the key."""
    if selector.function is not None:
        raise InvalidProgramError(
            "aggregate: windows aggregated by columns need a key of columns, as in key_by('user') or "
            f"key_by(['user', 'day']), and not a function; the stream has {described_columns(record_type)}"
        )
    names = _names(record_type)
    columns = tuple(names[field] if isinstance(field, int) else field for field in selector.fields)
    for column in columns:
        _type_of("key_by", column, record_type)
    return columns


def key_type_of(columns: Sequence[str], record_type: TypeInformation) -> TypeInformation:
    """Returns the type of the key of these columns in state."""
    types = [_type_of("key_by", column, record_type) for column in columns]
    match types:
        case []:
            return LONG
        case [one]:
            return one
        case _:
            return TupleType(tuple(types))


def planned(aggregates: Sequence[Any], record_type: TypeInformation) -> tuple[PlannedAggregate, ...]:
    """The aggregates with the types of their columns and results."""
    for aggregate in aggregates:
        if not isinstance(aggregate, ColumnAggregate):
            raise InvalidProgramError(
                f"aggregate: expected aggregates over columns, such as sum('amount'), beside others, got {aggregate!r}"
            )
    _names(record_type)
    return tuple(_planned(aggregate, record_type) for aggregate in aggregates)


def result_type(
    keys: Sequence[str], aggregates: Sequence[PlannedAggregate], record_type: TypeInformation
) -> TypeInformation:
    """Rows of the key's columns, the aggregates, and the window's start and end."""
    names = [*keys, *(aggregate.name for aggregate in aggregates), WINDOW_START, WINDOW_END]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidProgramError(
            f"aggregate: the result would have two columns named '{twice}'; give an aggregate another name with "
            "alias(...)"
        )
    types = [_type_of("key_by", key, record_type) for key in keys]
    return RowType((*types, *(aggregate.result for aggregate in aggregates), LONG, LONG), tuple(names))


def _planned(given: ColumnAggregate, record_type: TypeInformation) -> PlannedAggregate:
    aggregate, column = given.aggregate, given.column
    kind = LONG if column is None else _type_of(aggregate.name, column, record_type)
    result = aggregate.result_type(kind)
    if result is None:
        raise InvalidProgramError(
            f"{aggregate.name}: column '{column}' is of type {kind.describe()}, and {aggregate.takes}"
        )
    return PlannedAggregate(aggregate, column, kind, given.name, result)


def _type_of(call: str, column: str, record_type: TypeInformation) -> TypeInformation:
    if column not in _names(record_type):
        raise InvalidProgramError(
            f"{call}: there is no column '{column}'; the stream has {described_columns(record_type)}"
        )
    kind = field_type(column, record_type)
    if kind is None or kind.arrow_type() is None:
        declared = "no declared type" if kind is None else f"the type {kind.describe()}"
        raise InvalidProgramError(
            f"{call}: column '{column}' has {declared}, of which there are no columns; the stream has "
            f"{described_columns(record_type)}"
        )
    return kind


def _names(record_type: TypeInformation) -> list[str]:
    names = record_type.field_names()
    if names is None:
        raise InvalidProgramError(
            f"aggregate: aggregates over columns need a stream whose type names them, and its records are of type "
            f"{record_type.describe()}; declare it where they are made, as in map(f, output_type=Types.ROW_NAMED("
            "['user', 'amount'], [Types.STRING(), Types.LONG()])), with a dataclass, or for map_batches and sources "
            "of Arrow batches likewise"
        )
    return names
