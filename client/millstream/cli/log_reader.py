"""Reads log files over REST: their last events or lines, and what comes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from urllib.parse import quote

from millstream.cli.log_sources import LogSource
from millstream.cli.rest import RestClient, RestError
from millstream.core.errors import UnreachableError
from millstream.core.logs.log_events import LogEvent, LogFilter
from millstream.core.logs.recent_events import Piece, recent_events
from millstream.core.messages.logs import LogContent

_BLOCK = 64 * 1024
_POLL = 0.5
_POLLS_TO_LIST = 4
_TAIL = 256


def last_events(client: RestClient, source: LogSource, wanted: LogFilter, number: int) -> list[LogEvent]:
    """The last events that are wanted, also of files that were moved aside; from there on it can be followed."""
    search = recent_events([source.name, *source.older], wanted, number, source.continues)
    try:
        piece = next(search)
        while True:
            content = _content(client, source.owner, piece)
            if piece.offset is None and piece.name == source.name:
                source.offset, source.tail = content.start + len(content.content), content.content[-_TAIL:]
            piece = search.send(content)
    except StopIteration as done:
        found: list[LogEvent] = done.value
        return found


def _content(client: RestClient, owner: str, piece: Piece) -> LogContent:
    part = f"-{piece.length}" if piece.offset is None else f"{piece.offset}-{piece.offset + piece.length - 1}"
    try:
        return LogContent(*client.get_bytes(f"{owner}/logs/{quote(piece.name)}", f"bytes={part}"))
    except RestError as error:
        if error.status == 404:
            return LogContent(b"", 0, 0)  # it has just gone
        raise


def last_lines(client: RestClient, source: LogSource, number: int) -> list[bytes]:
    """The last lines of the file; from there on it can be followed."""
    wanted = _BLOCK
    while True:
        content, start, _ = client.get_bytes(source.path, f"bytes=-{wanted}")
        lines = content.splitlines(keepends=True)
        if len(lines) > number or start == 0 or wanted > len(content):
            break
        wanted *= 4
    source.offset, source.tail = start + len(content), content[-_TAIL:]
    if start and len(lines) <= number:
        lines = lines[1:]  # it begins within a line
    return lines[-number:] if number else []


def follow(
    client: RestClient, sources: list[LogSource], listed: Callable[[], Sequence[LogSource]] = tuple
) -> Iterator[tuple[LogSource, bytes]]:
    """Whole lines as they come, forever. Files that were moved aside are read to their end first.

    `listed` returns the files that there are by now: a job that restarts may do so in other slots. New ones are added.
    While the cluster cannot be reached, it waits; one line on stderr reports that.
    """
    is_away = False
    for polls in count():
        if polls and polls % _POLLS_TO_LIST == 0:
            known = {(source.owner, source.name) for source in sources}
            sources += [source for source in listed() if (source.owner, source.name) not in known]
        idle = True
        for source in sources:
            try:
                lines = _new_lines(client, source)
            except UnreachableError as error:
                if not is_away:
                    print(f"{error}; waiting for it", file=sys.stderr, flush=True)
                is_away = True
                break
            is_away = False
            for line in lines:
                idle = False
                yield source, line
        if idle:
            time.sleep(_POLL)


def _new_lines(client: RestClient, source: LogSource) -> list[bytes]:
    try:
        content = _behind(client, source, source.path)
        if content is None:
            content = _from_moved(client, source)
        else:
            _advance(source, content)
    except RestError as error:
        if error.status == 404:
            return []  # just being exchanged, or removed
        raise
    *lines, source.part = (source.part + content).split(b"\n")
    return [line + b"\n" for line in lines]


def _advance(source: LogSource, content: bytes) -> None:
    source.offset += len(content)
    source.tail = (source.tail + content)[-_TAIL:]


def _behind(client: RestClient, source: LogSource, path: str) -> bytes | None:
    """What the file has behind what was read; None when it is another one, which was not read."""
    begin = source.offset - len(source.tail)
    content, start, _ = client.get_bytes(path, f"bytes={begin}-")
    is_the_same = start == begin and content.startswith(source.tail)
    return content[len(source.tail) :] if is_the_same else None


def _from_moved(client: RestClient, source: LogSource) -> bytes:
    """The rest of a file that was moved aside; when there is none, the next newer one, which is then the source's."""
    newer = source.path
    for number in count(1):
        path = f"{source.path}.{number}"
        try:
            rest = _behind(client, source, path)
        except RestError as error:
            if error.status != 404:
                raise
            break  # it is not kept any more: on with the oldest that is
        if rest:
            _advance(source, rest)
            return rest
        if rest is not None:
            content = client.get_bytes(newer, "bytes=0-")[0]
            if not content or _behind(client, source, path) is None:
                return b""  # nothing there yet, or files are just being moved
            source.offset, source.tail = 0, b""
            _advance(source, content)
            return content
        newer = path
    content = client.get_bytes(newer, "bytes=0-")[0]
    source.offset, source.tail = 0, b""
    _advance(source, content)
    return content
