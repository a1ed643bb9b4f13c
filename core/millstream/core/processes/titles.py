"""What `ps` shows of a process: `millstream: worker orders (4f9a1c22): map, sink (python -m ...)`.

The title is written over the command line that the kernel keeps for the process, and is no longer than that: a process
that is to have a long one is started with an argument of spaces. Elsewhere than on Linux the command line stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from millstream.core.linux.command_line import command_line, overwrite_command_line
from millstream.core.logs.printable import printable
from millstream.core.logs.short_ids import short_id

if TYPE_CHECKING:
    from millstream.core.messages.task_manager import StartWorker

ROOM = 240
"""Letters that a slot worker's command line is longer for it."""


def worker_title(start: StartWorker, tasks: Iterable[str]) -> str:
    """The title of a slot worker with these tasks."""
    listed = ", ".join(tasks)
    return printable(f"worker {start.job_name} ({short_id(start.job_id)}){': ' if listed else ''}{listed}")


def set_title(text: str, module: str = "") -> None:
    """From now on, `ps` shows the text, shortened to what there is room for, and behind it the module that runs."""
    found = command_line()
    if found is None:
        return
    size = len(found[1])
    behind = f" (python -m {module})".encode() if module else b""
    title = f"millstream: {text}".encode(errors="replace")
    room = size - 1 - len(behind)
    if room < len(b"millstream: "):
        behind, room = b"", size - 1
    if len(title) > room:
        title = title[: max(0, room - 3)].decode(errors="ignore").encode() + b"..."[: min(3, room)]
    overwrite_command_line((title + behind).ljust(size, b"\0"))
