"""The validated settings of restart strategies, with Flink's keys and defaults."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.errors import ConfigurationError
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options import OptionKey
from millstream.core.settings.options.tasks import (
    RESTART_EXPONENTIAL_DELAY_ATTEMPTS_BEFORE_RESET_BACKOFF,
    RESTART_EXPONENTIAL_DELAY_BACKOFF_MULTIPLIER,
    RESTART_EXPONENTIAL_DELAY_INITIAL_BACKOFF,
    RESTART_EXPONENTIAL_DELAY_JITTER_FACTOR,
    RESTART_EXPONENTIAL_DELAY_MAX_BACKOFF,
    RESTART_EXPONENTIAL_DELAY_RESET_BACKOFF_THRESHOLD,
    RESTART_FAILURE_RATE_DELAY,
    RESTART_FAILURE_RATE_FAILURE_RATE_INTERVAL,
    RESTART_FAILURE_RATE_MAX_FAILURES_PER_INTERVAL,
    RESTART_FIXED_DELAY_ATTEMPTS,
    RESTART_FIXED_DELAY_DELAY,
    RESTART_SAME_ERROR_LIMIT,
    RESTART_TYPE,
)

MAX_INT = 2**31 - 1
_PREFIX = "restart-strategy"


def _require(condition: bool, key: str, value: object, rule: str) -> None:
    if not condition:
        raise ConfigurationError(f"option '{_PREFIX}.{key}': {value} is not allowed; {rule}")


class NoRestart(Struct, frozen=True):
    """Never restart."""


class FixedDelay(Struct, frozen=True):
    """A number of restarts with the same delay before each."""

    attempts: int = 1
    delay_ms: int = 1000

    def __post_init__(self) -> None:
        _require(self.attempts >= 0, "fixed-delay.attempts", self.attempts, "it must be 0 or more")


class FailureRate(Struct, frozen=True):
    """At most a number of failures within each interval."""

    max_failures: int = 1
    interval_ms: int = 60_000
    delay_ms: int = 1000

    def __post_init__(self) -> None:
        _require(
            self.max_failures >= 1,
            "failure-rate.max-failures-per-interval",
            self.max_failures,
            "it must be 1 or more",
        )
        _require(
            self.interval_ms > 0, "failure-rate.failure-rate-interval", f"{self.interval_ms} ms", "it must be above 0"
        )


class ExponentialDelay(Struct, frozen=True):
    """Delays that grow with each restart, up to a maximum."""

    initial_ms: int = 1000
    max_ms: int = 60_000
    multiplier: float = 1.5
    reset_threshold_ms: int = 3_600_000
    jitter: float = 0.1
    attempts_before_reset: int = MAX_INT

    def __post_init__(self) -> None:
        key = "exponential-delay"
        _require(self.initial_ms >= 1, f"{key}.initial-backoff", f"{self.initial_ms} ms", "it must be 1 ms or more")
        _require(
            self.max_ms >= self.initial_ms,
            f"{key}.max-backoff",
            f"{self.max_ms} ms",
            f"it must not be below the initial backoff of {self.initial_ms} ms",
        )
        _require(self.multiplier > 1, f"{key}.backoff-multiplier", self.multiplier, "it must be above 1")
        _require(
            self.reset_threshold_ms >= 1,
            f"{key}.reset-backoff-threshold",
            f"{self.reset_threshold_ms} ms",
            "it must be 1 ms or more",
        )
        _require(0 <= self.jitter <= 1, f"{key}.jitter-factor", self.jitter, "it must be between 0 and 1")
        _require(
            self.attempts_before_reset >= 1,
            f"{key}.attempts-before-reset-backoff",
            self.attempts_before_reset,
            "it must be 1 or more",
        )


RestartSettings = NoRestart | FixedDelay | FailureRate | ExponentialDelay


def same_error_limit(options: Configuration) -> int:
    """Returns how often in a row the same error at the same record fails the job; 0: never."""
    limit = options.get(RESTART_SAME_ERROR_LIMIT)
    _require(limit >= -1, "same-error-limit", limit, "it must be 1 or more; 0 and -1 set no limit")
    return max(limit, 0)


def restart_settings(options: Configuration, checkpointing: bool) -> RestartSettings:
    """Reads the configured strategy; the default is exponential delay with checkpoints, otherwise none."""

    def millis(option: OptionKey[float]) -> int:
        return round(options.get(option) * 1000)

    kind = options.get(RESTART_TYPE).lower().replace("-", "")
    match kind or ("exponentialdelay" if checkpointing else "none"):
        case "none" | "off" | "disable":
            return NoRestart()
        case "fixeddelay":
            return FixedDelay(options.get(RESTART_FIXED_DELAY_ATTEMPTS), millis(RESTART_FIXED_DELAY_DELAY))
        case "failurerate":
            return FailureRate(
                options.get(RESTART_FAILURE_RATE_MAX_FAILURES_PER_INTERVAL),
                millis(RESTART_FAILURE_RATE_FAILURE_RATE_INTERVAL),
                millis(RESTART_FAILURE_RATE_DELAY),
            )
        case "exponentialdelay":
            return ExponentialDelay(
                millis(RESTART_EXPONENTIAL_DELAY_INITIAL_BACKOFF),
                millis(RESTART_EXPONENTIAL_DELAY_MAX_BACKOFF),
                options.get(RESTART_EXPONENTIAL_DELAY_BACKOFF_MULTIPLIER),
                millis(RESTART_EXPONENTIAL_DELAY_RESET_BACKOFF_THRESHOLD),
                options.get(RESTART_EXPONENTIAL_DELAY_JITTER_FACTOR),
                options.get(RESTART_EXPONENTIAL_DELAY_ATTEMPTS_BEFORE_RESET_BACKOFF),
            )
    raise ConfigurationError(
        f"option '{RESTART_TYPE}': '{options.get(RESTART_TYPE)}' is not one of none, fixed-delay, failure-rate, "
        "exponential-delay"
    )
