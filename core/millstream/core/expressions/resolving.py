"""Gives each node of an expression its type, and makes the conversions of arguments explicit."""

from __future__ import annotations

from typing import assert_never

from millstream.core.expressions.errors import ExpressionError, UnknownColumnError
from millstream.core.expressions.functions import TypeMismatchError, function_named
from millstream.core.expressions.functions.function import shown, type_of
from millstream.core.expressions.nodes import Call, Cast, Column, Expression, Literal
from millstream.core.expressions.types import is_convertible
from millstream.core.expressions.writing import written
from millstream.core.records.schema import LogicalType, Schema


def resolve(expression: Expression, schema: Schema) -> Expression:
    """Returns the expression with types; raises `ExpressionError` if there are none for it.

    What is resolved already keeps its types: resolving it again returns an equal expression.
    """
    match expression:
        case Column(name=name):
            if name not in schema.names:
                raise UnknownColumnError(name, list(schema.names))
            return Column(name, schema.field(name).type)
        case Literal():
            return expression
        case Cast(operand=operand, type=wanted):
            resolved = resolve(operand, schema)
            found = type_of(resolved)
            if not is_convertible(found, wanted.with_nullable(True)):
                raise ExpressionError(
                    f"{written(expression)}: {shown(found)} cannot be converted to {shown(wanted)}: numbers can be "
                    "converted to numbers, and integers to text"
                )
            return Cast(resolved, wanted.with_nullable(found.nullable))
        case Call(function=name, arguments=arguments):
            inner = tuple([resolve(argument, schema) for argument in arguments])
            try:
                signature = function_named(name).signature(inner)
            except TypeMismatchError as error:
                raise ExpressionError(f"{written(expression)}: {error}") from None
            converted = [_converted(a, wanted) for a, wanted in zip(inner, signature.arguments, strict=True)]
            return Call(name, tuple(converted), signature.result)
        case _:
            assert_never(expression)


def _converted(argument: Expression, wanted: LogicalType) -> Expression:
    found = type_of(argument)
    if found.with_nullable(True) == wanted.with_nullable(True):
        return argument
    return Cast(argument, wanted.with_nullable(found.nullable))
