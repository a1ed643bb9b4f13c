"""Restart strategies: whether a failed job restarts, and after which delay. Pure: time and randomness are passed in.

`failed` is called once for each failure that would restart something. Exponential delay counts failures that arrive
while a restart is already waiting as one attempt, as Flink does, so a lost machine with many tasks is one failure.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Protocol, assert_never

from msgspec import Struct

from millstream.core.backoff import Backoff
from millstream.jobmanager.failover.settings import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartSettings,
)


class Restart(Struct, frozen=True):
    """Restart after the delay. `new_attempt` is false when a restart was already waiting."""

    delay_ms: int
    new_attempt: bool = True


class GiveUp(Struct, frozen=True):
    """Fail the job."""

    reason: str


Decision = Restart | GiveUp


class RestartStrategy(Protocol):
    """Decides after each failure. Lives as long as the job does."""

    def failed(self, now_ms: int) -> Decision:
        """Decides about a failure at this time; times must not decrease."""
        ...

    def __str__(self) -> str:
        """Describes the strategy with its settings, for messages."""
        ...


class NoRestartStrategy:
    """Never restarts."""

    def failed(self, now_ms: int) -> Decision:
        """Always gives up."""
        return GiveUp("the job has no restart strategy (restart-strategy.type is none)")

    def __str__(self) -> str:
        return "no restarts"


class FixedDelayStrategy:
    """A limited number of restarts, each after the same delay."""

    def __init__(self, settings: FixedDelay) -> None:
        self._settings = settings
        self._attempts = 0

    def failed(self, now_ms: int) -> Decision:
        """Counts every failure."""
        self._attempts += 1
        if self._attempts > self._settings.attempts:
            return GiveUp(
                f"the job failed {self._attempts} times; restart-strategy.fixed-delay.attempts allows "
                f"{self._settings.attempts} restarts"
            )
        return Restart(self._settings.delay_ms)

    def __str__(self) -> str:
        return f"fixed delay of {self._settings.delay_ms / 1000:g} s, {self._settings.attempts} restarts"


class FailureRateStrategy:
    """Unlimited restarts, unless there are too many within an interval."""

    def __init__(self, settings: FailureRate) -> None:
        self._settings = settings
        self._failures: deque[int] = deque()

    def failed(self, now_ms: int) -> Decision:
        """Gives up on the failure that exceeds the rate."""
        self._failures.append(now_ms)
        while self._failures[0] <= now_ms - self._settings.interval_ms:
            self._failures.popleft()
        if len(self._failures) > self._settings.max_failures:
            return GiveUp(
                f"the job failed {len(self._failures)} times within {self._settings.interval_ms / 1000:g} s; "
                f"restart-strategy.failure-rate.max-failures-per-interval is {self._settings.max_failures}"
            )
        return Restart(self._settings.delay_ms)

    def __str__(self) -> str:
        settings = self._settings
        return (
            f"failure rate of {settings.max_failures} in {settings.interval_ms / 1000:g} s, "
            f"delay of {settings.delay_ms / 1000:g} s"
        )


class ExponentialDelayStrategy:
    """Restarts with increasing delays, until the job has run long enough without a failure."""

    def __init__(self, settings: ExponentialDelay, random: Random) -> None:
        self._settings = settings
        self._random = random
        self._backoff = Backoff(float(settings.initial_ms), float(settings.max_ms), settings.multiplier)  # milliseconds
        self._attempts = 0
        self._restart_at: int | None = None

    def failed(self, now_ms: int) -> Decision:
        """Joins a restart that is waiting, otherwise makes a new attempt."""
        settings = self._settings
        if self._restart_at is not None and now_ms <= self._restart_at:
            return Restart(self._restart_at - now_ms, new_attempt=False)
        if self._restart_at is None or now_ms - self._restart_at >= settings.reset_threshold_ms:
            self._attempts = 0
        self._attempts += 1
        if self._attempts > settings.attempts_before_reset:
            return GiveUp(
                f"the job failed {self._attempts} times without running {settings.reset_threshold_ms / 1000:g} s in "
                f"between; restart-strategy.exponential-delay.attempts-before-reset-backoff is "
                f"{settings.attempts_before_reset}"
            )
        jitter = self._random.uniform(-settings.jitter, settings.jitter)
        delay = min(round(self._backoff.after(self._attempts) * (1 + jitter)), settings.max_ms)
        self._restart_at = now_ms + delay
        return Restart(delay)

    def __str__(self) -> str:
        settings = self._settings
        return f"exponential delay from {settings.initial_ms / 1000:g} s to {settings.max_ms / 1000:g} s"


def create_restart_strategy(settings: RestartSettings, random: Random) -> RestartStrategy:
    """Creates the strategy that the settings select."""
    match settings:
        case NoRestart():
            return NoRestartStrategy()
        case FixedDelay():
            return FixedDelayStrategy(settings)
        case FailureRate():
            return FailureRateStrategy(settings)
        case ExponentialDelay():
            return ExponentialDelayStrategy(settings, random)
    assert_never(settings)
