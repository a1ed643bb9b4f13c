"""Arithmetic as Python's: integers are exact in 64 bits, beyond which it fails; `/` divides floats, `//` rounds down.

Integers of any width are computed in 64 bits, floats in double precision. Decimals have 18 digits behind the point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from millstream.core.expressions.functions.function import (
    KernelFunction,
    Signature,
    TypeMismatchError,
    any_null,
    shown,
    type_of,
)
from millstream.core.expressions.nodes import Expression
from millstream.core.expressions.types import FLOAT, INTEGER, INTERVAL, TEXTS, common_number
from millstream.core.overriding import override
from millstream.core.records import schema as s

_MOMENTS = (s.TimestampType, s.LocalZonedTimestampType)


class _Arithmetic(KernelFunction):
    """Of two numbers, in the type that they have in common."""

    _takes: ClassVar[str] = "numbers; a decimal and a float are none of one kind"

    @override
    def signature(self, arguments: Sequence[Expression]) -> Signature:
        types = [type_of(argument) for argument in arguments]
        found = self.types(types)
        if found is None:
            raise TypeMismatchError(f"{' and '.join(map(shown, types))} are of no types that it takes: {self._takes}")
        *converted, result = found
        return Signature(tuple(converted), result.with_nullable(any_null(arguments)))

    def types(self, types: Sequence[s.LogicalType]) -> tuple[s.LogicalType, ...] | None:
        """The types of the arguments and of the result."""
        common = common_number(types)
        return None if common is None else (*(common for _ in types), common)

    @override
    def evaluate(self, arguments: Sequence[Any]) -> Any:
        import pyarrow as pa

        if pa.types.is_decimal(arguments[0].type):
            return self.of_decimals(arguments)
        return super().evaluate(arguments)

    def of_decimals(self, arguments: Sequence[Any]) -> Any:
        """Computes with more digits, and fails where the result has more than fit."""
        import pyarrow as pa
        import pyarrow.compute as pc

        wide = [pc.cast(argument, pa.decimal256(38 - place, 18)) for place, argument in enumerate(arguments)]
        exact = getattr(pc, self.kernel)(*wide)
        if exact.type.scale > 18:
            exact = pc.round(exact, 18, "half_to_even")
        return pc.cast(exact, pa.decimal128(38, 18))


class Add(_Arithmetic):
    """`a + b`: of numbers, of text, or a time and a timedelta."""

    name, symbol, kernel = "add", "+", "add_checked"
    _takes = "numbers, of which none is a float beside a decimal; two texts; a timestamp and a timedelta"

    @override
    def types(self, types: Sequence[s.LogicalType]) -> tuple[s.LogicalType, ...] | None:
        first, second = types
        if isinstance(first, TEXTS) and isinstance(second, TEXTS):
            return s.STRING, s.STRING, s.STRING
        if isinstance(first, (*_MOMENTS, s.DayTimeIntervalType)) and isinstance(second, s.DayTimeIntervalType):
            return first, INTERVAL, first
        if isinstance(first, s.DayTimeIntervalType) and isinstance(second, _MOMENTS):
            return INTERVAL, second, second
        return super().types(types)

    @override
    def evaluate(self, arguments: Sequence[Any]) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_string(arguments[0].type):
            return pc.binary_join_element_wise(*arguments, pa.scalar("", pa.string()))
        return super().evaluate(arguments)


class Subtract(_Arithmetic):
    """`a - b`: of numbers, of times, or of a time and a timedelta."""

    name, symbol, kernel = "subtract", "-", "subtract_checked"
    _takes = "numbers, of which none is a float beside a decimal; two timestamps; a timestamp and a timedelta"

    @override
    def types(self, types: Sequence[s.LogicalType]) -> tuple[s.LogicalType, ...] | None:
        first, second = types
        if isinstance(first, _MOMENTS) and first.__class__ is second.__class__:
            return first, second, INTERVAL
        if isinstance(first, (*_MOMENTS, s.DayTimeIntervalType)) and isinstance(second, s.DayTimeIntervalType):
            return first, INTERVAL, first
        return super().types(types)


class Multiply(_Arithmetic):
    """`a * b`. Decimals are rounded to 18 digits behind the point, half to even."""

    name, symbol, kernel = "multiply", "*", "multiply_checked"


class Divide(_Arithmetic):
    """`a / b`: a float, also of integers. It fails where `b` is zero."""

    name, symbol, kernel = "divide", "/", "divide_checked"
    _takes = "integers and floats; decimals can be cast to Types.DOUBLE()"

    @override
    def types(self, types: Sequence[s.LogicalType]) -> tuple[s.LogicalType, ...] | None:
        return (FLOAT, FLOAT, FLOAT) if common_number(types) in (INTEGER, FLOAT) else None


class _OfIntegers(_Arithmetic):
    _takes = "integers"

    @override
    def types(self, types: Sequence[s.LogicalType]) -> tuple[s.LogicalType, ...] | None:
        return (INTEGER, INTEGER, INTEGER) if common_number(types) == INTEGER else None


class FloorDivide(_OfIntegers):
    """`a // b`, rounded down. It fails where `b` is zero."""

    name, symbol = "floor_divide", "//"

    @override
    def evaluate(self, arguments: Sequence[Any]) -> Any:
        import pyarrow.compute as pc

        first, second = arguments
        quotient = pc.divide_checked(first, second)  # rounded towards zero
        rest = pc.subtract(first, pc.multiply(quotient, second))
        is_below = pc.and_(pc.not_equal(rest, 0), pc.not_equal(pc.less(rest, 0), pc.less(second, 0)))
        return pc.subtract(quotient, pc.cast(is_below, quotient.type))


class Modulo(_OfIntegers):
    """`a % b`, with the sign of `b`. It fails where `b` is zero."""

    name, symbol, kernel = "modulo", "%", "modulo"


class Negate(_Arithmetic):
    """`-a`."""

    name, symbol, kernel = "negate", "-", "negate_checked"
    _takes = "a number"


class Abs(_Arithmetic):
    """The absolute value."""

    name, kernel = "abs", "abs_checked"
    _takes = "a number"


FUNCTIONS = (Add(), Subtract(), Multiply(), Divide(), FloorDivide(), Modulo(), Negate(), Abs())
