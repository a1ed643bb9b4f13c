"""The two kinds of intervals, in all resolutions of Flink.

A resolution has a precision only for the parts that it shows: years or days, and fractions of a second. The others
stay at their default, so that equal types are written alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from millstream.core.records.schema.atomic_types import MAX_FRACTION
from millstream.core.records.schema.base import Nullability, check_range
from millstream.core.records.schema.errors import InvalidTypeError

DEFAULT_YEARS = 2
DEFAULT_DAYS = 2
DEFAULT_FRACTION = 6


class YearMonthResolution(Enum):
    """From which part to which an interval of years and months is shown."""

    YEAR = ("YEAR",)
    YEAR_TO_MONTH = ("YEAR", "MONTH")
    MONTH = ("MONTH",)


class DayTimeResolution(Enum):
    """From which part to which an interval of days and times is shown."""

    DAY = ("DAY",)
    DAY_TO_HOUR = ("DAY", "HOUR")
    DAY_TO_MINUTE = ("DAY", "MINUTE")
    DAY_TO_SECOND = ("DAY", "SECOND")
    HOUR = ("HOUR",)
    HOUR_TO_MINUTE = ("HOUR", "MINUTE")
    HOUR_TO_SECOND = ("HOUR", "SECOND")
    MINUTE = ("MINUTE",)
    MINUTE_TO_SECOND = ("MINUTE", "SECOND")
    SECOND = ("SECOND",)


@dataclass(frozen=True, slots=True)
class YearMonthIntervalType(Nullability):
    """INTERVAL YEAR(p) TO MONTH and its parts: a number of months."""

    resolution: YearMonthResolution
    precision: int = DEFAULT_YEARS

    def __post_init__(self) -> None:
        if self.resolution is YearMonthResolution.MONTH and self.precision != DEFAULT_YEARS:
            raise InvalidTypeError(
                f"Year precision of sub-year intervals must be equal to the default precision {DEFAULT_YEARS}."
            )
        check_range(self.precision, 1, 4, "Year precision of year-month intervals")


@dataclass(frozen=True, slots=True)
class DayTimeIntervalType(Nullability):
    """INTERVAL DAY(p1) TO SECOND(p2) and its parts: a length of time."""

    resolution: DayTimeResolution
    day_precision: int = DEFAULT_DAYS
    fraction: int = DEFAULT_FRACTION

    def __post_init__(self) -> None:
        parts = self.resolution.value
        if "DAY" not in parts and self.day_precision != DEFAULT_DAYS:
            raise InvalidTypeError(
                f"Day precision of sub-day intervals must be equal to the default precision {DEFAULT_DAYS}."
            )
        if "SECOND" not in parts and self.fraction != DEFAULT_FRACTION:
            raise InvalidTypeError(
                "Fractional precision of super-second intervals must be equal to the default precision "
                f"{DEFAULT_FRACTION}."
            )
        check_range(self.day_precision, 1, 6, "Day precision of day-time intervals")
        check_range(self.fraction, 0, MAX_FRACTION, "Fractional precision of day-time intervals")
