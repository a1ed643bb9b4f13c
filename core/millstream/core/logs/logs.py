"""Structured logs: one event a line, as text or JSON, with the service's name and what it works on in each.

Services and the processes of jobs log to standard error. Those of an embedded cluster share it with the user's program:
of ours, only errors are shown then (`logging.stderr.level`), and all goes to `execution.local.log-file` if that is set.
"""

from __future__ import annotations

import logging
import sys

from millstream.core.logs.log_files import LogBounds
from millstream.core.logs.log_lines import Line, Written, written_as
from millstream.core.logs.origins import Where, origin_here, origins_are
from millstream.core.logs.shared_file import SharedFileHandler
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import EXECUTION_LOCAL_LOG_FILE
from millstream.core.settings.options.services import (
    LOGGING_LEVEL,
    LOGGING_STDERR_LEVEL,
    PYTHON_LOGGING_DEFAULT_LEVEL,
    PYTHON_LOGGING_LEVEL_OVERRIDES,
)
from millstream.core.settings.secrets import without_secrets

REPORTED: dict[str, object] = {"millstream_reported": True}
"""The `extra` of an error of a job, which reaches the program that waits for the job, and is shown there by that."""
_FLINKS_LEVELS = {"OFF": logging.CRITICAL + 1, "TRACE": logging.DEBUG // 2}
"""What Flink's levels are that Python has no name for."""


class EventFormatter(logging.Formatter):
    """Writes records as lines, without secrets."""

    def __init__(self, service: str, written: Written) -> None:
        super().__init__()
        self._service = service
        self._written = written

    def format(self, record: logging.LogRecord) -> str:
        """With what was raised, and the stack, if the record has them."""
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        more = [text for text in (record.exc_text, record.stack_info) if text]
        message, more = without_secrets(record.getMessage()), [without_secrets(text) for text in more]
        where = origin_here()
        return self._written(
            Line(record.created, record.levelname, self._service, record.name, message, where, "\n".join(more))
        )


def set_up_logging(service: str, configuration: Configuration, where: Where = lambda: None) -> None:
    """Called once by each process's main. `where` returns what the process works on, such as a task, for each line."""
    origins_are(where)
    shown = logging.StreamHandler(sys.stderr)
    shown.setFormatter(EventFormatter(service, written_as(configuration)))
    least = logging.getLevelNamesMapping()[configuration.get(LOGGING_STDERR_LEVEL)]
    shown.addFilter(lambda record: _level_on_stderr(record) >= least or not is_ours(record.name))
    handlers: list[logging.Handler] = [shown]
    file = configuration.get(EXECUTION_LOCAL_LOG_FILE)
    if file:
        handlers.append(file_handler(file, service, configuration))
    logging.basicConfig(level=_level_of_others(configuration), handlers=handlers, force=True)
    logging.getLogger("millstream").setLevel(configuration.get(LOGGING_LEVEL))
    for name, level in _overrides(configuration).items():
        logging.getLogger(name).setLevel(level)


def _level_on_stderr(record: logging.LogRecord) -> int:
    return min(record.levelno, logging.WARNING) if is_reported(record) else record.levelno


def is_reported(record: logging.LogRecord) -> bool:
    """Whether it was logged with `REPORTED`."""
    return "millstream_reported" in record.__dict__


def _level(name: str) -> int:
    return _FLINKS_LEVELS[name] if name in _FLINKS_LEVELS else logging.getLevelNamesMapping()[name]


def _level_of_others(configuration: Configuration) -> int:
    level = configuration.get(PYTHON_LOGGING_DEFAULT_LEVEL)
    return _level(configuration.get(LOGGING_LEVEL) if level == "INHERIT" else level)


def _overrides(configuration: Configuration) -> dict[str, int]:
    levels = configuration.get(PYTHON_LOGGING_LEVEL_OVERRIDES)
    return {name: _level(level) for name, level in levels.items()}


def file_handler(file: str, service: str, configuration: Configuration) -> logging.Handler:
    """Appends to a file that several processes may share, and keeps it within the bounds of log files."""
    ours, others = _level(configuration.get(LOGGING_LEVEL)), _level_of_others(configuration)
    handler = SharedFileHandler(file, LogBounds.of(configuration))
    handler.setLevel(min(ours, others, *_overrides(configuration).values()))
    handler.setFormatter(EventFormatter(service, written_as(configuration)))
    return handler


def is_ours(logger: str) -> bool:
    """Whether it is Millstream's."""
    return logger == "millstream" or logger.startswith("millstream.")
