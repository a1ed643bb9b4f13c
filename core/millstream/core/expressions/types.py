"""Which types two values have in common, and what may be converted to what."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.core.records import schema as s

INTEGERS = (s.TinyIntType, s.SmallIntType, s.IntType, s.BigIntType)
FLOATS = (s.FloatType, s.DoubleType)
NUMBERS = (*INTEGERS, *FLOATS, s.DecimalType)
TEXTS = (s.CharType, s.VarCharType)
INTEGER, FLOAT, DECIMAL, BOOLEAN = s.BigIntType(), s.DoubleType(), s.DecimalType(38, 18), s.BooleanType()
INTERVAL = s.DayTimeIntervalType(s.DayTimeResolution.DAY_TO_SECOND, 6, 6)
_SAME = (
    s.BooleanType, s.DateType, s.TimeType, s.TimestampType, s.LocalZonedTimestampType, s.DayTimeIntervalType,
)  # fmt: skip


def common_number(types: Sequence[s.LogicalType]) -> s.LogicalType | None:
    """The type in which numbers are added: integers of 64 bits, doubles, or decimals; None for no numbers.

    There is none for a decimal and a float, as in Python. The type of NULL goes with any.
    """
    known = [type for type in types if not isinstance(type, s.NullType)]
    if not known or not all(isinstance(type, NUMBERS) for type in known):
        return None
    has_floats = any(isinstance(type, FLOATS) for type in known)
    if any(isinstance(type, s.DecimalType) for type in known):
        return None if has_floats else DECIMAL
    return FLOAT if has_floats else INTEGER


def common_type(types: Sequence[s.LogicalType]) -> s.LogicalType | None:
    """The type in which values are compared, or of one of them; None if they have none in common."""
    known = [type.with_nullable(True) for type in types if not isinstance(type, s.NullType)]
    if not known:
        return s.NullType()
    first = known[0]
    if all(type == first for type in known):
        return first
    number = common_number(known)
    if number is not None:
        return number
    if all(isinstance(type, TEXTS) for type in known):
        return s.STRING
    if all(isinstance(type, s.BinaryType | s.VarBinaryType) for type in known):
        return s.BYTES
    same = isinstance(first, _SAME) and all(type.__class__ is first.__class__ for type in known)
    return max(known, key=lambda type: getattr(type, "precision", 0)) if same else None


def has_order(type: s.LogicalType) -> bool:
    """Whether there are comparisons of values of the type."""
    return isinstance(type, (*NUMBERS, *TEXTS, *_SAME, s.BinaryType, s.VarBinaryType, s.NullType))


def is_convertible(found: s.LogicalType, wanted: s.LogicalType) -> bool:
    """Whether a program may convert one type to another: numbers to numbers, and integers to text."""
    if common_type([found, wanted]) == wanted or isinstance(found, s.NullType):
        return True
    if isinstance(wanted, TEXTS):
        return isinstance(found, (*INTEGERS, *TEXTS))
    return isinstance(found, NUMBERS) and isinstance(wanted, NUMBERS)
