"""Whether a peer is still alive, on a clock that the test moves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millstream.core.services.liveness import Liveness
from millstream.core.settings.configuration import Configuration

TEN_AND_FIFTY = Configuration({"heartbeat.interval": "10 s", "heartbeat.timeout": "50 s"})


def test_a_peer_is_lost_when_it_was_silent_for_longer_than_the_timeout() -> None:
    liveness = Liveness(TEN_AND_FIFTY, 1000.0)
    assert [liveness.is_lost(1000.0 + 10 * beat) for beat in range(8)] == [False] * 6 + [True] * 2


def test_anything_received_restarts_the_timeout() -> None:
    liveness = Liveness(TEN_AND_FIFTY, 0.0)
    lost = []
    for beat in range(1, 20):
        if beat == 5:
            liveness.heard(beat * 10.0)
        lost.append(liveness.is_lost(beat * 10.0))
    assert lost.index(True) + 1 == 11


def test_beats_that_are_late_by_half_a_second_do_not_count_against_the_peer_either() -> None:
    liveness = Liveness(TEN_AND_FIFTY, 0.0)
    assert [liveness.is_lost(10.5 * beat) for beat in range(1, 7)] == [False] * 5 + [True]


def test_there_are_three_beats_within_a_short_timeout() -> None:
    assert Liveness(TEN_AND_FIFTY, 0.0).interval == 10.0
    short = Configuration({"heartbeat.interval": "10 s", "heartbeat.timeout": "12 s"})
    assert Liveness(short, 0.0).interval == 4.0


def test_time_in_which_this_end_stood_still_does_not_count() -> None:
    liveness = Liveness(TEN_AND_FIFTY, 0.0)
    assert not liveness.is_lost(10.0)
    assert not liveness.is_lost(3600.0), "what it sent in this hour has not been read yet"
    beats = [3600.0 + 10 * beat for beat in range(1, 6)]
    assert [liveness.is_lost(beat) for beat in beats] == [False] * 3 + [True] * 2, "20 s of silence before, 40 s since"


def test_only_the_silence_of_the_peer_counts() -> None:
    liveness = Liveness(TEN_AND_FIFTY, 0.0)
    assert not liveness.is_lost(10.0)
    assert liveness.silence == 10.0
    assert not liveness.is_lost(1020.0), "a thousand seconds late"
    assert liveness.silence == 20.0
    liveness.heard(1025.0)
    assert not liveness.is_lost(1030.0)
    assert liveness.silence == 5.0


@given(st.lists(st.integers(0, 100), min_size=1, max_size=20))
def test_a_silent_peer_is_lost_after_beats_enough_however_late_they_are(delays: list[int]) -> None:
    liveness = Liveness(TEN_AND_FIFTY, 0.0)
    now = 0.0
    for number, delay in enumerate(delays, start=1):
        now += 10.0 + delay
        assert liveness.is_lost(now) == (number > 5)
