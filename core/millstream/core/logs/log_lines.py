"""How an event is written: one line of text, or one JSON object, with the job, vertex, subtask and attempt in it.

A text has the time with the host's offset from UTC, so that lines of several hosts can be put in order. What belongs to
an event but does not fit into a line, such as a traceback, follows in lines of its own; in JSON it is inside of the
object. `log_events.py` reads both.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from msgspec import Struct

from millstream.core.logs.origins import Origin
from millstream.core.logs.short_ids import with_short_ids
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import LOGGING_FORMAT


class Line(Struct, frozen=True):
    """What is written of an event. `time` is in seconds since 1970, `more` what follows the message."""

    time: float
    level: str
    service: str
    logger: str
    message: str
    origin: Origin | None = None
    more: str = ""


Written = Callable[[Line], str]


def as_text(line: Line) -> str:
    """`2026-01-31 12:00:00.000Z INFO    worker [map (1/2)#0 (vertex) of name (job)] logger: message`, with short ids.

    Messages of users stay as they are.
    """
    origin = f"[{line.origin.text}] " if line.origin is not None else ""
    message = with_short_ids(line.message) if line.logger.startswith("millstream.") else line.message
    head = f"{_moment(line.time)} {line.level:<7} {line.service} {origin}{line.logger}: {message}"
    return f"{head}\n{line.more}" if line.more else head


def as_json(line: Line) -> str:
    """The same as an object; `time` in milliseconds since 1970."""
    return json.dumps(json_event(line))


def json_event(line: Line) -> dict[str, Any]:
    """The object itself."""
    event: dict[str, Any] = {
        "time": round(line.time * 1000),
        "level": line.level,
        "service": line.service,
        "logger": line.logger,
        "message": line.message,
    }
    if line.origin is not None:
        event |= {"job": line.origin.job_id, "jobName": line.origin.job_name}
        if line.origin.vertex_id:
            event |= {
                "vertex": line.origin.vertex_id,
                "task": line.origin.task_name,
                "subtask": line.origin.subtask,
                "attempt": line.origin.attempt,
            }
    if line.more:
        event["exception"] = line.more
    return event


def written_as(configuration: Configuration) -> Written:
    """How lines of the log are written: as `logging.format` sets it."""
    return as_json if configuration.get(LOGGING_FORMAT) == "json" else as_text


def _moment(seconds: float) -> str:
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    second, offset = _second(whole)
    return f"{second}.{milliseconds:03d}{offset}"


@lru_cache(maxsize=4)
def _second(seconds: int) -> tuple[str, str]:
    local = time.localtime(seconds)
    minutes = local.tm_gmtoff // 60
    hours, rest = divmod(abs(minutes), 60)
    offset = f"{'-' if minutes < 0 else '+'}{hours:02d}:{rest:02d}" if minutes else "Z"
    return time.strftime("%Y-%m-%d %H:%M:%S", local), offset
