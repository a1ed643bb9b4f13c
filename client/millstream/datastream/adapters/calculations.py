"""From expressions to the specification of their operator, checked against the type of the stream."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.core.errors import InvalidProgramError
from millstream.core.expressions import Column, ExpressionError, UnknownColumnError, resolve, written
from millstream.core.expressions import Expression as Node
from millstream.core.jobs.plan.calc_plan import CalcSpec
from millstream.core.records.conversion import VALUE_COLUMN, field_types
from millstream.core.records.schema import (
    BooleanType,
    Field,
    Schema,
    from_type_information,
    summary_string,
    to_type_information,
)
from millstream.core.records.types import RowType, TypeInformation
from millstream.datastream.adapters.computed import Computed
from millstream.datastream.adapters.fields import described_columns
from millstream.datastream.expressions import Expression, RowExpression


def filter_of(expression: Computed, record_type: TypeInformation) -> CalcSpec:
    """The specification of a filter."""
    if not isinstance(expression, Expression):
        raise InvalidProgramError("filter: a row is no condition; give a single expression")
    condition = _resolved("filter", expression.node, record_type)
    assert condition.type is not None, "it is resolved"
    if not isinstance(condition.type, BooleanType):
        raise InvalidProgramError(
            f"filter: {written(expression.node)} is of type {_shown(condition)} and no condition; compare it with "
            "something"
        )
    return CalcSpec(condition)


def map_of(expression: Computed, record_type: TypeInformation) -> tuple[CalcSpec, TypeInformation]:
    """The specification of a map, and the type of its results: single values, or rows."""
    if isinstance(expression, Expression):
        node = _resolved("map", expression.node, record_type)
        return CalcSpec(columns=((VALUE_COLUMN, node),)), _type_of(node, record_type)
    assert isinstance(expression, RowExpression), "there is no other"
    columns = tuple([(name, _resolved("map", node, record_type)) for name, node in expression.columns])
    types = tuple([_type_of(node, record_type) for _, node in columns])
    return CalcSpec(columns=columns), RowType(types, tuple([name for name, _ in columns]))


def _resolved(operation: str, node: Node, record_type: TypeInformation) -> Node:
    names, types = record_type.field_names(), field_types(record_type)
    if names is None or types is None:
        raise InvalidProgramError(
            f"{operation}: an expression needs a stream whose type names its fields, and its records are of type "
            f"{record_type.describe()}; declare it where they are made, as in map(f, output_type=Types.ROW_NAMED("
            "['user', 'amount'], [Types.STRING(), Types.LONG()])), or with a dataclass"
        )
    try:
        return resolve(node, _schema_of(names, types))
    except UnknownColumnError as error:
        if error.name in names:
            kind = types[names.index(error.name)]
            raise InvalidProgramError(
                f"{operation}: column '{error.name}' is of type {kind.describe()}, of which there are no columns"
            ) from None
        raise InvalidProgramError(
            f"{operation}: there is no column '{error.name}'; the stream has {described_columns(record_type)}"
        ) from None
    except ExpressionError as error:
        raise InvalidProgramError(f"{operation}: {error}") from None


def _schema_of(names: Sequence[str], types: Sequence[TypeInformation]) -> Schema:
    """The fields that can be columns."""
    fields = zip(names, types, strict=True)
    return Schema(tuple([Field(name, from_type_information(kind)) for name, kind in fields if kind.arrow_type()]))


def _type_of(node: Node, record_type: TypeInformation) -> TypeInformation:
    if isinstance(node, Column):  # also of classes, which a logical type does not know
        names, types = record_type.field_names() or [], field_types(record_type) or []
        return types[names.index(node.name)]
    assert node.type is not None, "it is resolved"
    kind = to_type_information(node.type)
    if kind.arrow_type() is None:
        raise InvalidProgramError(
            f"map: {written(node)} is of type {_shown(node)}, of which there are no columns; compute something of it"
        )
    return kind


def _shown(node: Node) -> str:
    assert node.type is not None, "it is resolved"
    return summary_string(node.type.with_nullable(True))
