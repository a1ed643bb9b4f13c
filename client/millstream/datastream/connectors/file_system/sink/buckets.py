"""Which folder below a file sink's path each record goes to, with PyFlink's names. Pure."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.batches import Batch, lines_of
from millstream.datastream.connectors.errors import ConnectorError

_PATTERN = re.compile(r"'([^']*)'|([A-Za-z])\2*|[^A-Za-z']+")
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d))?")
_DIRECTIVES = {"yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "DDD": "%j"}


class BucketAssigner(ABC):
    """Divides batches into buckets. Picklable.

    A bucket is a path relative to the sink's, empty for that path itself. Batches of columns stay columns.
    """

    @abstractmethod
    def split(self, batch: Batch, now_ms: int, /) -> Iterable[tuple[str, Batch]]:
        """Returns the parts of `batch` by bucket; records of one bucket keep their order.

        `now_ms` is the time in milliseconds since the Unix epoch.
        """

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Everything into the sink's path: the default."""
        return _BasePath()

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        """Assigns buckets by the time at which a record is written.

        `format_str` has Java's letters: yyyy yy MM dd HH mm ss DDD, and text in quotes; a slash makes folders in
        folders. `timezone_id` is a name such as `Europe/Lisbon` or an offset such as `GMT-08:00`; without it, the
        machine's time zone.
        """
        return _DateTime(format_str, timezone_id)

    @staticmethod
    def custom_bucket_assigner(function: Callable[[Any], str]) -> BucketAssigner:
        """By a function of the record.

        Raises `InvalidProgramError` unless it is callable.
        """
        if not callable(function):
            raise InvalidProgramError(f"a bucket assigner takes a function of a record, got {function!r}")
        return _ByFunction(function)


class _BasePath(BucketAssigner):
    @override
    def split(self, batch: Batch, now_ms: int) -> Iterable[tuple[str, Batch]]:
        return (("", batch),)


class _DateTime(BucketAssigner):
    def __init__(self, format_str: str, timezone_id: str | None) -> None:
        self._format = _directives(format_str)
        self._zone = None if timezone_id is None else _zone(timezone_id)

    @override
    def split(self, batch: Batch, now_ms: int) -> Iterable[tuple[str, Batch]]:
        return ((datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(self._zone).strftime(self._format), batch),)


def _zone(timezone_id: str) -> tzinfo:
    try:
        if offset := _OFFSET.fullmatch(timezone_id):
            sign, hours, minutes = offset.groups()
            east = timedelta(hours=int(hours), minutes=int(minutes or 0))
            return timezone(-east if sign == "-" else east)
        return ZoneInfo(timezone_id)
    except (ZoneInfoNotFoundError, ValueError):
        raise InvalidProgramError(
            f"unknown time zone {timezone_id!r}; write it like 'Europe/Lisbon' or 'GMT-08:00'"
        ) from None


def _directives(format_str: str) -> str:
    result, position = [], 0
    while position < len(format_str):
        found = _PATTERN.match(format_str, position)
        if found is None:
            raise InvalidProgramError(f"a date format has an unclosed quote: {format_str!r}")
        position, text = found.end(), found.group()
        if found.group(2) is None:  # no letter
            text = "'" if text == "''" else found.group(1) or text
            result.append(text.replace("%", "%%"))
        elif text in _DIRECTIVES:
            result.append(_DIRECTIVES[text])
        else:
            known = " ".join(_DIRECTIVES)
            raise InvalidProgramError(f"a date format cannot have '{text}' ({format_str!r}); it has {known}")
    return "".join(result)


class _ByFunction(BucketAssigner):
    def __init__(self, function: Callable[[Any], str]) -> None:
        self._function = function

    def split(self, batch: Batch, now_ms: int) -> Iterable[tuple[str, Batch]]:
        """Rows as lists, columns by their positions."""
        positions: dict[str, list[int]] = {}
        for position, record in enumerate(lines_of(batch)):
            bucket = self._function(record)
            if not isinstance(bucket, str):
                raise ConnectorError(f"file sink: the bucket of {record!r:.200} must be a text, got {bucket!r:.100}")
            positions.setdefault(bucket, []).append(position)
        if len(positions) == 1:
            return ((next(iter(positions)), batch),)
        return [(bucket, batch.take(indices)) for bucket, indices in positions.items()]


def checked_bucket(bucket: str) -> str:
    """Refuses a bucket that leaves the sink's path, or that readers would pass over."""
    parts = bucket.split("/")
    if bucket and any(not part or part.startswith((".", "_")) or "\0" in part for part in parts):
        raise ConnectorError(
            f"file sink: {bucket!r:.200} is no bucket: it has to be a relative path whose folders are not empty and do "
            "not start with '.' or '_'"
        )
    return bucket
