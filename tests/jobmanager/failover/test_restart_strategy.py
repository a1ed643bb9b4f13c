from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.errors import ConfigurationError
from millstream.core.settings.configuration import Configuration
from millstream.jobmanager.failover.restart_strategy import GiveUp, Restart, create_restart_strategy
from millstream.jobmanager.failover.settings import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartSettings,
    restart_settings,
)

PLAIN = ExponentialDelay(initial_ms=100, max_ms=1000, multiplier=2.0, reset_threshold_ms=5000, jitter=0.0)


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        (NoRestart(), "no restarts"),
        (FixedDelay(2, 300), "fixed delay of 0.3 s, 2 restarts"),
        (FailureRate(2, 1000, 50), "failure rate of 2 in 1 s, delay of 0.05 s"),
        (PLAIN, "exponential delay from 0.1 s to 1 s"),
    ],
)
def test_a_strategy_is_shown_with_its_figures(settings: RestartSettings, shown: str) -> None:
    assert str(create_restart_strategy(settings, Random(1))) == shown


def test_none_gives_up_at_once() -> None:
    decision = create_restart_strategy(NoRestart(), Random(1)).failed(0)
    assert isinstance(decision, GiveUp)
    assert "restart-strategy.type" in decision.reason


def test_fixed_delay_allows_its_attempts() -> None:
    strategy = create_restart_strategy(FixedDelay(2, 300), Random(1))
    assert [strategy.failed(t) for t in (0, 1000)] == [Restart(300), Restart(300)]
    decision = strategy.failed(10**9)
    assert isinstance(decision, GiveUp)
    assert "fixed-delay.attempts" in decision.reason


def test_failure_rate_counts_within_its_interval() -> None:
    strategy = create_restart_strategy(FailureRate(2, 1000, 50), Random(1))
    assert strategy.failed(0) == Restart(50)
    assert strategy.failed(500) == Restart(50)
    assert strategy.failed(1000) == Restart(50)
    assert isinstance(strategy.failed(1400), GiveUp)


def test_exponential_delay_grows_to_its_bound_and_resets_after_a_quiet_time() -> None:
    strategy = create_restart_strategy(PLAIN, Random(1))
    now, delays = 0, []
    for _ in range(6):
        decision = strategy.failed(now)
        assert isinstance(decision, Restart)
        delays.append(decision.delay_ms)
        now += decision.delay_ms + 10
    assert delays == [100, 200, 400, 800, 1000, 1000]
    assert strategy.failed(now + 4990) == Restart(100)


def test_failures_during_the_wait_join_it() -> None:
    strategy = create_restart_strategy(PLAIN, Random(1))
    assert strategy.failed(0) == Restart(100)
    assert strategy.failed(30) == Restart(70, new_attempt=False)
    assert strategy.failed(100) == Restart(0, new_attempt=False)
    assert strategy.failed(101) == Restart(200)


def test_exponential_delay_can_give_up() -> None:
    settings = ExponentialDelay(100, 1000, 2.0, 5000, 0.0, attempts_before_reset=1)
    strategy = create_restart_strategy(settings, Random(1))
    assert strategy.failed(0) == Restart(100)
    decision = strategy.failed(200)
    assert isinstance(decision, GiveUp)
    assert "attempts-before-reset-backoff" in decision.reason


@given(seed=st.integers(0, 2**32), gaps=st.lists(st.integers(0, 10_000), min_size=1, max_size=30))
def test_jitter_stays_in_its_bounds(seed: int, gaps: list[int]) -> None:
    settings = ExponentialDelay(100, 1000, 2.0, 5000, jitter=0.25)
    strategy, same = (create_restart_strategy(settings, Random(seed)) for _ in range(2))
    now = 0
    for gap in gaps:
        now += gap
        decision = strategy.failed(now)
        assert decision == same.failed(now)
        assert isinstance(decision, Restart)
        assert 0 <= decision.delay_ms <= settings.max_ms
        assert decision.delay_ms >= 75 or not decision.new_attempt


def settings_of(options: dict[str, object], checkpointing: bool) -> RestartSettings:
    return restart_settings(Configuration(options), checkpointing)


def test_settings_have_flink_s_defaults() -> None:
    assert settings_of({}, checkpointing=False) == NoRestart()
    assert settings_of({}, checkpointing=True) == ExponentialDelay()
    assert settings_of({"restart-strategy.type": "fixed-delay"}, True) == FixedDelay(1, 1000)
    assert settings_of({"restart-strategy.type": "failurerate"}, True) == FailureRate(1, 60_000, 1000)
    assert settings_of({"restart-strategy.type": "off"}, True) == NoRestart()


def test_settings_are_read_in_seconds() -> None:
    options: dict[str, object] = {
        "restart-strategy.type": "exponential-delay",
        "restart-strategy.exponential-delay.initial-backoff": "500 ms",
        "restart-strategy.exponential-delay.max-backoff": "20 s",
        "restart-strategy.exponential-delay.backoff-multiplier": 3.0,
        "restart-strategy.exponential-delay.jitter-factor": "0.2",
        "restart-strategy.exponential-delay.attempts-before-reset-backoff": 7,
    }
    assert settings_of(options, False) == ExponentialDelay(500, 20_000, 3.0, 3_600_000, 0.2, 7)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"restart-strategy.type": "sometimes"}, "restart-strategy.type"),
        ({"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": -1}, "attempts"),
        (
            {"restart-strategy.type": "exponential-delay", "restart-strategy.exponential-delay.jitter-factor": 2},
            "jitter-factor",
        ),
        (
            {"restart-strategy.type": "exponential-delay", "restart-strategy.exponential-delay.max-backoff": "100 ms"},
            "max-backoff",
        ),
        (
            {"restart-strategy.type": "failure-rate", "restart-strategy.failure-rate.max-failures-per-interval": 0},
            "max-failures-per-interval",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(options: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        settings_of(options, True)
