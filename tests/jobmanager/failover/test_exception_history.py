from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millstream.core.jobs.failure_kinds import FailureKind
from millstream.core.jobs.failures import TaskFailure
from millstream.jobmanager.failover.history import ExceptionHistory


def failure(name: str, at: int = 0, echo: bool = False) -> TaskFailure:
    kind = FailureKind.PEER_LOST if echo else FailureKind.ORDINARY
    told, traceback = f"{name}: it broke", f"Traceback of {name}"
    return TaskFailure(task_name="map (1/2)", exception=told, traceback=traceback, timestamp=at, kind=kind)


def test_failures_until_handled_are_concurrent() -> None:
    history = ExceptionHistory()
    history.failed(failure("A"))
    history.failed(failure("B"))
    history.handled()
    history.failed(failure("C"))
    first, second = history.entries
    assert first.failure == failure("A")
    assert first.concurrent == (failure("B"),)
    assert second.failure == failure("C")
    assert history.latest == second


def test_a_cause_takes_the_place_of_its_echo() -> None:
    history = ExceptionHistory()
    history.failed(failure("PeerLost", echo=True))
    history.failed(failure("Other", echo=True))
    history.failed(failure("Cause"))
    history.failed(failure("Late"))
    (entry,) = history.entries
    assert entry.failure == failure("Cause")
    assert [f.exception.partition(":")[0] for f in entry.concurrent] == ["PeerLost", "Other", "Late"]


def test_the_oldest_entries_are_forgotten() -> None:
    history = ExceptionHistory(max_entries=2, max_concurrent=1)
    for name in "ABC":
        assert history.truncated is False
        history.failed(failure(name))
        history.failed(failure(name.lower()))
        history.failed(failure(name.lower()))
        history.handled()
    assert [e.failure for e in history.entries] == [failure("B"), failure("C")]
    assert history.truncated
    assert history.entries[0].dropped == 1


@given(steps=st.lists(st.sampled_from(["cause", "echo", "handled"]), max_size=60))
def test_no_failure_is_lost_within_the_bounds(steps: list[str]) -> None:
    history = ExceptionHistory(max_entries=3, max_concurrent=2)
    failed = 0
    for step in steps:
        if step == "handled":
            history.handled()
        else:
            failed += 1
            history.failed(failure(f"F{failed}", failed, step == "echo"))
        assert len(history.entries) <= 3
        kept = sum(1 + len(e.concurrent) + e.dropped for e in history.entries)
        assert kept == failed or history.truncated
        for entry in history.entries:
            assert len(entry.concurrent) <= 2
            if entry.failure.kind is FailureKind.PEER_LOST:
                assert all(f.kind is FailureKind.PEER_LOST for f in entry.concurrent)
