"""When a client requests results again. Pure.

Each request passes through the dispatcher, the job manager and the task manager to the slot worker and back, which
takes some 5 ms of processor time from a job on the same machine. So a client repeats its request at once only where
many results wait, and after the first results, which may be all. While some come with every response it waits longer
and longer, and while none come it looks again soon.
"""

from __future__ import annotations

_LOOK_AGAIN = 0.02  # seconds
_LONGEST = 0.1  # Flink's clients send a request every 100 ms
_GROWTH = 0.01
_MANY = 128 * 1024  # bytes of results in one response, a sixteenth of what the sink holds


class CollectPace:
    """Of one client; `pause` is how many seconds after the last request the next one is due."""

    def __init__(self) -> None:
        self.pause = 0.0
        self._in_a_row = 0

    def responded(self, is_news: bool, size: int) -> None:
        """The sink has returned so many bytes of results."""
        if not is_news:
            self._in_a_row = 0
            self.pause = _LOOK_AGAIN
        elif size >= _MANY:
            self.pause = 0.0
        else:
            self.pause = min(self._in_a_row * _GROWTH, _LONGEST)
            self._in_a_row += 1
