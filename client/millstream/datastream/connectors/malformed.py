"""Input that cannot be read as records: what becomes of it, and how it is counted.

A reader hands what it could not read to `MalformedRecords`, in the call in which its position moves past it. So a
checkpoint holds either both, the position and the dead letter, or neither; the count is part of the reader's state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar

from millstream.core.errors import InvalidProgramError
from millstream.core.logs.tracebacks import encodable
from millstream.datastream.connectors.base import SourceReaderContext
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.functions import OutputTag

log = logging.getLogger(__name__)

ERROR_COUNTER = "numRecordsInErrors"
"""Flink's name for the metric."""
LONGEST_RAW = 64 * 1024
"""How many bytes of a record that is too long are kept."""
LONGEST_LINE = 64 * 1024 * 1024
"""The longest record, unless the source sets another limit."""
_SHOWN = 200


class OnError(Enum):
    """What a source does with input that it cannot read."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Input that could not be read as a record.

    `source` is the file, or the address; `offset` is where in it `raw` begins, in bytes. Of a record that is too
    long, `raw` is the beginning.
    """

    source: str
    offset: int
    raw: bytes
    reason: str


DEAD_LETTERS = OutputTag("dead-letters", DeadLetter)
"""The side output of a source with `on_error="dead-letter"`."""


@dataclass(frozen=True, slots=True)
class MalformedCount:
    """How many records a reader could not read: part of its state, beside its splits."""

    is_read: ClassVar[bool] = False  # event time does not wait for it, as it would for a split
    count: int


@dataclass(frozen=True, slots=True)
class ErrorHandling:
    """What the user chose; `tag` is where dead letters go."""

    on_error: OnError = OnError.FAIL
    tag: OutputTag = DEAD_LETTERS

    @staticmethod
    def of(on_error: OnError | OutputTag | str) -> ErrorHandling:
        """As given to a source: one of the three ways, or the side output that dead letters are to go to."""
        if isinstance(on_error, OutputTag):
            return ErrorHandling(OnError.DEAD_LETTER, on_error)
        try:
            return ErrorHandling(OnError(on_error))
        except ValueError:
            names = ", ".join(repr(way.value) for way in OnError)
            raise InvalidProgramError(f"on_error must be one of {names}, or an OutputTag; got {on_error!r}") from None

    @property
    def side_outputs(self) -> tuple[OutputTag, ...]:
        """The side outputs of a source with this handling."""
        return (self.tag,) if self.on_error is OnError.DEAD_LETTER else ()


class MalformedRecords:
    """What one reader does with them. `locate` names the place of the one that fails it, such as a file and a line."""

    def __init__(
        self, handling: ErrorHandling, context: SourceReaderContext, locate: Callable[[DeadLetter], str]
    ) -> None:
        self._handling = handling
        self._context = context
        self._locate = locate
        self._count = 0
        self._warned: set[str] = set()

    @property
    def fails(self) -> bool:
        """Whether the first one fails the source."""
        return self._handling.on_error is OnError.FAIL

    def handle(self, found: Sequence[DeadLetter]) -> None:
        """Fails, counts, or counts and sends on."""
        if not found:
            return
        if self.fails:
            more = f" (and {len(found) - 1} more that were read with it)" if len(found) > 1 else ""
            message = f"{self._locate(found[0])}: {_described(found[0])}{more}"
            raise ConnectorError(f"{message}; on_error='skip' or 'dead-letter' would continue without such records")
        self._add(len(found))
        first = found[0]
        if first.source not in self._warned and len(self._warned) < 100:
            self._warned.add(first.source)
            message = f"{first.source}: {_described(first)}"  # without its line, for which the file would be read
            log.warning("%s; it is counted in %s, as are others like it", message, ERROR_COUNTER)
        if self._handling.on_error is OnError.DEAD_LETTER:
            self._context.output(self._handling.tag, [_sendable(letter) for letter in found])

    def _add(self, count: int) -> None:
        self._count += count
        self._context.runtime_context.get_metrics_group().counter(ERROR_COUNTER).inc(count)

    def restore(self, states: Sequence[MalformedCount]) -> None:
        """Restores the count from the state of a checkpoint."""
        if states:
            self._add(sum(state.count for state in states))

    def state(self) -> list[MalformedCount]:
        """For a checkpoint."""
        return [MalformedCount(self._count)] if self._count else []

    def close(self) -> None:
        """Logs the number of malformed records."""
        if self._count:
            log.warning("%d records of the input could not be read (%s)", self._count, ERROR_COUNTER)


def _sendable(letter: DeadLetter) -> DeadLetter:
    """Names of files that are no UTF-8 cannot be written as text."""
    return letter if letter.source.isascii() else replace(letter, source=encodable(letter.source))


def _described(letter: DeadLetter) -> str:
    more = len(letter.raw) - _SHOWN
    reason = letter.reason if len(letter.reason) <= 2 * _SHOWN else f"{letter.reason[: 2 * _SHOWN]}…"
    return f"{reason}; at byte {letter.offset}: {letter.raw[:_SHOWN]!r}{f' and {more} bytes more' if more > 0 else ''}"
