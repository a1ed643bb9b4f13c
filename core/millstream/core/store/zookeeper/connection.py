"""The bridge between kazoo, which runs on its own threads, and the loop that owns the store.

Requests are passed to kazoo without waiting; responses, watches and state changes are posted to the loop, in the order
in which they happened. The loop never waits for a thread.

kazoo's states are the store's: SUSPENDED is suspended, LOST is lost. CONNECTED is not yet connected: what was requested
before may still be in flight through another server of the ensemble, or wait in kazoo's queue. So the first thing that
is requested is a write. kazoo's queue and ZooKeeper's connections keep their order, and writes have one order in the
whole ensemble: when it has returned, all that came before has taken effect or never will, and reads see it. ZooKeeper's
`sync` is no such promise: a leader that has not noticed yet that it was deposed serves it, too.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from enum import Enum, auto
from typing import Any

from kazoo import exceptions as kazoo
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState, KeeperState

from millstream.core.logs.repeats import Repeats
from millstream.core.store.store import SessionLostError, StoreError, SuspendedError
from millstream.core.store.zookeeper.client import new_client
from millstream.core.store.zookeeper.layout import Layout
from millstream.core.store.zookeeper.settings import ZookeeperSettings
from millstream.core.store.zookeeper.watches import Watches

_UNANSWERED = (kazoo.ConnectionLoss, kazoo.OperationTimeoutError, kazoo.SessionMovedError)
_OVER = (kazoo.SessionExpiredError, kazoo.ConnectionClosedError, kazoo.AuthFailedError)
_ANSWERS = (kazoo.NoNodeError, kazoo.NodeExistsError, kazoo.BadVersionError, kazoo.NotEmptyError)
_PATIENCE = 5.0  # seconds
_log = logging.getLogger(__name__)

Request = Callable[[KazooClient], Any]
"""Passes a request to kazoo; returns its IAsyncResult."""


class State(Enum):
    """The state of the connection, as known by the loop."""

    CONNECTED = auto()
    SUSPENDED = auto()
    LOST = auto()


class Connection:
    """Maintains a session until it is closed. Created on the loop that owns it."""

    def __init__(self, settings: ZookeeperSettings) -> None:
        self.layout = Layout(settings.root)
        self.watches = Watches(self._post)
        self.state = State.SUSPENDED
        self.session_id = 0
        self._settings = settings
        self._failures = Repeats()
        self._loop = asyncio.get_running_loop()
        self._pending: set[asyncio.Future[Any]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._moved = asyncio.Event()
        self._closed = asyncio.Event()
        self._turn = 0  # number of the state: work of an earlier state is ignored
        self._client: KazooClient | None = self._start()

    # Requests

    async def ask(self, request: Request) -> Any:
        """Returns the response. Raises SuspendedError, SessionLostError, or ZooKeeper's error for the znode."""
        if self.state is State.CONNECTED:
            return await self._ask(request)
        raise SuspendedError if self.state is State.SUSPENDED else SessionLostError

    async def catch_up(self) -> None:
        """Waits until reads include all writes of all clients before the call."""
        await self.ask(self._write_root)

    async def _ask(self, request: Request) -> Any:
        response = self._loop.create_future()
        self._pending.add(response)
        try:
            result = request(self._client)
            result.rawlink(lambda result: self._post(lambda: self._complete(response, result)))
            return await response
        finally:
            self._pending.discard(response)

    def _complete(self, response: asyncio.Future[Any], result: Any) -> None:
        if response.done():
            return
        try:
            response.set_result(result.get_nowait())
        except _ANSWERS as error:
            response.set_exception(error)
        except kazoo.ConnectionLoss:
            self._become(State.SUSPENDED)  # as kazoo is about to report: it has dropped the requests first
        except _UNANSWERED:
            response.set_exception(SuspendedError())
        except _OVER:
            response.set_exception(SessionLostError())
        except Exception as error:
            refusal = StoreError(f"ZooKeeper has refused a request: {error!r}")
            refusal.__cause__ = error
            response.set_exception(refusal)

    def _write_root(self, client: KazooClient) -> Any:
        return client.set_async(self.layout.root, b"")

    # Waiting

    async def connected(self) -> None:
        """As `Store.connected`."""
        while self.state is not State.CONNECTED:
            if self._closed.is_set():
                raise SessionLostError
            await self.moved()

    async def moved(self) -> None:
        """Waits for the next change of the state."""
        await self._moved.wait()

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs work in the background; errors of the connection end it."""

        async def guarded() -> None:
            with suppress(SuspendedError, SessionLostError):
                await work

        task = self._loop.create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # kazoo's threads

    def _post(self, work: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nothing is left to notify
            self._loop.call_soon_threadsafe(work)

    def _start(self) -> KazooClient:
        client = new_client(self._settings)

        def listen(state: KazooState) -> None:
            over = self._why_over(client.client_state)
            session_id = client.client_id[0] if state == KazooState.CONNECTED else 0
            self._post(lambda: self._state_changed(client, state, session_id, over))

        client.add_listener(listen)
        client.start_async()
        return client

    def _why_over(self, state: KeeperState) -> str:
        """Returns why the session cannot continue, or an empty string if kazoo reconnects by itself."""
        if state == KeeperState.AUTH_FAILED:
            who = self._settings.credentials.username if self._settings.credentials else ""
            return f"it refuses the user '{who}', or the password ('high-availability.zookeeper.client.sasl.*')"
        return "the connection has ended" if state == KeeperState.CLOSED else ""

    def _state_changed(self, client: KazooClient, state: KazooState, session_id: int, over: str) -> None:
        if client is not self._client or self._closed.is_set():
            return
        if state == KazooState.CONNECTED:
            self.session_id = session_id
            self._turn += 1
            self.later(self._begin(client, self._turn))
        elif state == KazooState.SUSPENDED:
            self._become(State.SUSPENDED)
        else:
            self._become(State.LOST)
            if over:
                self.later(self._start_again(client, over))

    def _become(self, state: State) -> None:
        self._turn += 1
        self.state = state
        if state is not State.CONNECTED:
            self.watches.fire_all()
            for response in self._pending:
                if not response.done():
                    response.set_exception(SuspendedError() if state is State.SUSPENDED else SessionLostError())
        self._moved.set()
        self._moved = asyncio.Event()

    # The life of a session

    async def _begin(self, client: KazooClient, turn: int) -> None:
        while turn == self._turn:
            try:
                for path in self.layout.lasting():
                    await self._make(path)
                await self._ask(self._write_root)
            except SuspendedError:
                continue
            except SessionLostError:
                return
            except (StoreError, *_ANSWERS) as error:
                await self._start_again(client, str(error))
            else:
                if turn == self._turn:
                    self._become(State.CONNECTED)

    async def _make(self, path: str) -> None:
        if await self._ask(lambda client: client.exists_async(path)) is None:
            with suppress(kazoo.NodeExistsError):
                await self._ask(lambda client: client.create_async(path))

    async def _start_again(self, client: KazooClient, reason: str) -> None:
        """Restarts after errors that kazoo does not retry, such as a wrong password."""
        if self._failures.is_told(reason, self._loop.time()):
            times = self._failures.times
            _log.error("no session with ZooKeeper at %s, retrying%s: %s", self._settings.quorum, times, reason)
        self._client = None
        self._become(State.LOST)
        await self._end(client)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closed.wait(), min(self._settings.session_timeout, _PATIENCE))
        if not self._closed.is_set():
            self._client = self._start()

    async def close(self) -> None:
        """As `Store.close`."""
        if not self._closed.is_set():
            self._closed.set()
            client, self._client = self._client, None
            self._become(State.LOST)
            if client is not None:
                await self._end(client)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _end(self, client: KazooClient) -> None:
        """Stops kazoo without waiting for its threads, which may wait for a server that never responds."""
        ended = asyncio.Event()

        def end() -> None:
            with suppress(kazoo.WriterNotClosedException):
                client.stop()
                client.close()
            self._post(ended.set)

        threading.Thread(target=end, name="zookeeper-end", daemon=True).start()
        with suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), _PATIENCE)
