"""Which job, and which attempt of which subtask, a line of a log comes from.

A process says once how to tell (`set_up_logging`). A thread that works for one task only, such as that of an async
function, is started with `for_this_task` around what it runs: its lines are then that task's, whatever the process's
main thread does meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec

from msgspec import Struct

from millstream.core.logs.printable import printable


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
        """As it stands in a line of text, which `log_events` reads: `job (id), map (1/2)#0 (id of the vertex)`."""
        job = f"{self.job_name} ({self.job_id})" if self.job_name else f"({self.job_id})"
        task = f", {self.task_name}#{self.attempt} ({self.vertex_id})" if self.vertex_id else ""
        return printable(job + task)


P = ParamSpec("P")
Where = Callable[[], Origin | None]
"""Answers what the calling thread works on."""


class _Bound(threading.local):
    origin: Origin | None = None


_bound = _Bound()
_process: list[Where] = []


def origins_are(where: Where) -> None:
    """From now on, the process asks this for what a thread works on that is bound to nothing."""
    _process[:] = [where]


def origin_here() -> Origin | None:
    """What the calling thread works on."""
    if _bound.origin is not None:
        return _bound.origin
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
