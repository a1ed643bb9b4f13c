"""Waiting in tests for other processes and threads, always with a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

DEADLINE = 200.0
"""Only bounds what would never happen: a machine that is stopped for a while must not reach it."""


class DeadlineError(AssertionError):
    """What a test waited for did not happen in time: the only failure after which CI runs a test once more."""


def wait_until(condition: Callable[[], Any], what: str, deadline: float = DEADLINE) -> Any:
    """Polls until the condition returns something true; fails with the description of what was awaited."""
    end = time.monotonic() + deadline
    pause = 0.001
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    raise DeadlineError(f"after {deadline:g} s still waiting for: {what}")


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a scenario on a loop of its own."""

    async def within_the_deadline() -> None:
        try:
            async with asyncio.timeout(DEADLINE) as limit:
                await scenario()
        except TimeoutError as error:
            if limit.expired():
                raise DeadlineError(f"after {DEADLINE:g} s the scenario still continues") from error
            raise

    asyncio.run(within_the_deadline())
