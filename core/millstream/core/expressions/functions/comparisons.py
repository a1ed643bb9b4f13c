"""Comparisons. NaN is not equal to anything; text compares by code points; NULL compares as NULL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.core.expressions.functions.function import (
    Function,
    KernelFunction,
    Signature,
    TypeMismatchError,
    any_null,
    shown,
    type_of,
)
from millstream.core.expressions.nodes import Expression
from millstream.core.expressions.types import BOOLEAN, common_type, has_order
from millstream.core.overriding import override
from millstream.core.records.schema import ArrayOf, LogicalType


class _Comparison(KernelFunction):
    @override
    def signature(self, arguments: Sequence[Expression]) -> Signature:
        common = _compared([type_of(argument) for argument in arguments])
        return Signature((common, common), BOOLEAN.with_nullable(any_null(arguments)))


def _compared(types: Sequence[LogicalType]) -> LogicalType:
    common = common_type(types)
    if common is None or not has_order(common):
        first, second = map(shown, types)
        raise TypeMismatchError(f"{first} cannot be compared with {second}")
    return common


class Equal(_Comparison):
    """`a == b`."""

    name, symbol, kernel = "equal", "==", "equal"


class NotEqual(_Comparison):
    """`a != b`."""

    name, symbol, kernel = "not_equal", "!=", "not_equal"


class Less(_Comparison):
    """`a < b`."""

    name, symbol, kernel = "less", "<", "less"


class LessEqual(_Comparison):
    """`a <= b`."""

    name, symbol, kernel = "less_equal", "<=", "less_equal"


class Greater(_Comparison):
    """`a > b`."""

    name, symbol, kernel = "greater", ">", "greater"


class GreaterEqual(_Comparison):
    """`a >= b`."""

    name, symbol, kernel = "greater_equal", ">=", "greater_equal"


class In(Function):
    """Whether a value is one of a constant list, as `a == x or a == y`: NULL in the list makes NULL of false."""

    name = "in_"

    @override
    def signature(self, arguments: Sequence[Expression]) -> Signature:
        value, members = map(type_of, arguments)
        assert isinstance(members, ArrayOf), "the second argument is a list"
        common = _compared([value, members.element])
        nullable = value.nullable or None in getattr(arguments[1], "value", (None,))
        return Signature((common, ArrayOf(common, nullable=False)), BOOLEAN.with_nullable(nullable))

    @override
    def evaluate(self, arguments: Sequence[Any]) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        value, members = arguments[0], arguments[1].values
        found = pc.is_in(value, value_set=members, skip_nulls=True)
        if pa.types.is_floating(value.type):
            found = pc.and_(found, pc.fill_null(pc.invert(pc.is_nan(value)), True))
        unknown = pc.is_null(value)
        if members.null_count:
            unknown = pc.or_(unknown, pc.invert(found))
        return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


FUNCTIONS = (Equal(), NotEqual(), Less(), LessEqual(), Greater(), GreaterEqual(), In())
