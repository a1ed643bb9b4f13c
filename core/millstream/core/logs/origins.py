"""Which job, and which attempt of which subtask, a line of a log comes from.

A process defines once how this is found (`set_up_logging`). A thread that works for one task only, such as that of an
async function, is started with `for_this_task` around what it runs: its lines are then that task's, whatever the
process's main thread does meanwhile. Users start threads without that: in a process that runs their functions, a thread
notes when it is started whether that is done for a task (`threads_are_their_starters`), and so do those that it starts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec

from msgspec import Struct

from millstream.core.logs.printable import printable
from millstream.core.logs.short_ids import short_id


class Origin(Struct, frozen=True):
    """A job; and one attempt of one of its subtasks, when there is a vertex."""

    job_id: str
    job_name: str = ""
    vertex_id: str = ""
    task_name: str = ""
    """With the subtask in it, as in `map (1/2)`."""
    subtask: int = 0
    attempt: int = 0

    @property
    def text(self) -> str:
        """As it stands in a line of text, which `log_events` reads: `map (1/2)#0 (0a1b2c3d) of orders (4e5f6a7b)`."""
        task = f"{self.task_name}#{self.attempt} ({short_id(self.vertex_id)}) of " if self.vertex_id else ""
        job = f"{self.job_name} " if self.job_name else ""
        return printable(f"{task}{job}({short_id(self.job_id)})")


P = ParamSpec("P")
Where = Callable[[], Origin | None]
"""Returns what the calling thread works on."""


class _Bound(threading.local):
    origin: Origin | None = None


_bound = _Bound()
_STARTED_FOR = "_millstream_origin"
_process: list[Where] = []


def origins_are(where: Where) -> None:
    """From now on, the process calls this for what a thread works on that is bound to nothing."""
    _process[:] = [where]


def origin_here() -> Origin | None:
    """What the calling thread works on."""
    if _bound.origin is not None:
        return _bound.origin
    started_for: Origin | None = getattr(threading.current_thread(), _STARTED_FOR, None)
    if started_for is not None:
        return started_for
    return _process[0]() if _process else None


@contextmanager
def lines_of(origin: Origin | None) -> Iterator[None]:
    """What the calling thread logs and prints inside is of this origin."""
    before, _bound.origin = _bound.origin, origin
    try:
        yield
    finally:
        _bound.origin = before


def for_this_task(target: Callable[P, None]) -> Callable[P, None]:
    """What a new thread is to run, for the task that the calling thread works for."""
    origin = origin_here()

    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with lines_of(origin):
            target(*args, **kwargs)

    return run


def threads_are_their_starters() -> None:
    """From now on, what a thread logs and prints is of the task that its starter worked for, if it did for any.

    Called once by a process that runs functions of users. Only the start is looked at, for `run` is often overridden.
    """
    start = threading.Thread.start

    @wraps(start)
    def start_for_task(thread: threading.Thread) -> None:
        origin = origin_here()
        if origin is not None and origin.vertex_id:
            setattr(thread, _STARTED_FOR, origin)
        start(thread)

    setattr(threading.Thread, "start", start_for_task)  # noqa: B010  # in this process, which is the tasks' own


def thread_is_nobodys() -> None:
    """The calling thread works for any task, whichever started it: for pools of the runtime."""
    setattr(threading.current_thread(), _STARTED_FOR, None)
