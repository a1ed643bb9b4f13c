"""The whole life of a child: launched, sent messages, stopped, killed when it does not stop, waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from millstream.core.errors import MillstreamError, UnrecoverableError
from millstream.core.logs.printable import printable
from millstream.core.processes.child import Child, ChildProcess
from millstream.core.processes.control_pipe import BrokenPipeContentError
from millstream.core.wire.wire import WireError

_NOT_NEEDED = "it was not needed any more"
_CLOSED = (
    "its control connection was closed while the process continued: code that runs in it closes descriptors that it has"
    " not opened (os.close, os.closerange)"
)
_LEAVING = 2.0  # seconds from the end of a child's pipe to that of the process, which closes its files as it exits


class SupervisedChild:
    """Owned by one asyncio loop. `run` lives as long as the child does, and leaves nothing of it."""

    def __init__(self, launch: Callable[[], Awaitable[Child]], stop_message: bytes, grace: float) -> None:
        self._launch = launch
        self._stop_message = stop_message
        self._grace = grace
        self._launching: asyncio.Future[Child] | None = None
        self._child: Child | None = None
        self._early: list[bytes] = []
        self._killed_because = ""
        self.is_stopping = False
        self.is_impossible = False  # another try would end in the same way

    @property
    def process(self) -> ChildProcess | None:
        """A child that is a process of its own, and has been started."""
        return self._child if isinstance(self._child, ChildProcess) else None

    @property
    def crashed(self) -> bool:
        """Whether it ended by itself, unasked, in whatever way."""
        requested = self.is_stopping or self._killed_because
        return not requested and self._child is not None and self._child.crashed

    async def run(self, first_message: bytes, on_message: Callable[[bytes], None]) -> str:
        """From the launch to the end. Returns why it ended. The launch ends early when the child is not needed.

        A child whose message cannot be decoded is killed; `on_message` may raise WireError for that.
        """
        if self.is_stopping:
            return _NOT_NEEDED
        self._launching = asyncio.ensure_future(self._launch())
        try:
            child = self._child = await self._launching
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return self._killed_because or _NOT_NEEDED
        except MillstreamError as error:
            self.is_impossible = isinstance(error, UnrecoverableError)
            return str(error)
        except OSError as error:
            return f"it could not be started: {error}"
        try:
            if not self.is_stopping:  # else `stop` was called in the moment in which it was started
                for message in (first_message, *self._early):
                    child.send(message)
                try:
                    await child.receive(on_message)
                except (BrokenPipeContentError, WireError) as error:
                    return self._killed_because or f"killed: {printable(str(error))}"
                return self._killed_because or await self._end_of(child)
            return _NOT_NEEDED
        finally:
            child.kill()  # with everything that it started itself
            await child.wait()

    def send(self, message: bytes) -> None:
        """Passes a message on; before the launch is over, it waits."""
        if self._child is None:
            self._early.append(message)
        else:
            self._child.send(message)

    async def stop(self) -> None:
        """Ends the child: in order while it can, else by force. Returns when it is gone."""
        if self.is_stopping:
            return
        self.is_stopping = True
        if self._child is None:
            await self._stop_launching()
            return
        self._child.send(self._stop_message)
        try:
            await asyncio.wait_for(self._child.wait(), self._grace)
        except TimeoutError:
            self.kill("it did not stop in time")
            await self._child.wait()

    def kill(self, reason: str) -> None:
        """Ends the child at once."""
        self._killed_because = f"killed: {reason}"
        if self._child is not None:
            self._child.kill()
        elif self._launching is not None:
            self._launching.cancel()

    async def _end_of(self, child: Child) -> str:
        """Why a child ended whose pipe is at its end. One that continues without it can do nothing, and is killed."""
        if self.is_stopping:
            return await child.wait()
        try:
            return await asyncio.wait_for(child.wait(), _LEAVING)
        except TimeoutError:
            self.kill(_CLOSED)
            return self._killed_because

    async def _stop_launching(self) -> None:
        """Ends what the launch waits for, such as an install. Another launch that waits for the same one makes it."""
        if self._launching is not None:
            self._launching.cancel()
            await asyncio.wait([self._launching])
