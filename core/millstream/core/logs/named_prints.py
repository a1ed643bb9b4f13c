"""What user code prints in a worker, with the task that printed it before each line.

A task manager's workers print into files that people read long after, so a line has to say whose it is. Print sinks
write through `plain`: their lines are the job's output, and stay as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, TextIO


class NamedPrints:
    """A text stream in front of another one. What it does not do itself, the other one does."""

    def __init__(self, stream: TextIO, where: Callable[[], str]) -> None:
        self.plain = stream
        self._where = where
        self._at_start = True

    def write(self, text: str) -> int:
        """Writes the text with the task's name before each line that begins in it, as one write."""
        if text:
            prefix = f"[{self._where()}] "
            lines = text.splitlines(keepends=True)
            first = prefix if self._at_start else ""
            self._at_start = lines[-1].endswith(("\n", "\r"))
            self.plain.write(first + prefix.join(lines))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """As of any file."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)


def name_prints(where: Callable[[], str]) -> None:
    """From now on, everything that this process prints says where it comes from."""
    sys.stdout = NamedPrints(sys.stdout, where)
    sys.stderr = NamedPrints(sys.stderr, where)


def plain(stream: TextIO) -> TextIO:
    """The stream without the names."""
    return stream.plain if isinstance(stream, NamedPrints) else stream
