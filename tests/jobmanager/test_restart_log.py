"""Restarts with the same error are logged three times, then at the 10th, the 100th and so on, with their count."""

from __future__ import annotations

from millstream.core.clock import Instant
from millstream.core.jobs.failures import TaskFailure
from millstream.jobmanager.failover.restart_log import RestartLog

SECOND = 1000


def failure(restart: int, what: str = "ValueError: bad") -> TaskFailure:
    return TaskFailure(
        exception=f"{what} {restart}", traceback=f"Traceback\n{what} {restart}", signature=what, operator_name="map",
        restart=restart, restart_delay_ms=1500,
    )  # fmt: skip


def told(log: RestartLog, cause: TaskFailure | None, at: int, reason: str = "a reason") -> tuple[str, str, bool]:
    response = log.report(cause, reason, Instant(at, at))
    return response.line, response.event, response.is_again


def test_a_loop_is_logged_with_cause_and_delay_then_counted() -> None:
    log = RestartLog()
    line, event, is_again = told(log, failure(1), SECOND)
    assert line == "restart 1 in 1.5 s: ValueError: bad 1, in operator 'map'\nTraceback\nValueError: bad 1"
    assert (event, is_again) == (line.split("\n")[0], False)
    assert "the same error, 2nd time: ValueError: bad 2, in operator 'map'" in told(log, failure(2), 2 * SECOND)[0]
    line, event, is_again = told(log, failure(3), 3 * SECOND)
    assert line.startswith("restart 3 in 1.5 s: the same error, 3rd time: ValueError: bad 3, in operator 'map'; ")
    assert is_again
    lines = [told(log, failure(number), number * SECOND) for number in range(4, 1001)]
    assert all(is_again for _, _, is_again in lines)
    assert [line for line, _, _ in lines if line] == [
        f"restart {n} in 1.5 s: the same error, {n}th time: ValueError: bad {n}, in operator 'map'"
        f" ({untold} restarts before it were not logged)"
        for n, untold in ((10, 6), (100, 89), (1000, 899))
    ]
    assert lines[-2][1].startswith("restart 999 in 1.5 s: the same error, 999th time")


def test_another_error_and_the_same_one_much_later_are_logged_in_full() -> None:
    log = RestartLog()
    for number in range(1, 6):
        told(log, failure(number), number * SECOND)
    line, _, is_again = told(log, failure(6, "KeyError: k"), 6 * SECOND)
    assert line.endswith("Traceback\nKeyError: k 6")
    assert not is_again
    line, _, is_again = told(log, failure(7, "KeyError: k"), 3700 * SECOND)
    assert line.endswith("Traceback\nKeyError: k 7")
    assert not is_again


def test_what_joins_a_restart_is_only_named() -> None:
    log = RestartLog()
    told(log, failure(1), 0)
    assert told(log, failure(1), 1, "its slot is gone") == ("restart: its slot is gone", "", False)
    assert told(log, None, 2, "its slot is gone")[0]
    assert told(log, None, 3, "its slot is gone")[0]
    assert told(log, None, 4, "its slot is gone") == ("", "", False)
