"""The validated settings of restart strategies, with Flink's keys and defaults."""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct

from millstream.core.errors import ConfigurationError

MAX_INT = 2**31 - 1
_PREFIX = "restart-strategy"


class Options(Protocol):
    """The source of option values: a `Configuration`. None stands for the default of the settings class."""

    def get(self, key: str, /) -> Any:
        """Returns the value of an option."""
        ...


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


def same_error_limit(options: Options) -> int:
    """Returns how often in a row the same error at the same record fails the job; 0: never."""
    limit = int(options.get(f"{_PREFIX}.same-error-limit"))
    _require(limit >= -1, "same-error-limit", limit, "it must be 1 or more; 0 and -1 set no limit")
    return max(limit, 0)


def restart_settings(options: Options, checkpointing: bool) -> RestartSettings:
    """Reads the configured strategy; the default is exponential delay with checkpoints, otherwise none."""

    def number(key: str, default: float) -> float:
        value = options.get(f"{_PREFIX}.{key}")
        return default if value is None else float(value)

    def integer(key: str, default: int) -> int:
        return int(number(key, default))

    def millis(key: str, default_ms: int) -> int:
        return round(number(key, default_ms / 1000) * 1000)

    kind = str(options.get(f"{_PREFIX}.type") or "").lower().replace("-", "")
    match kind or ("exponentialdelay" if checkpointing else "none"):
        case "none" | "off" | "disable":
            return NoRestart()
        case "fixeddelay":
            return FixedDelay(integer("fixed-delay.attempts", 1), millis("fixed-delay.delay", 1000))
        case "failurerate":
            return FailureRate(
                integer("failure-rate.max-failures-per-interval", 1),
                millis("failure-rate.failure-rate-interval", 60_000),
                millis("failure-rate.delay", 1000),
            )
        case "exponentialdelay":
            return ExponentialDelay(
                millis("exponential-delay.initial-backoff", 1000),
                millis("exponential-delay.max-backoff", 60_000),
                number("exponential-delay.backoff-multiplier", 1.5),
                millis("exponential-delay.reset-backoff-threshold", 3_600_000),
                number("exponential-delay.jitter-factor", 0.1),
                integer("exponential-delay.attempts-before-reset-backoff", MAX_INT),
            )
    raise ConfigurationError(
        f"option '{_PREFIX}.type': '{options.get(f'{_PREFIX}.type')}' is not one of none, fixed-delay, failure-rate, "
        "exponential-delay"
    )
