"""The lifecycle of a child as its owner sees it, with a child that a test controls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from millstream.core.processes.child import Child
from millstream.core.processes.supervised_child import SupervisedChild


class PlayedChild:
    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.crashed = False
        self.started = asyncio.Event()
        self.ended = asyncio.Event()

    def send(self, message: bytes) -> None:
        self.sent.append(message)
        self.started.set()
        if message == b"stop":
            self.ended.set()

    async def receive(self, on_message: Callable[[bytes], None]) -> None:
        await self.ended.wait()

    async def wait(self) -> str:
        await self.ended.wait()
        return "it ended"

    def kill(self) -> None:
        self.ended.set()


class Launch:
    """A launch that waits, like an install, until a test lets it continue."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = False
        self.child = PlayedChild()

    async def __call__(self) -> Child:
        self.begun.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            await asyncio.sleep(0)  # like an install that has to be killed first
            raise
        return self.child


async def launching() -> tuple[Launch, SupervisedChild, asyncio.Task[str]]:
    """A child that is being launched, and the task that ends with it."""
    launch = Launch()
    supervised = SupervisedChild(launch, b"stop", 1.0)
    running = asyncio.create_task(supervised.run(b"start", lambda _: None))
    await launch.begun.wait()
    return launch, supervised, running


async def test_stopping_ends_the_launch() -> None:
    launch, supervised, running = await launching()
    await supervised.stop()
    assert launch.cancelled
    assert await running == "it was not needed any more"
    await supervised.stop()


async def test_killing_ends_the_launch_with_its_reason() -> None:
    launch, supervised, running = await launching()
    supervised.kill("no time left")
    assert await running == "killed: no time left"
    assert launch.cancelled


async def test_a_child_stopped_before_its_launch_is_not_launched() -> None:
    launch = Launch()
    supervised = SupervisedChild(launch, b"stop", 1.0)
    await supervised.stop()
    assert await supervised.run(b"start", lambda _: None) == "it was not needed any more"
    assert not launch.begun.is_set()


async def test_cancelling_the_owner_ends_the_launch_and_is_a_cancellation() -> None:
    launch, _, running = await launching()
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert launch.cancelled


async def test_messages_wait_for_the_launch() -> None:
    launch, supervised, running = await launching()
    supervised.send(b"early")
    launch.go_on.set()
    await launch.child.started.wait()
    await supervised.stop()
    assert launch.child.sent == [b"start", b"early", b"stop"]
    assert await running == "it ended"
