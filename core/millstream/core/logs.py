"""Structured logs: one event a line on stderr, as text or JSON, with the service's name in each."""

from __future__ import annotations

import json
import logging
import sys

from millstream.core.configuration import Configuration
from millstream.core.secrets import json_without_secrets, without_secrets


class _TextFormatter(logging.Formatter):
    def __init__(self, service: str) -> None:
        super().__init__(f"%(asctime)s %(levelname)-7s {service} %(name)s: %(message)s")
        self.default_msec_format = "%s.%03d"

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


class _JsonFormatter(logging.Formatter):
    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        event = {
            "time": round(record.created * 1000),
            "level": record.levelname,
            "service": self._service,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(json_without_secrets(event))


def set_up_logging(service: str, configuration: Configuration) -> None:
    """Called once by each process's main."""
    handler = logging.StreamHandler(sys.stderr)
    json_lines = configuration.string("logging.format") == "json"
    handler.setFormatter(_JsonFormatter(service) if json_lines else _TextFormatter(service))
    logging.basicConfig(level=configuration.string("logging.level"), handlers=[handler], force=True)
