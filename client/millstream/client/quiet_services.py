"""Keeps what an embedded cluster logs out of the output of the program that it runs in.

The program's logging is the program's: with `logging.basicConfig(level=DEBUG)` it would get everything that services
log in its process, and gRPC and asyncio under them. While a cluster or a client's connection is up, messages of
Millstream go no further than its own logger; errors reach the program's handlers still. Handlers that the program puts
on the logger `millstream` get everything.
"""

from __future__ import annotations

import logging
import threading

from millstream.core.logs.logs import file_handler, is_reported
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import EXECUTION_LOCAL_LOG_FILE

THREADS = "millstream"  # the names of our threads begin with it
_LIBRARIES = ("asyncio", "grpc")


class _ToProgram(logging.Handler):
    """Hands errors to the handlers of the program, or to standard error when it has none."""

    def emit(self, record: logging.LogRecord) -> None:
        if is_reported(record):
            return
        logging.getLogger().callHandlers(record)


class _NotOnOurThreads(logging.Filter):
    """Errors, and what the program itself does with the library."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR or not (record.threadName or "").startswith(THREADS)


class QuietServices:
    """On from `begin` to `end`, for as many as have begun."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._ours = logging.getLogger("millstream")
        self._ours.addHandler(logging.NullHandler())
        self._errors = _ToProgram(logging.ERROR)
        self._filter = _NotOnOurThreads()
        self._filtered: list[logging.Logger] = []
        self._files: dict[str, logging.Handler] = {}
        self._level = logging.NOTSET

    def begin(self, configuration: Configuration) -> None:
        """Quiet from now on, but for `execution.local.log-file`."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._ours.propagate = False
                self._ours.addHandler(self._errors)
                self._level = self._ours.level
                self._filtered = [logging.getLogger(name) for name in _names_of_libraries()]
                for logger in self._filtered:
                    logger.addFilter(self._filter)
            file = configuration.get(EXECUTION_LOCAL_LOG_FILE)
            if file and file not in self._files:
                handler = self._files[file] = file_handler(file, "local", configuration)
                self._ours.addHandler(handler)
                self._ours.setLevel(min(self._ours.level or logging.CRITICAL, handler.level))

    def end(self) -> None:
        """As it was before, once the last one ends."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._ours.propagate = True
                self._ours.setLevel(self._level)
                for handler in (self._errors, *self._files.values()):
                    self._ours.removeHandler(handler)
                    handler.close()
                for logger in self._filtered:
                    logger.removeFilter(self._filter)
                self._files.clear()


def _names_of_libraries() -> list[str]:
    """A filter on a logger does not hold for those below it, so all that there are."""
    known = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in _LIBRARIES]
    return sorted({*_LIBRARIES, *known})


QUIET = QuietServices()
