"""Which connection is dropped when there are too many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.processes.places import Places, client_of


def test_the_oldest_silent_connection_of_the_client_with_the_most_is_dropped() -> None:
    places: Places[str] = Places(4, 0)
    for name, host in (("quiet", "10.0.0.1"), ("a1", "10.0.0.2"), ("a2", "10.0.0.2"), ("b1", "10.0.0.3")):
        assert places.enter(name, host) is None
    assert places.enter("a3", "10.0.0.2") == "a1"
    places.is_busy("a2")
    assert places.enter("a4", "10.0.0.2") == "a3", "a2 is served"
    places.is_silent("a2")
    assert places.enter("b2", "10.0.0.3") == "a4", "a2 is silent for less long"
    assert sorted(places.silent) == ["a2", "b1", "b2", "quiet"]


def test_served_connections_are_never_dropped_and_the_reserve_is_additional() -> None:
    places: Places[int] = Places(2, 1)
    for number in range(2):
        places.enter(number, "::1")
        places.is_busy(number)
    assert not places.is_full
    assert places.enter(2, "::1") is None
    assert places.is_full
    assert places.enter(3, "127.0.0.1") == 2
    places.leave(0)
    places.leave(0)
    assert not places.is_full
    assert len(places) == 2


@pytest.mark.parametrize(
    ("host", "client"),
    [("127.0.0.1", "loopback"), ("127.9.9.9", "loopback"), ("::1", "loopback"), ("::ffff:127.0.0.5", "loopback"),
     ("10.0.0.1", "10.0.0.1"), ("::ffff:10.0.0.1", "10.0.0.1"), ("2001:db8::5", "2001:db8::/64"),
     ("fe80::1%eth0", "fe80::/64"), ("", ""), ("testclient", "testclient")],
)  # fmt: skip
def test_addresses_that_one_client_can_choose_count_as_one_client(host: str, client: str) -> None:
    assert client_of(host) == client


@given(st.lists(st.tuples(st.sampled_from(["enter", "busy", "silent", "leave"]), st.integers(0, 9)), max_size=60))
def test_the_number_of_silent_connections_is_bounded(steps: list[tuple[str, int]]) -> None:
    places: Places[int] = Places(3, 1)
    open_now: dict[int, bool] = {}
    for step, number in steps:
        if step == "enter" and number not in open_now:
            displaced = places.enter(number, f"10.0.0.{number % 3}")
            open_now[number] = False
            if displaced is not None:
                assert not open_now.pop(displaced), "it was served"
        elif step == "busy" and number in open_now and not places.is_full:
            places.is_busy(number)
            open_now[number] = True
        elif step == "silent" and number in open_now:
            places.is_silent(number)
            open_now[number] = False
        elif step == "leave":
            places.leave(number)
            open_now.pop(number, None)
        assert len(places) == len(open_now) <= 3 + 1
        assert sorted(places.silent) == sorted(n for n, busy in open_now.items() if not busy)
