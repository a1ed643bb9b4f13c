"""What user code prints in a worker, as events: each line with its time and the task that printed it.

A task manager's workers print into files that people read long after, so a line has to show whose it is and when it
came; so it can be put between what the task has logged. Print sinks write through `plain`: their lines are the job's
output, and stay as they are.
"""

from __future__ import annotations

import atexit
import re
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any, TextIO

from millstream.core.logs.log_lines import Line, Written, written_as
from millstream.core.logs.origins import origin_here
from millstream.core.settings.configuration import Configuration

STDOUT, STDERR = "stdout", "stderr"
"""The loggers that printed lines have as events."""
_LEVELS = {STDOUT: "INFO", STDERR: "WARNING"}
_LONGEST = 64 * 1024  # characters of a line that are held back until its end comes
_ENDS = re.compile(r"\r\n|\n|\r")


class NamedPrints:
    """A text stream in front of another one. What it does not do itself, the other one does."""

    def __init__(self, stream: TextIO, name: str, written: Written) -> None:
        self.plain = stream
        self._name = name
        self._written = written
        self._begun: dict[int, str] = {}

    def write(self, text: str) -> int:
        """Writes the lines that are whole now, as one write. Each thread has a line of its own that is begun."""
        thread = threading.get_ident()
        *whole, rest = _ENDS.split(self._begun.pop(thread, "") + text)
        if len(rest) > _LONGEST:
            whole, rest = [*whole, rest], ""
        if rest:
            self._begun[thread] = rest
        if whole:
            self.plain.write("".join(map(self._event, whole)))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """As of any file."""
        for line in lines:
            self.write(line)

    def end_lines(self) -> None:
        """Writes what was begun and will not be ended."""
        while self._begun:
            self.plain.write(self._event(self._begun.popitem()[1]))
        self.plain.flush()

    def _event(self, line: str) -> str:
        return f"{self._written(Line(time.time(), _LEVELS[self._name], 'worker', self._name, line, origin_here()))}\n"

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)


def name_prints(configuration: Configuration) -> None:
    """From now on, everything that this process prints shows where it comes from."""
    written = written_as(configuration)
    sys.stdout = NamedPrints(sys.stdout, STDOUT, written)
    sys.stderr = NamedPrints(sys.stderr, STDERR, written)
    for stream in (sys.stdout, sys.stderr):
        atexit.register(stream.end_lines)


def plain(stream: TextIO) -> TextIO:
    """The stream without the names."""
    return stream.plain if isinstance(stream, NamedPrints) else stream
