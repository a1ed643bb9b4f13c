"""Answers of the API's own paths, pushed to who looks at them whenever they change.

A path that several look at is asked once for all of them, and not more often than once a second: less often when its
answer is large or takes long, so that all who look cost the dispatcher's loop a bounded share of its time. What is kept
is the last answer only: who reads slowly misses some, and holds nothing up. Owned by the server's asyncio loop.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from msgspec import Struct

from millstream.core.clock import Clock

MOST_STREAMS = 100
MOST_PATHS = 16
LIFE = 300.0
"""Seconds until a stream ends by itself. Who still looks opens the next one: nobody has to be found out to be gone."""
_PERIOD = 1.0
_BYTES_A_SECOND = 256 * 1024
_SHARE = 20  # an answer that took a second is asked for again after twenty
_SILENCE = 15.0  # seconds, after which a comment shows both ends that the other is there
_LARGEST = 8 * 1024 * 1024
_MOMENT = re.compile(rb'"now":\s*\d+')


class Told(Struct, frozen=True):
    """What a path answered: JSON."""

    status: int
    body: bytes


Ask = Callable[[str], Awaitable[Told]]


class TooManyStreams(Exception):
    """As many as there may be are open."""


class _Topic:
    """One path, while somebody looks at it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.version = 0
        self.event = b""
        self.lookers: set[asyncio.Event] = set()
        self.asking: asyncio.Task[None] | None = None
        self._seen: tuple[int, bytes] | None = None

    def take(self, told: Told) -> None:
        """Has it pushed when it says something else than before; the time of the answer says nothing."""
        seen = (told.status, _MOMENT.sub(b"", told.body))
        if seen == self._seen:
            return
        self._seen = seen
        self.version += 1
        self.event = _event(self.path, told)
        for looker in self.lookers:
            looker.set()


class Updates:
    """All open streams. `leads` tells whether this dispatcher still answers for the cluster; when not, they end."""

    def __init__(self, ask: Ask, leads: Callable[[], bool], clock: Clock) -> None:
        self._ask = ask
        self._leads = leads
        self._clock = clock
        self._topics: dict[str, _Topic] = {}
        self._streams: set[asyncio.Event] = set()
        self._closed = False
        self._ended: set[asyncio.Event] = set()

    def open(self, paths: Sequence[str], life: float = LIFE) -> AsyncIterator[bytes]:
        """The stream of these paths, as server-sent events. Raises TooManyStreams."""
        if len(self._streams) >= MOST_STREAMS:
            raise TooManyStreams
        return self._stream(paths, life)

    async def _stream(self, paths: Sequence[str], life: float) -> AsyncIterator[bytes]:
        woken = asyncio.Event()
        self._streams.add(woken)
        topics = [self._look(path, woken) for path in dict.fromkeys(paths)]
        seen = dict.fromkeys((topic.path for topic in topics), 0)
        deadline = self._clock.monotonic() + life
        try:
            yield b": what the paths answer, whenever it changes\n\n"
            while not self._closed and woken not in self._ended:
                woken.clear()
                for topic in topics:
                    if topic.version > seen[topic.path]:
                        seen[topic.path] = topic.version
                        yield topic.event
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    return
                try:
                    async with asyncio.timeout(min(left, _SILENCE)):
                        await woken.wait()
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self._streams.discard(woken)
            self._ended.discard(woken)
            for topic in topics:
                self._leave(topic, woken)

    def _look(self, path: str, woken: asyncio.Event) -> _Topic:
        topic = self._topics.get(path)
        if topic is None:
            topic = self._topics[path] = _Topic(path)
            topic.asking = asyncio.create_task(self._ask_repeatedly(topic))
        topic.lookers.add(woken)
        return topic

    def _leave(self, topic: _Topic, woken: asyncio.Event) -> None:
        topic.lookers.discard(woken)
        if not topic.lookers and self._topics.get(topic.path) is topic:
            del self._topics[topic.path]
            if topic.asking is not None:
                topic.asking.cancel()

    async def _ask_repeatedly(self, topic: _Topic) -> None:
        while True:
            began = self._clock.monotonic()
            told = await self._ask(topic.path)
            if not self._leads():  # whoever leads now answers those who ask again
                self._end_all()
                return
            topic.take(told)
            took = self._clock.monotonic() - began
            await asyncio.sleep(max(_PERIOD, len(told.body) / _BYTES_A_SECOND, took * _SHARE))

    def _end_all(self) -> None:
        for woken in self._streams:
            self._ended.add(woken)
            woken.set()

    def close(self) -> None:
        """Ends all streams."""
        self._closed = True
        self._end_all()
        for topic in self._topics.values():
            if topic.asking is not None:
                topic.asking.cancel()


def _event(path: str, told: Told) -> bytes:
    status, body = told.status, told.body
    if len(body) > _LARGEST:
        reason = f"the answer has {len(body)} bytes, and no more than {_LARGEST} are pushed; ask for the path itself"
        status, body = 413, json.dumps({"errors": [reason]}).encode()
    plain = body.replace(b"\r", b" ").replace(b"\n", b" ")  # between tokens: in JSON's strings they are escaped
    head = f'event: answer\ndata: {{"path":{json.dumps(path)},"status":{status},"body":'.encode()
    return head + (plain or b"null") + b"}\n\n"
