"""Expressions as programs write them, for messages."""

from __future__ import annotations

from typing import assert_never

from millstream.core.expressions.functions import function_named
from millstream.core.expressions.nodes import Call, Cast, Column, Expression, Literal
from millstream.core.records.schema import summary_string


def written(expression: Expression) -> str:
    """Returns the expression in Python's syntax, with `col('name')` for a column."""
    match expression:
        case Column(name=name):
            return f"col({name!r})"
        case Literal(value=value):
            return f"{value!r:.100}"
        case Cast(operand=operand, type=type):
            return f"{_operand(operand)}.cast({summary_string(type.with_nullable(True))})"
        case Call(function=name, arguments=arguments):
            symbol = function_named(name).symbol
            if symbol and len(arguments) == 2:
                return f"{_operand(arguments[0])} {symbol} {_operand(arguments[1])}"
            if symbol:
                return f"{symbol}{_operand(arguments[0])}"
            return f"{name}({', '.join(map(written, arguments))})"
        case _:
            assert_never(expression)


def _operand(expression: Expression) -> str:
    is_infix = isinstance(expression, Call) and bool(function_named(expression.function).symbol)
    return f"({written(expression)})" if is_infix else written(expression)
