"""Structured logs: one event a line, as text or JSON, with the service's name in each.

Services and the processes of jobs log to standard error. Those of an embedded cluster share it with the user's program:
of ours, only errors are shown then (`logging.stderr.level`), and all goes to `execution.local.log-file` if that is set.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path

from millstream.core.settings.configuration import Configuration
from millstream.core.settings.secrets import json_without_secrets, without_secrets

Where = Callable[[], str]

_FLINKS_LEVELS = {"OFF": logging.CRITICAL + 1, "TRACE": logging.DEBUG // 2}
"""What Flink's levels are that Python has no name for."""


class _TextFormatter(logging.Formatter):
    def __init__(self, service: str, where: Where) -> None:
        super().__init__(f"%(asctime)s %(levelname)-7s {service} %(where)s%(name)s: %(message)s")
        self.default_msec_format = "%s.%03d"
        self._where = where

    def format(self, record: logging.LogRecord) -> str:
        where = self._where()
        record.where = f"[{where}] " if where else ""
        return without_secrets(super().format(record))


class _JsonFormatter(logging.Formatter):
    def __init__(self, service: str, where: Where) -> None:
        super().__init__()
        self._service = service
        self._where = where

    def format(self, record: logging.LogRecord) -> str:
        event = {
            "time": round(record.created * 1000),
            "level": record.levelname,
            "service": self._service,
            "logger": record.name,
            "message": record.getMessage(),
        }
        where = self._where()
        if where:
            event["task"] = where
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(json_without_secrets(event))


def set_up_logging(service: str, configuration: Configuration, where: Where = str) -> None:
    """Called once by each process's main. `where` answers what the process works on, such as a task, for each line."""
    shown = logging.StreamHandler(sys.stderr)
    shown.setFormatter(_formatter(service, configuration, where))
    least = logging.getLevelNamesMapping()[configuration.string("logging.stderr.level")]
    shown.addFilter(lambda record: record.levelno >= least or not is_ours(record.name))
    handlers: list[logging.Handler] = [shown]
    file = configuration.string("execution.local.log-file")
    if file:
        handlers.append(file_handler(file, service, configuration, where))
    logging.basicConfig(level=_level_of_others(configuration), handlers=handlers, force=True)
    logging.getLogger("millstream").setLevel(configuration.string("logging.level"))
    for name, level in _overrides(configuration).items():
        logging.getLogger(name).setLevel(level)


def _level(name: str) -> int:
    return _FLINKS_LEVELS[name] if name in _FLINKS_LEVELS else logging.getLevelNamesMapping()[name]


def _level_of_others(configuration: Configuration) -> int:
    level = configuration.string("python.logging.default.level")
    return _level(configuration.string("logging.level") if level == "INHERIT" else level)


def _overrides(configuration: Configuration) -> dict[str, int]:
    levels = configuration.mapping("python.logging.level.overrides")
    return {name: _level(level) for name, level in levels.items()}


def file_handler(file: str, service: str, configuration: Configuration, where: Where = str) -> logging.Handler:
    """Appends to a file that several processes may share: each line is one write."""
    ours, others = _level(configuration.string("logging.level")), _level_of_others(configuration)
    handler = logging.FileHandler(Path(file), delay=True)
    handler.setLevel(min(ours, others, *_overrides(configuration).values()))
    handler.setFormatter(_formatter(service, configuration, where))
    return handler


def is_ours(logger: str) -> bool:
    """Whether it is Millstream's."""
    return logger == "millstream" or logger.startswith("millstream.")


def _formatter(service: str, configuration: Configuration, where: Where) -> logging.Formatter:
    as_json = configuration.string("logging.format") == "json"
    return _JsonFormatter(service, where) if as_json else _TextFormatter(service, where)
