"""Restart strategies with PyFlink's names: each is a set of `restart-strategy.*` options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millstream.common.time import Interval, plain_milliseconds
from millstream.core.errors import InvalidProgramError

PREFIX = "restart-strategy."


@dataclass(frozen=True, slots=True)
class RestartStrategyConfiguration:
    """The options of a restart strategy; without options, the strategy that the cluster is configured with."""

    options: Mapping[str, str] = field(default_factory=dict)

    def get_description(self) -> str:
        """Returns a description like `fixed-delay (attempts 3, delay 1000)`, with times in milliseconds."""
        if not self.options:
            return "as the cluster is configured"
        kind = self.options[f"{PREFIX}type"]
        below = f"{PREFIX}{kind}."
        settings = [f"{key.removeprefix(below)} {self.options[key]}" for key in self.options if key.startswith(below)]
        return f"{kind} ({', '.join(settings)})" if settings else kind


class RestartStrategies:
    """Creates strategies for `StreamExecutionEnvironment.set_restart_strategy`. Times are milliseconds or durations."""

    @staticmethod
    def no_restart() -> RestartStrategyConfiguration:
        """Returns a strategy that never restarts: the first failure fails the job."""
        return _strategy("none", {})

    @staticmethod
    def fall_back_restart() -> RestartStrategyConfiguration:
        """Returns the strategy that the cluster is configured with."""
        return RestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(restart_attempts: int, delay_between_attempts: Interval) -> RestartStrategyConfiguration:
        """Returns a strategy that restarts at most `restart_attempts` times, after `delay_between_attempts` each.

        The delay is in milliseconds, or a duration. Raises `InvalidProgramError` for negative values.
        """
        return _strategy("fixed-delay", {"attempts": restart_attempts, "delay": delay_between_attempts})

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: Interval, delay_interval: Interval
    ) -> RestartStrategyConfiguration:
        """Returns a strategy that restarts up to `failure_rate` times within `failure_interval`.

        A further failure within the interval fails the job. Each restart takes place after `delay_interval`. Intervals
        are milliseconds or durations. Raises `InvalidProgramError` for negative values.
        """
        return _strategy(
            "failure-rate",
            {
                "max-failures-per-interval": failure_rate,
                "failure-rate-interval": failure_interval,
                "delay": delay_interval,
            },
        )

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: Interval,
        max_backoff: Interval,
        backoff_multiplier: float,
        reset_backoff_threshold: Interval,
        jitter_factor: float,
    ) -> RestartStrategyConfiguration:
        """Returns a strategy that restarts without a limit, after a delay that grows with each failure.

        `initial_backoff` is the first delay and `max_backoff` the longest one, both in milliseconds or as durations.
        Each delay is `backoff_multiplier` times the one before, changed at random by a share of at most
        `jitter_factor`. It is reset to the first delay once the job has run without a failure for
        `reset_backoff_threshold`. Raises `InvalidProgramError` for negative values.
        """
        return _strategy(
            "exponential-delay",
            {
                "initial-backoff": initial_backoff,
                "max-backoff": max_backoff,
                "backoff-multiplier": backoff_multiplier,
                "reset-backoff-threshold": reset_backoff_threshold,
                "jitter-factor": jitter_factor,
            },
        )


def _strategy(kind: str, settings: Mapping[str, Interval | float]) -> RestartStrategyConfiguration:
    options = {f"{PREFIX}type": kind}
    for name, value in settings.items():
        plain = plain_milliseconds(value)
        if isinstance(plain, bool) or not isinstance(plain, int | float) or plain < 0:
            raise InvalidProgramError(f"{kind} restarts: {name} is a number of at least 0, not {value!r}")
        options[f"{PREFIX}{kind}.{name}"] = f"{plain:g}" if plain != int(plain) else str(int(plain))
    return RestartStrategyConfiguration(options)
