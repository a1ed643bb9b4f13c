"""A dump of all threads of this process and of the tasks on their asyncio loops, as text.

Can be called on any thread, and is blocked by others only while native code holds the interpreter lock. Source lines
are read from files.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import traceback
from collections.abc import Iterator
from types import CoroutineType, FrameType, GeneratorType
from typing import Any

from millstream.core.linux.threads import scheduler_state
from millstream.core.logs.tracebacks import encodable, shortened
from millstream.core.messages.inspection import ThreadStack

Stack = list[tuple[FrameType, int]]
"""Frames, each with its current line."""
_LONGEST_STACK = 16 * 1024
_LONGEST_DUMP = 4 * 1024 * 1024
_MOST_TASKS = 500
_STATES = {"R": "running", "S": "waiting", "D": "waiting for the disk", "T": "stopped"}


def dump_threads() -> tuple[ThreadStack, ...]:
    """Returns all threads except the calling one, the main thread first, each followed by the tasks of its loop."""
    stacks = current_stacks()
    stacks.pop(threading.get_ident(), None)
    known = {thread.ident: thread for thread in threading.enumerate()}
    main = threading.main_thread().ident
    found: list[ThreadStack] = []
    for ident in sorted(stacks, key=lambda ident: (ident != main, ident)):
        found.append(_thread(ident, known.get(ident), stacks[ident]))
        found += [_task(task) for task in _tasks_of(stacks[ident])]
    room = _LONGEST_DUMP
    for number, one in enumerate(found):
        room -= len(one.stack)
        if room < 0:
            rest = f"{len(found) - number} more are omitted"
            return (*found[:number], ThreadStack("others", rest))
    return tuple(found)


def current_stacks() -> dict[int, Stack]:
    """Returns the stacks of all threads by their idents, the innermost frame first.

    They are walked at once, without letting other threads run: a frame that ends in between has no valid links.
    """
    frames = sys._current_frames()  # noqa: SLF001  # the documented way to them
    return {ident: list(traceback.walk_stack(frame)) for ident, frame in frames.items()}


def _thread(ident: int, thread: threading.Thread | None, stack: Stack) -> ThreadStack:
    name = thread.name if thread is not None else f"thread {ident}"
    native = thread.native_id if thread is not None else None
    state = _STATES.get(scheduler_state(native) or "", "") if native is not None else ""
    about = ", ".join(
        part
        for part in (
            f"thread {native or ident}",
            "daemon" if thread is not None and thread.daemon else "",
            "not started by Python" if thread is None else "",
            state,
        )
        if part
    )
    return ThreadStack(encodable(name), _text(f'"{name}" ({about})', traceback.StackSummary.extract(reversed(stack))))


def _text(head: str, stack: traceback.StackSummary) -> str:
    return encodable(shortened(f"{head}\n{''.join(stack.format())}", _LONGEST_STACK))


def _tasks_of(stack: Stack) -> list[asyncio.Task[Any]]:
    """Returns the tasks of the thread's asyncio loop, if it runs one."""
    for frame, _ in stack:
        if frame.f_code.co_name == "run_forever":
            loop = frame.f_locals.get("self")
            if isinstance(loop, asyncio.AbstractEventLoop):
                with contextlib.suppress(RuntimeError):  # the set of tasks changed too often while it was listed
                    return sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())[:_MOST_TASKS]
    return []


def _task(task: asyncio.Task[Any]) -> ThreadStack:
    coroutine = task.get_coro()
    what = getattr(coroutine, "__qualname__", None) or type(coroutine).__qualname__
    name = f"{task.get_name()}: {what}"
    stack = traceback.StackSummary.extract(_awaited(coroutine))
    return ThreadStack(encodable(f"asyncio task {name}"), _text(f'asyncio task "{name}"', stack))


def _awaited(awaitable: Any) -> Iterator[tuple[FrameType, int]]:
    """Iterates from the task's coroutine to what it ultimately awaits, as far as that is Python code."""
    while awaitable is not None:
        match awaitable:
            case CoroutineType():
                frame, awaitable = awaitable.cr_frame, awaitable.cr_await
            case GeneratorType():
                frame, awaitable = awaitable.gi_frame, awaitable.gi_yieldfrom
            case _:
                return
        if frame is not None:
            yield frame, frame.f_lineno
