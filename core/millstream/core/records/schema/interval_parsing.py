"""The part of the grammar behind `INTERVAL`: a first part of time with its precision, and perhaps `TO` a later one."""

from __future__ import annotations

from millstream.core.records.schema.interval_types import (
    DEFAULT_DAYS,
    DEFAULT_FRACTION,
    DayTimeIntervalType,
    DayTimeResolution,
    YearMonthIntervalType,
    YearMonthResolution,
)
from millstream.core.records.schema.token_reader import TokenReader
from millstream.core.records.schema.tokens import TokenKind

_PARTS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
_WITH_PRECISION = ("YEAR", "DAY", "SECOND")


def parse_interval(reader: TokenReader) -> YearMonthIntervalType | DayTimeIntervalType:
    """Reads what follows the keyword INTERVAL."""
    precisions: dict[str, int] = {}
    start = reader.next
    parts: tuple[str, ...] = (_part(reader, _PARTS, precisions),)
    if len(finer := _finer(parts[0])) and reader.skips("TO"):
        parts = (*parts, _part(reader, finer, precisions))
    with reader.at(start):
        if parts[0] in ("YEAR", "MONTH"):
            return YearMonthIntervalType(YearMonthResolution(parts), *precisions.values())
        days, fraction = precisions.get("DAY", DEFAULT_DAYS), precisions.get("SECOND", DEFAULT_FRACTION)
        return DayTimeIntervalType(DayTimeResolution(parts), days, fraction)


def _finer(part: str) -> tuple[str, ...]:
    """The parts to which an interval can go from this one: those of years and months are kept apart from times."""
    return ("MONTH",) if part == "YEAR" else () if part == "MONTH" else _PARTS[_PARTS.index(part) + 1 :]


def _part(reader: TokenReader, allowed: tuple[str, ...], precisions: dict[str, int]) -> str:
    token = reader.take(TokenKind.KEYWORD)
    if token.value not in allowed:
        raise reader.error(f"Invalid interval resolution: expected {' or '.join(allowed)}, but found {token}", token)
    if token.value in _WITH_PRECISION:
        precisions.update((token.value, value) for value in reader.integers(1))
    return token.value
