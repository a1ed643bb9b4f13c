"""The memory that the tasks of a slot may take: `taskmanager.memory.task.heap.size`, as a limit of its process.

The kernel counts what a process may write to (RLIMIT_DATA); what the worker has of that before its first task is the
runtime's own and is not counted, nor is a reserve for its threads. An allocation beyond the limit raises MemoryError
inside the function that requested it, so the failure has an operator and a record, and other slots are not affected.
While the failure is reported, the limit is lifted: that takes memory, too.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import resource
from collections.abc import Iterator

from msgspec import Struct

from millstream.core.linux.memory import writable_memory
from millstream.core.logs.tracebacks import with_causes
from millstream.core.processes.memory import amount
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.tasks import TASK_HEAP_SIZE

log = logging.getLogger(__name__)

OPTION = TASK_HEAP_SIZE
_RESERVE = 64 * 1024 * 1024  # stacks of threads that start later: 8 MB each, used or not
_NO_THREAD = "can't start new thread"  # the message of CPython, whatever the reason

VARIABLES = {"MIMALLOC_ARENA_EAGER_COMMIT": "0"}
"""For the process: Arrow's allocator would take a gigabyte in advance, all of which counts."""


def limit_of(configuration: Configuration) -> int:
    """In bytes; 0 when there is none."""
    return configuration.get(OPTION)


class _Limit(Struct):
    size: int = 0
    in_force: int = 0


_limit = _Limit()  # of the process, as the kernel's is


def limit_memory(size: int) -> None:
    """Limits what this process may allocate from now on, in bytes, beside what it has."""
    if size > 0:
        writable = writable_memory()
        if writable is None:
            log.warning("%s is not enforced on this platform", OPTION)
            return
        _limit.size = size
        _limit.in_force = writable + _RESERVE + size
        _set(_limit.in_force)


@contextlib.contextmanager
def lifted() -> Iterator[None]:
    """Lifts the limit within the block."""
    if not _limit.size:
        yield
        return
    _set(resource.RLIM_INFINITY)
    try:
        yield
    finally:
        _set(_limit.in_force)


def blamed_for(error: BaseException) -> str:
    """The advice for an error that is, or comes from, a lack of memory; empty for others, and without a limit."""
    if not _limit.size or not any(map(_is_lack_of_memory, with_causes(error))):
        return ""
    return (
        f"the tasks of this slot may take {amount(_limit.size)} ({OPTION}): raise it, or let them hold less at a time"
    )


def _is_lack_of_memory(error: BaseException) -> bool:
    """Not every lack of memory is a MemoryError: a thread needs its stack, a fork or a mapping raises with an errno."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and str(error) == _NO_THREAD)


def _set(soft: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY and (soft == resource.RLIM_INFINITY or soft > hard):
        soft = hard
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
