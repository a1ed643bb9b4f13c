"""An asyncio loop on virtual time, which runs the code of many processes by turns.

When nothing is ready, time jumps to the next timer. Nothing here waits, sleeps or has threads: work for a thread is
done on the loop, a little later. So the same program with the same random numbers gives the same run.

Whatever is called belongs to the process in whose context it was scheduled. A frozen process stands still: what is due
in it waits until it thaws. A killed one stands still for good.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

LONGEST_WORK = 0.005  # seconds, of what goes to a thread
_FORGET_AFTER = 16  # tasks that are started: those that are done are not kept any more
_BEGIN_MS = 1_700_000_000_000
_process: contextvars.ContextVar[VirtualProcess] = contextvars.ContextVar("process")


class VirtualProcess:
    """What can be frozen and killed by itself. `stands_still` is kept, not computed: every action reads it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stands_still = False
        self.thawed_at = 0.0
        self.waiting: list[Action] = []
        self.context = contextvars.copy_context()
        self.context.run(_process.set, self)
        self._is_alive = True
        self._is_frozen = False

    @property
    def is_alive(self) -> bool:
        return self._is_alive

    @property
    def is_frozen(self) -> bool:
        return self._is_frozen

    def set_state(self, alive: bool, frozen: bool) -> None:
        self._is_alive, self._is_frozen = alive, frozen
        self.stands_still = frozen or not alive


def current_process() -> VirtualProcess:
    """Whose code runs."""
    return _process.get()


class Action:
    """A call that is scheduled. Stands for asyncio's `Handle` and `TimerHandle`."""

    __slots__ = ("_when", "args", "call", "context", "is_cancelled", "process")

    def __init__(
        self, call: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None, when: float
    ) -> None:
        if context is None:
            context = contextvars.copy_context()
        self.context = context
        self.process = context[_process]
        self.call: Callable[..., object] = call
        self.args = args
        self.is_cancelled = False
        self._when = when

    def cancel(self) -> None:
        self.is_cancelled = True
        self.call, self.args = _nothing, ()

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self._when


def _nothing() -> None: ...


class VirtualLoop(asyncio.AbstractEventLoop):
    """Has the methods of a loop that tasks, futures and asyncio's own functions call, without any I/O."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._now = 1.0
        self._ready: deque[Action] = deque()
        self._timers: list[tuple[float, int, Action]] = []
        self._numbers = itertools.count()
        self._errors: list[BaseException] = []
        self.is_over = False
        self.after_moment: Callable[[], None] = _nothing
        """Called when all that happens at one time has happened."""
        self._processes: list[VirtualProcess] = []
        self._tasks: dict[asyncio.Task[Any], None] = {}  # in the order of their start
        self._tasks_started = 0

    # Running

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        """Runs until `main` ends. Raises what it raises, and what anything else raised into the loop."""
        asyncio._set_running_loop(self)
        try:
            task = self.create_task(main, context=self.process("simulation").context)
            while not task.done():
                self._run_ready()
                self.after_moment()
                if not task.done():
                    self._let_time_pass()
            return task.result()
        finally:
            self._end_everything()
            asyncio._set_running_loop(None)

    def _run_ready(self) -> None:
        """All that is to happen at this time. One plain loop: each schedule takes thousands of turns of it."""
        ready, errors = self._ready, self._errors
        while ready:
            action = ready.popleft()
            if action.process.stands_still:
                action.process.waiting.append(action)
            elif not action.is_cancelled:
                action.context.run(action.call, *action.args)
                if errors:
                    raise errors[0]

    def _let_time_pass(self) -> None:
        timers, ready = self._timers, self._ready
        while not ready:
            self._now = now = max(self._now, timers[0][0])
            while timers and timers[0][0] <= now:
                action = heapq.heappop(timers)[2]
                if not action.is_cancelled:
                    ready.append(action)

    def _end_everything(self) -> None:
        """The dead rise for a moment: a task that is not ended would complain that it was destroyed."""
        self.is_over = True
        while self._tasks:
            self._tasks = {task: None for task in self._tasks if not task.done()}
            for process in self._processes:
                process.set_state(alive=True, frozen=False)
                self._go_on(process)
            for task in list(self._tasks):
                self._processes[0].context.copy().run(task.cancel)
            self._errors.clear()
            while self._ready:
                with contextlib.suppress(Exception):  # the run is over, and its failure is known
                    self._run_ready()

    # Processes

    def process(self, name: str) -> VirtualProcess:
        process = VirtualProcess(name)
        self._processes.append(process)
        return process

    def kill(self, process: VirtualProcess) -> None:
        process.set_state(alive=False, frozen=process.is_frozen)

    def freeze(self, process: VirtualProcess) -> None:
        process.set_state(alive=process.is_alive, frozen=True)

    def thaw(self, process: VirtualProcess) -> None:
        if process.is_frozen:
            process.thawed_at = self._now
        process.set_state(alive=process.is_alive, frozen=False)
        self._go_on(process)

    def _go_on(self, process: VirtualProcess) -> None:
        if not process.stands_still:
            self._ready.extend(process.waiting)
            process.waiting.clear()

    # What asyncio calls

    def time(self) -> float:
        return self._now

    def call_soon(self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None) -> Any:
        action = Action(callback, args, context, self._now)
        self._ready.append(action)
        return action

    call_soon_threadsafe = call_soon

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Any:
        action = Action(callback, args, context, when)
        heapq.heappush(self._timers, (when, next(self._numbers), action))
        return action

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Any:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks[task] = None  # those of dead processes too, which may have no other reference
        self._tasks_started += 1
        if self._tasks_started % _FORGET_AFTER == 0:
            self._tasks = {task: None for task in self._tasks if not task.done()}
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """On this thread, a little later; to its end, even if its waiter was cancelled."""
        result = self.create_future()

        def work() -> None:
            try:
                value = func(*args)
            except Exception as error:
                if not result.cancelled():
                    result.set_exception(error)
            else:
                if not result.cancelled():
                    result.set_result(value)

        self.call_later(self._random.uniform(0, LONGEST_WORK), work)
        return result

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Nothing fails in silence, as long as the run counts."""
        if not self.is_over:
            self._errors.append(context.get("exception") or AssertionError(context["message"]))

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False


class VirtualClock:
    """A `Clock` of the loop's time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return _BEGIN_MS + int(self._loop.time() * 1000)

    def monotonic(self) -> float:
        return self._loop.time()
