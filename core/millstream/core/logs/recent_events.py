"""The last events of a log file that match a filter, found from its end backwards, over files that were moved aside.

Pure: the search requests pieces of files and is sent them, so that the reader, over REST or over gRPC, waiting
or not, searches in the same way. It ends with enough events, with one from before the wanted time, or after so many
bytes: a file of which nothing passes must not be read to its beginning.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from msgspec import Struct

from millstream.core.logs.log_events import LogEvent, LogFilter, parsed
from millstream.core.logs.log_lines import Line
from millstream.core.messages.logs import LogContent

BLOCK = 256 * 1024
MOST = 32 * 1024 * 1024  # bytes that are read for one file and those of it that were moved aside


class Piece(Struct, frozen=True):
    """So many bytes of a file; without an offset its last ones."""

    name: str
    offset: int | None
    length: int = BLOCK


Search = Generator[Piece, LogContent, list[LogEvent]]


def chain_of(name: str, names: Sequence[str]) -> list[str]:
    """The file and those of it that were moved aside, newest first."""
    numbers = sorted(int(end) for n in names if n.startswith(f"{name}.") and (end := n[len(name) + 1 :]).isdigit())
    return [name, *(f"{name}.{number}" for number in numbers)]


def recent_events(chain: Sequence[str], wanted: LogFilter, limit: int, continued: bool = True) -> Search:
    """The last events that pass, oldest first. `continued`: whether lines that begin no event belong to the last one.

    In a file of prints they do not: those are what print sinks wrote, which is a job's output and no log. Lines before
    the first event of all are one of their own, at its time: a process may die before it logs anything.
    """
    found: list[LogEvent] = []
    following: list[str] = []  # lines of an event that begins further up, last first
    seen, time = 0, 0.0
    for name in chain:
        end: int | None = None
        unended = b""  # the end of a line that begins further up
        while end is None or end > 0:
            begin = None if end is None else max(0, end - BLOCK)
            piece = yield Piece(name, begin, BLOCK if end is None else end - (begin or 0))
            seen += len(piece.content)
            content, end = piece.content + unended, piece.start if piece.content else 0
            if end > 0:
                unended, newline, content = content.partition(b"\n")
                if not newline:
                    continue
            lines = content.decode(errors="replace").split("\n")
            for text in reversed(lines if lines[-1] else lines[:-1]):
                line = parsed(text)
                if line is None:
                    if continued:
                        following.append(text)
                    continue
                time = line.time
                if time * 1000 < wanted.since_ms:
                    return found[::-1]
                if wanted.passes(line):
                    found.append(LogEvent(line, (text, *reversed(following))))
                following.clear()
                if len(found) >= limit:
                    return found[::-1]
            if seen >= MOST:
                return found[::-1]
    if following and not (wanted.job_id or wanted.level or wanted.of_tasks or wanted.since_ms):
        found.append(LogEvent(Line(time, "", "", "", following[-1]), tuple(reversed(following))))
    return found[::-1]
