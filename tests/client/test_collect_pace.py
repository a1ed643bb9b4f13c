"""When a client requests results again."""

from __future__ import annotations

from millstream.client.collect_pace import CollectPace

MANY = 1024 * 1024


def test_the_first_request_and_the_one_behind_the_first_results_wait_for_nothing() -> None:
    pace = CollectPace()
    assert pace.pause == 0
    pace.responded(is_news=False, size=0)
    assert pace.pause > 0
    pace.responded(is_news=True, size=10)
    assert pace.pause == 0


def test_few_results_in_every_response_are_requested_less_and_less_often() -> None:
    pace = CollectPace()
    pauses = []
    for _ in range(20):
        pace.responded(is_news=True, size=10)
        pauses.append(pace.pause)
    assert pauses == sorted(pauses)
    assert 0 < pauses[1] < pauses[-1] == pauses[-2] <= 0.1


def test_many_results_are_followed_at_once() -> None:
    pace = CollectPace()
    for size in (10, 10, 10, MANY):
        pace.responded(is_news=True, size=size)
    assert pace.pause == 0


def test_results_that_come_now_and_then_do_not_wait_for_long() -> None:
    pace = CollectPace()
    for _ in range(20):
        pace.responded(is_news=True, size=10)
    longest = pace.pause
    pace.responded(is_news=False, size=0)
    assert 0 < pace.pause < longest
    pace.responded(is_news=True, size=10)
    assert pace.pause == 0
