"""How long one service acts for another that it does not hear from, on a clock that the test moves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millstream.core.services.lease import Lease, leaderless_seconds, lease_seconds
from millstream.core.settings.configuration import Configuration

BEAT = 0.2
TIMEOUT = 50.0
DURATION = lease_seconds(Configuration({"heartbeat.timeout": f"{TIMEOUT:g} s"}))


def beats(lease: Lease, start: float, end: float) -> list[float]:
    """Beats in order up to `end`; returns the times at which the lease had expired."""
    over, now = [], start
    while now < end:
        now += BEAT
        if lease.is_over(now):
            over.append(now)
    return over


def test_it_expires_before_the_other_side_acts() -> None:
    lease = Lease(DURATION, BEAT, 0.0)
    over = beats(lease, 0.0, TIMEOUT)
    assert DURATION <= over[0] < DURATION + 2 * BEAT < TIMEOUT
    assert lease.holds(DURATION - 0.1)
    assert not lease.holds(DURATION)


def test_tasks_wait_for_zookeeper_to_notice_only_where_it_is_there() -> None:
    alone = Configuration({"heartbeat.timeout": "50 s"})
    session = {"high-availability.zookeeper.client.session-timeout": "30 s"}
    available = alone.merged({"high-availability.type": "zookeeper", **session})
    assert leaderless_seconds(alone.merged(session)) == DURATION
    assert leaderless_seconds(available) == DURATION + 30.0


def test_a_late_confirmation_counts_from_when_it_was_sent() -> None:
    lease = Lease(DURATION, BEAT, 0.0)
    lease.renew(30.0)
    lease.renew(10.0)
    assert beats(lease, 0.0, 30.0 + DURATION + 1)[0] >= 30.0 + DURATION


def test_after_a_standstill_nothing_may_be_completed_but_the_peer_has_a_moment_to_respond() -> None:
    lease = Lease(DURATION, BEAT, 0.0)
    assert not lease.is_over(1000.0)
    assert not lease.holds(1000.0)
    assert lease.is_over(1000.0 + DURATION / 10), "and it received nothing"
    assert lease.is_over(2000.0), "another standstill makes it no better"
    lease.renew(2000.0)
    assert not lease.is_over(2000.0 + BEAT)
    assert not lease.is_over(3000.0)


def test_a_confirmation_that_extends_nothing_grants_no_further_pause() -> None:
    lease = Lease(DURATION, BEAT, 0.0)
    assert not lease.is_over(1000.0)
    lease.renew(0.0)
    assert lease.is_over(2000.0)


def test_a_beat_that_is_late_by_just_the_pause_does_not_use_it_up() -> None:
    lease = Lease(10.0, 0.5, 0.0)
    assert not lease.is_over(1.5)
    assert not lease.is_over(1000.0)


@given(st.lists(st.floats(0.0, 60.0), max_size=30))
def test_without_messages_of_the_peer_it_expires_however_late_the_beats_are(delays: list[float]) -> None:
    lease = Lease(DURATION, BEAT, 0.0)
    now = 0.0
    for delay in delays:
        now += BEAT + delay
        over = lease.is_over(now)
        assert not (over and lease.holds(now))
    assert beats(lease, now, now + DURATION * 1.2)
