"""The types of single values: truth values, numbers, texts, bytes and the parts of time.

Bounds and defaults are Flink's. A type in words is what `parse_type` reads and `serializable_string` writes.
"""

from __future__ import annotations

from dataclasses import dataclass

from millstream.core.records.schema.base import Nullability, check_range
from millstream.core.records.schema.errors import InvalidTypeError

MAX_LENGTH = 2**31 - 1
MAX_DECIMAL_PRECISION = 38
MAX_FRACTION = 9  # digits of a second


@dataclass(frozen=True, slots=True)
class BooleanType(Nullability):
    """BOOLEAN."""


@dataclass(frozen=True, slots=True)
class TinyIntType(Nullability):
    """TINYINT: a signed integer of 8 bits."""


@dataclass(frozen=True, slots=True)
class SmallIntType(Nullability):
    """SMALLINT: a signed integer of 16 bits."""


@dataclass(frozen=True, slots=True)
class IntType(Nullability):
    """INT: a signed integer of 32 bits."""


@dataclass(frozen=True, slots=True)
class BigIntType(Nullability):
    """BIGINT: a signed integer of 64 bits."""


@dataclass(frozen=True, slots=True)
class FloatType(Nullability):
    """FLOAT: a binary number of 32 bits."""


@dataclass(frozen=True, slots=True)
class DoubleType(Nullability):
    """DOUBLE: a binary number of 64 bits."""


@dataclass(frozen=True, slots=True)
class DecimalType(Nullability):
    """DECIMAL(p, s): a number of `precision` digits, `scale` of them behind the point."""

    precision: int = 10
    scale: int = 0

    def __post_init__(self) -> None:
        check_range(self.precision, 1, MAX_DECIMAL_PRECISION, "Decimal precision")
        check_range(self.scale, 0, MAX_DECIMAL_PRECISION, "Decimal scale")
        if self.scale > self.precision:
            raise InvalidTypeError(
                f"Decimal scale must be between 0 and the precision {self.precision} (both inclusive), "
                f"not {self.scale}."
            )


@dataclass(frozen=True, slots=True)
class CharType(Nullability):
    """CHAR(n): a text of exactly n code points."""

    length: int = 1

    def __post_init__(self) -> None:
        check_range(self.length, 1, MAX_LENGTH, "Character string length")


@dataclass(frozen=True, slots=True)
class VarCharType(Nullability):
    """VARCHAR(n): a text of at most n code points. The longest one is STRING."""

    length: int = 1

    def __post_init__(self) -> None:
        check_range(self.length, 1, MAX_LENGTH, "Variable character string length")


@dataclass(frozen=True, slots=True)
class BinaryType(Nullability):
    """BINARY(n): exactly n bytes."""

    length: int = 1

    def __post_init__(self) -> None:
        check_range(self.length, 1, MAX_LENGTH, "Binary string length")


@dataclass(frozen=True, slots=True)
class VarBinaryType(Nullability):
    """VARBINARY(n): at most n bytes. The longest one is BYTES."""

    length: int = 1

    def __post_init__(self) -> None:
        check_range(self.length, 1, MAX_LENGTH, "Variable binary string length")


@dataclass(frozen=True, slots=True)
class DateType(Nullability):
    """DATE."""


@dataclass(frozen=True, slots=True)
class TimeType(Nullability):
    """TIME(p): a time of day with p digits of a second."""

    precision: int = 0

    def __post_init__(self) -> None:
        check_range(self.precision, 0, MAX_FRACTION, "Time precision")


@dataclass(frozen=True, slots=True)
class TimestampType(Nullability):
    """TIMESTAMP(p): date and time without a time zone."""

    precision: int = 6

    def __post_init__(self) -> None:
        check_range(self.precision, 0, MAX_FRACTION, "Timestamp precision")


@dataclass(frozen=True, slots=True)
class ZonedTimestampType(Nullability):
    """TIMESTAMP(p) WITH TIME ZONE: each value has an offset from UTC of its own."""

    precision: int = 6

    def __post_init__(self) -> None:
        check_range(self.precision, 0, MAX_FRACTION, "Timestamp with time zone precision")


@dataclass(frozen=True, slots=True)
class LocalZonedTimestampType(Nullability):
    """TIMESTAMP_LTZ(p): a moment, shown in the time zone of the session."""

    precision: int = 6

    def __post_init__(self) -> None:
        check_range(self.precision, 0, MAX_FRACTION, "Timestamp with local time zone precision")


@dataclass(frozen=True, slots=True)
class NullType(Nullability):
    """NULL: the type of a NULL of which no more is known."""

    def __post_init__(self) -> None:
        if not self.nullable:
            raise InvalidTypeError("The type NULL cannot be NOT NULL: NULL is its only value.")
