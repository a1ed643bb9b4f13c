"""Events read back from the lines of log files, and which of them a filter selects. Pure.

A line that begins no event, such as one of a traceback, belongs to the event before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import Struct

from millstream.core.logs.log_lines import Line
from millstream.core.logs.origins import Origin
from millstream.core.logs.short_ids import is_same, short_id

_TEXT = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}(?:Z|[+-]\d\d:\d\d)) (?P<level>\w+) +(?P<service>\S+) "
    r"(?:\[(?:(?P<task>.*? \((?P<subtask>\d+)/\d+\))#(?P<attempt>\d+) \((?P<vertex>[0-9a-f]{8})\) of )?"
    r"(?P<job>.*?)\((?P<job_id>[0-9a-f]{8})\)\] )?"
    r"(?P<logger>[^\s:]*): (?P<message>.*)",
    re.S,
)
_ID = re.compile("[0-9a-fA-F]{4,32}")
_RANKS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "WARNING": 30, "ERROR": 40, "CRITICAL": 50, "FATAL": 50}
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
"""The values of the least level."""


class LogEvent(Struct, frozen=True):
    """An event, and the lines that it was read from, the rest of a traceback included."""

    line: Line
    lines: tuple[str, ...]

    @property
    def time_ms(self) -> int:
        """Milliseconds since 1970."""
        return round(self.line.time * 1000)


class LogFilter(Struct, frozen=True):
    """Which events to show. What is left empty does not matter."""

    job_id: str = ""
    vertex: str = ""
    """The id of a vertex or four or more digits that it begins with, or part of a task's name."""
    subtask: int | None = None
    level: str = ""
    """The least one."""
    since_ms: int = 0

    def passes(self, line: Line) -> bool:
        """Whether it is one of those. What services log of a job names it in the message."""
        origin = line.origin
        if round(line.time * 1000) < self.since_ms or _rank(line.level) < _rank(self.level):
            return False
        of_job = origin is not None and is_same(self.job_id, origin.job_id)
        if self.job_id and not of_job and short_id(self.job_id) not in line.message:
            return False
        if not self.of_tasks:
            return True
        if origin is None or not origin.vertex_id or self.subtask not in (None, origin.subtask):
            return False
        if _ID.fullmatch(self.vertex) and is_same(self.vertex.lower(), origin.vertex_id):
            return True
        return self.vertex.lower() in _without_subtask(origin.task_name).lower()

    @property
    def of_tasks(self) -> bool:
        """Whether it selects only lines that a task logged or printed."""
        return bool(self.vertex) or self.subtask is not None


def parsed(text: str) -> Line | None:
    """The event that the line begins; None when it begins none. The ids that a line of text has are short."""
    if text.startswith("{"):
        return _of_json(text)
    found = _TEXT.match(text)
    if found is None:
        return None
    origin = Origin(found["job_id"], found["job"].strip()) if found["job_id"] else None
    if origin is not None and found["vertex"]:
        of_task = (found["vertex"], found["task"], int(found["subtask"]) - 1, int(found["attempt"]))
        origin = Origin(origin.job_id, origin.job_name, *of_task)
    moment = datetime.fromisoformat(found["time"]).timestamp()
    return Line(moment, found["level"], found["service"], found["logger"], found["message"], origin)


def events_of(lines: Iterable[str]) -> Iterator[LogEvent]:
    """The events of lines in their order; lines before the first event are left out."""
    begun: Line | None = None
    gathered: list[str] = []
    for text in lines:
        line = parsed(text)
        if line is not None:
            if begun is not None:
                yield LogEvent(begun, tuple(gathered))
            begun, gathered = line, [text]
        elif begun is not None:
            gathered.append(text)
    if begun is not None:
        yield LogEvent(begun, tuple(gathered))


def _rank(level: str) -> int:
    return _RANKS.get(level, 20) if level else 0


def _without_subtask(task_name: str) -> str:
    return task_name.rpartition(" (")[0]


def _of_json(text: str) -> Line | None:
    try:
        event = json.loads(text)
        time, level, message = event["time"] / 1000, str(event["level"]), str(event["message"])
        service, logger, more = str(event["service"]), str(event["logger"]), str(event.get("exception", ""))
        origin = None
        if "job" in event:
            job, name, vertex, task = (str(event.get(key, "")) for key in ("job", "jobName", "vertex", "task"))
            origin = Origin(job, name, vertex, task, int(event.get("subtask", 0)), int(event.get("attempt", 0)))
    except (ValueError, KeyError, TypeError):
        return None  # an object that a program printed
    return Line(time, level, service, logger, message, origin, more)
