"""Virtual time, timers and sessions: everything that happens is one action, and a seeded random decides which is next.

A session carries messages in order in both directions. When it breaks, each end still gets what had already arrived,
then notices the break, in its own time; what was under way is lost. So one end may have dialled again before the other
knows that anything happened. Any direction of a session may be slow for a while.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millstream.core.clock import Instant

SLOWEST = 3.0  # seconds
SLOWNESS = 0.05  # of the steps begin a slow time
_BREAK = object()


@dataclass(slots=True)
class Timer:
    due: float
    name: str
    action: Callable[[], None]
    background: bool  # repeats for ever: does not keep the world busy


class SessionEnd:
    """What one side holds of a session."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self.name = name
        self.inbox: deque[Any] = deque()
        self.is_open = True
        self.is_broken = False
        self.slow_until = 0.0
        self.peer: SessionEnd
        self.on_message: Callable[[Any], None]
        self.on_end: Callable[[], None]

    def send(self, message: Any) -> None:
        if self.is_open and not self.is_broken:
            self.peer.inbox.append(message)

    def close(self) -> None:
        """Ends the session from this side: it hears nothing more, the other side notices later."""
        self.inbox.clear()
        self._break_both()

    def break_off(self) -> None:
        """The connection breaks under both."""
        self._lose_what_is_under_way()
        self._break_both()

    def vanish(self) -> None:
        """This side's process dies: nothing is told to it any more."""
        self.close()
        self.inbox.clear()
        self.is_open = False

    def slow_down(self) -> None:
        """Nothing arrives here for a time, often a very short one."""
        longest = self._world.random.choice((0.0, 0.0, 0.5, SLOWEST))
        self.slow_until = self._world.now + self._world.random.uniform(0, longest)

    def take(self) -> str:
        """Handles the first thing in the inbox; says what it was."""
        message = self.inbox.popleft()
        if message is _BREAK:
            self.is_open = False
            self.on_end()
            return f"{self.name}: noticed the break"
        self.on_message(message)
        return f"{self.name}: {message}"

    def _break_both(self) -> None:
        self.peer._lose_what_is_under_way()
        for end in (self, self.peer):
            if end.is_open and not end.is_broken:
                end.is_broken = True
                end.inbox.append(_BREAK)
                end.slow_down()

    def _lose_what_is_under_way(self) -> None:
        if not self.is_broken:
            for _ in range(self._world.random.randint(0, len(self.inbox))):
                self.inbox.pop()


class World:
    """Runs one action at a time. `story` is the list of what happened, for the message of a failing test."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.story: list[str] = []
        self._ends: list[SessionEnd] = []
        self._timers: list[Timer] = []

    def instant(self) -> Instant:
        return Instant(int(self.now * 1000), int(self.now * 1000))

    def connect(self, dialler: str, server: str) -> tuple[SessionEnd, SessionEnd]:
        """A new session: the dialler's end and the server's."""
        ours, theirs = SessionEnd(self, f"{server} -> {dialler}"), SessionEnd(self, f"{dialler} -> {server}")
        ours.peer, theirs.peer = theirs, ours
        self._ends += [ours, theirs]
        return ours, theirs

    def later(self, delay: float, name: str, action: Callable[[], None], background: bool = False) -> None:
        """Runs the action once the delay has passed, at a moment of the scheduler's choice."""
        self._timers.append(Timer(self.now + delay, name, action, background))

    def open_sessions(self) -> list[SessionEnd]:
        return [end for end in self._ends if end.is_open and not end.is_broken]

    def is_busy(self) -> bool:
        """Whether anything is under way beside what repeats for ever."""
        return any(end.inbox for end in self._ends) or any(not timer.background for timer in self._timers)

    def step(self) -> None:
        """One action: a message arrives, or a timer fires; with nothing to do, time passes."""
        self._ends = [end for end in self._ends if end.is_open]
        self.now += self.random.choice((0.0, 0.001, 0.02))
        if self._ends and self.random.random() < SLOWNESS:
            self.random.choice(self._ends).slow_down()
        waiting = [end for end in self._ends if end.inbox and end.slow_until <= self.now]
        due = [timer for timer in self._timers if timer.due <= self.now]
        if not waiting and not due:
            self.now = min(timer.due for timer in self._timers)
            due = [timer for timer in self._timers if timer.due <= self.now]
        possible: list[SessionEnd | Timer] = [*waiting, *due]
        chosen = self.random.choice(possible)
        if isinstance(chosen, SessionEnd):
            self.tell(chosen.take())
        else:
            self._timers.remove(chosen)
            self.tell(chosen.name)
            chosen.action()

    def tell(self, event: str) -> None:
        self.story.append(f"{self.now:9.3f} {event}")
