"""Conditions in three-valued logic, and what depends on them. A branch that may fail is evaluated where it counts."""

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
from millstream.core.expressions.types import BOOLEAN, common_type
from millstream.core.overriding import override
from millstream.core.records.schema import BooleanType, LogicalType, NullType


def _conditions(arguments: Sequence[Expression]) -> tuple[LogicalType, ...]:
    for argument in arguments:
        found = type_of(argument)
        if not isinstance(found, BooleanType | NullType):
            raise TypeMismatchError(f"it takes conditions, and not {shown(found)}; compare the value with something")
    return tuple([BOOLEAN for _ in arguments])


class _Logic(KernelFunction):
    @override
    def signature(self, arguments: Sequence[Expression]) -> Signature:
        return Signature(_conditions(arguments), BOOLEAN.with_nullable(any_null(arguments)))


class And(_Logic):
    """`a & b`: false if one is false, else NULL if one is NULL."""

    name, symbol, kernel = "and", "&", "and_kleene"
    is_conditional = True

    @override
    def needed(self, earlier: Sequence[Any]) -> Any:
        import pyarrow.compute as pc

        return pc.fill_null(earlier[0], True)


class Or(_Logic):
    """`a | b`: true if one is true, else NULL if one is NULL."""

    name, symbol, kernel = "or", "|", "or_kleene"
    is_conditional = True

    @override
    def needed(self, earlier: Sequence[Any]) -> Any:
        import pyarrow.compute as pc

        return pc.invert(pc.fill_null(earlier[0], False))


class Not(_Logic):
    """`~a`: NULL for NULL."""

    name, symbol, kernel = "not", "~", "invert"


class _NullTest(KernelFunction):
    @override
    def signature(self, arguments: Sequence[Expression]) -> Signature:
        return Signature((type_of(arguments[0]),), BOOLEAN.not_null())


class IsNull(_NullTest):
    """Whether a value is NULL."""

    name, kernel = "is_null", "is_null"


class IsNotNull(_NullTest):
    """Whether a value is not NULL."""

    name, kernel = "is_not_null", "is_valid"


class Coalesce(Function):
    """The first of its arguments that is not NULL."""

    name = "coalesce"
    is_conditional = True

    @override
    def signature(self, arguments: Sequence[Expression]) -> Signature:
        common = _alternatives(arguments)
        nullable = all(type_of(argument).nullable for argument in arguments)
        return Signature(tuple([common for _ in arguments]), common.with_nullable(nullable))

    @override
    def evaluate(self, arguments: Sequence[Any]) -> Any:
        import pyarrow.compute as pc

        return pc.coalesce(*arguments)

    @override
    def needed(self, earlier: Sequence[Any]) -> Any:
        import pyarrow.compute as pc

        return pc.is_null(pc.coalesce(*earlier))


class IfThenElse(Function):
    """The second argument where the first one is true, and the third elsewhere."""

    name = "if_then_else"
    is_conditional = True

    @override
    def signature(self, arguments: Sequence[Expression]) -> Signature:
        common = _alternatives(arguments[1:])
        return Signature(
            (*_conditions(arguments[:1]), common, common), common.with_nullable(any_null(arguments[1:]))
        )

    @override
    def evaluate(self, arguments: Sequence[Any]) -> Any:
        import pyarrow.compute as pc

        return pc.if_else(pc.fill_null(arguments[0], False), *arguments[1:])

    @override
    def needed(self, earlier: Sequence[Any]) -> Any:
        import pyarrow.compute as pc

        is_true = pc.fill_null(earlier[0], False)
        return is_true if len(earlier) == 1 else pc.invert(is_true)


def _alternatives(arguments: Sequence[Expression]) -> LogicalType:
    types = [type_of(argument) for argument in arguments]
    common = common_type(types)
    if common is None:
        raise TypeMismatchError(f"{' and '.join(map(shown, types))} are no values of one type; cast them to one")
    return common


FUNCTIONS = (And(), Or(), Not(), IsNull(), IsNotNull(), Coalesce(), IfThenElse())
