"""Responses of the API's own paths, pushed to their subscribers whenever they change.

A path with several subscribers is requested once for all of them, and not more often than once a second: less often
when its response is large or takes long, so that subscribers cost the dispatcher's loop a bounded share of its time.
Only the last response is kept: a slow reader misses some, and delays no other. Owned by the server's asyncio loop.
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
"""Seconds until a stream ends by itself. Clients then open the next one: no client has to be detected as gone."""
_PERIOD = 1.0
_BYTES_A_SECOND = 256 * 1024
_SHARE = 10  # a response that took a second is requested again after ten
_SILENCE = 15.0  # seconds, after which a comment shows both ends that the other is there
_LARGEST = 8 * 1024 * 1024
_MOMENT = re.compile(rb'"now":\s*\d+')


class PathResponse(Struct, frozen=True):
    """The response of a path: JSON."""

    status: int
    body: bytes


Get = Callable[[str], Awaitable[PathResponse]]


class TooManyStreams(Exception):
    """As many as there may be are open."""


class _Topic:
    """One path that has subscribers."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.version = 0
        self.event = b""
        self.subscribers: set[asyncio.Event] = set()
        self.polling: asyncio.Task[None] | None = None
        self._seen: tuple[int, bytes] | None = None

    def take(self, response: PathResponse) -> None:
        """Pushes a response that differs from the last one, but for the time in it."""
        seen = (response.status, _MOMENT.sub(b"", response.body))
        if seen == self._seen:
            return
        self._seen = seen
        self.version += 1
        self.event = _event(self.path, response)
        for subscriber in self.subscribers:
            subscriber.set()


class Updates:
    """All open streams. `leads`: whether this dispatcher still leads the cluster; when not, they end."""

    def __init__(self, get: Get, leads: Callable[[], bool], clock: Clock) -> None:
        self._get = get
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
        topics = [self._subscribe(path, woken) for path in dict.fromkeys(paths)]
        seen = dict.fromkeys((topic.path for topic in topics), 0)
        deadline = self._clock.monotonic() + life
        try:
            yield b": the responses of the paths, whenever they change\n\n"
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

    def _subscribe(self, path: str, woken: asyncio.Event) -> _Topic:
        topic = self._topics.get(path)
        if topic is None:
            topic = self._topics[path] = _Topic(path)
            topic.polling = asyncio.create_task(self._poll(topic))
        topic.subscribers.add(woken)
        return topic

    def _leave(self, topic: _Topic, woken: asyncio.Event) -> None:
        topic.subscribers.discard(woken)
        if not topic.subscribers and self._topics.get(topic.path) is topic:
            del self._topics[topic.path]
            if topic.polling is not None:
                topic.polling.cancel()

    async def _poll(self, topic: _Topic) -> None:
        while True:
            began = self._clock.monotonic()
            response = await self._get(topic.path)
            if not self._leads():  # the next leader serves the clients that connect again
                self._end_all()
                return
            topic.take(response)
            took = self._clock.monotonic() - began
            await asyncio.sleep(max(_PERIOD, len(response.body) / _BYTES_A_SECOND, took * _SHARE))

    def _end_all(self) -> None:
        for woken in self._streams:
            self._ended.add(woken)
            woken.set()

    def close(self) -> None:
        """Ends all streams."""
        self._closed = True
        self._end_all()
        for topic in self._topics.values():
            if topic.polling is not None:
                topic.polling.cancel()


def _event(path: str, response: PathResponse) -> bytes:
    status, body = response.status, response.body
    if len(body) > _LARGEST:
        reason = f"the response has {len(body)} bytes, and no more than {_LARGEST} are pushed; request the path itself"
        status, body = 413, json.dumps({"errors": [reason]}).encode()
    plain = body.replace(b"\r", b" ").replace(b"\n", b" ")  # between tokens: in JSON's strings they are escaped
    head = f'event: answer\ndata: {{"path":{json.dumps(path)},"status":{status},"body":'.encode()
    return head + (plain or b"null") + b"}\n\n"
