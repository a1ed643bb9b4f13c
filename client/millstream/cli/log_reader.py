"""Reads log files over REST: which there are of a job, a task manager or a service, their last lines, what comes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from urllib.parse import quote

from msgspec import Struct, field

from millstream.cli.rest import RestClient, RestError
from millstream.core.errors import MillstreamError

SERVICES = ("dispatcher", "jobmanager", "resourcemanager")
_BLOCK = 64 * 1024
_POLL = 0.5
_POLLS_TO_LIST = 4
_TAIL = 256


class LogSource(Struct):
    """A file of a service, and how far it was read.

    `tail` is what stands right before that, by which it is known again when another file has got its name; `part` is
    the beginning of a line whose end has not come.
    """

    owner: str  # the path of the service in the API
    name: str
    offset: int = 0
    tail: bytes = field(default=b"")
    part: bytes = field(default=b"")

    @property
    def path(self) -> str:
        """Of the file in the API."""
        return f"{self.owner}/logs/{quote(self.name)}"


def sources_of(client: RestClient, wanted: str, suffix: str) -> list[LogSource]:
    """The files of a job's workers, of a task manager by its id or name, or of a service. Raises when none is there."""
    if wanted.partition("-")[0] in SERVICES:
        found = [s for s in _listed(client, "/jobmanager") if _is_named(s.name, wanted, suffix)]
        return found or _none(f"{wanted} has no log files where the dispatcher can read them (env.log.dir)")
    managers = [str(manager["id"]) for manager in client.get("/taskmanagers")["taskmanagers"]]
    files = [source for manager in managers for source in _listed(client, f"/taskmanagers/{quote(manager)}")]
    if wanted in managers or wanted.partition("-")[0] == "taskmanager":
        of_one = [s for s in files if s.owner == f"/taskmanagers/{quote(wanted)}" or s.name.partition(".")[0] == wanted]
        found = [s for s in of_one if s.name.endswith(suffix)]
        return found or _none(_no_task_manager(wanted, managers))
    found = [s for s in files if f".{wanted}.slot-" in s.name and s.name.endswith(suffix)]
    if not found and re.fullmatch("[0-9a-fA-F]{32}", wanted) is None:
        _none(_no_name(wanted, managers))
    if not found:
        client.get(f"/jobs/{quote(wanted, safe='')}")  # says so when there is no such job
        _none(
            f"no task manager has log files of job {wanted}: it got no slots, they are gone, or there is no env.log.dir"
        )
    return found


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
    """Whole lines as they come, for ever. Files that were moved aside are read to their end first.

    `listed` answers the files that there are by now: a job that restarts may do so in other slots. New ones are added.
    """
    for polls in count():
        if polls and polls % _POLLS_TO_LIST == 0:
            known = {(source.owner, source.name) for source in sources}
            sources += [source for source in listed() if (source.owner, source.name) not in known]
        idle = True
        for source in sources:
            for line in _new_lines(client, source):
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


def _listed(client: RestClient, owner: str) -> list[LogSource]:
    try:
        return [LogSource(owner, str(file["name"])) for file in client.get(f"{owner}/logs")["logs"]]
    except RestError as error:
        if error.status == 404:
            return []  # it has just gone
        raise


def _is_named(name: str, wanted: str, suffix: str) -> bool:
    return name.endswith(suffix) and wanted in (name.removesuffix(suffix), name.partition("-")[0])


def _no_task_manager(wanted: str, managers: Sequence[str]) -> str:
    if wanted in managers:
        return f"task manager {wanted} writes no log files: they go to its standard error, unless env.log.dir is set"
    known = ", ".join(managers) or "none"
    return f"no task manager {wanted} is registered; there are: {known}"


def _no_name(wanted: str, managers: Sequence[str]) -> str:
    known = ", ".join(managers) or "none is there"
    return (
        f"'{wanted}' is no job id (`millstream list -a` shows them), no task manager ({known}, or by its name in"
        f" `millstream cluster status`), and none of {', '.join(SERVICES)}"
    )


def _none(reason: str) -> list[LogSource]:
    raise MillstreamError(reason)
