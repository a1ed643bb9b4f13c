from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from millstream.core.jobs.failure_kinds import FailureKind
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.ids import VertexId
from millstream.jobmanager.failover.repeated_errors import RepeatedErrors
from millstream.jobmanager.failover.topology import Subtask

MAP = Subtask(VertexId("map"), 0)
BAD = TaskFailure(
    vertex_id="map", exception="ValueError: bad", operator_name="parse", record="7", signature="ValueError parse:3",
    records=7,
)  # fmt: skip


def restart_after(errors: RepeatedErrors, failure: TaskFailure) -> int:
    times = errors.failed(failure)
    errors.restarted([MAP, replace(MAP, index=1)])
    return times


def test_the_same_error_at_the_same_record_is_counted() -> None:
    errors = RepeatedErrors(3)
    assert restart_after(errors, BAD) == 1
    assert not errors.is_too_many(BAD)
    assert restart_after(errors, replace(BAD, exception="ValueError: another message")) == 2
    assert errors.is_too_many(BAD)
    assert errors.failed(replace(BAD, subtask=1)) == 3, "the record may reach another subtask"


def test_another_error_in_between_begins_again() -> None:
    for other in (
        replace(BAD, signature="KeyError parse:3"),
        replace(BAD, signature="ValueError parse:4"),
        replace(BAD, operator_name="another"),
        replace(BAD, vertex_id="filter"),
    ):
        errors = RepeatedErrors(3)
        assert [restart_after(errors, failure) for failure in (BAD, BAD, other, BAD)] == [1, 2, 1, 1]


def test_other_records_with_the_same_error_do_not() -> None:
    errors, other = RepeatedErrors(3), replace(BAD, record="8")
    assert [restart_after(errors, failure) for failure in (BAD, other, BAD, other, BAD)] == [1, 1, 2, 2, 3]


def test_many_subtasks_with_one_record_are_one_error() -> None:
    errors = RepeatedErrors(3)
    assert [errors.failed(replace(BAD, subtask=i)) for i in range(8)] == [1] * 8
    errors.restarted([MAP])
    assert errors.failed(BAD) == 2


def test_an_error_behind_the_last_checkpoint_of_all_is_counted() -> None:
    errors, closing = RepeatedErrors(3), replace(BAD, records=9)
    errors.checkpoint_completed({MAP: 9})
    assert restart_after(errors, closing) == 1
    for times in (2, 3):
        errors.checkpoint_completed({MAP: 0})  # the restored attempt has nothing left to read
        assert restart_after(errors, replace(closing, records=0)) == times
    errors.checkpoint_completed({MAP: 1})
    assert errors.failed(replace(closing, records=1)) == 1


def test_what_no_code_raised_neither_counts_nor_resets() -> None:
    errors = RepeatedErrors(2)
    killed = TaskFailure(vertex_id="map", exception="SlotLost: slot worker: killed by SIGKILL")
    echo = replace(BAD, exception="PeerLostError: lost map", signature="PeerLostError", kind=FailureKind.PEER_LOST)
    assert [restart_after(errors, failure) for failure in (killed, echo, BAD, killed, echo, killed)] == [
        0,
        0,
        1,
        0,
        0,
        0,
    ]
    assert not errors.is_too_many(killed)
    assert errors.is_too_many(BAD)


@pytest.mark.parametrize(
    "outage",
    [
        replace(BAD, record="", records=0, exception="OSError: no server at port 1"),
        replace(BAD, record="", exception="CheckpointFailure: checkpoint 17 failed"),
        replace(BAD, kind=FailureKind.OUTAGE, exception="OSError: [Errno 28] No space left on device"),
    ],
    ids=["without a record", "a checkpoint", "at a record that has no part in it"],
)
def test_an_outage_is_not_counted_however_long_it_lasts(outage: TaskFailure) -> None:
    errors = RepeatedErrors(3)
    assert restart_after(errors, BAD) == 1
    assert [restart_after(errors, outage) for _ in range(100)] == [0] * 100
    assert not errors.is_too_many(outage)
    assert restart_after(errors, BAD) == 2, "the poison is counted on"


def test_the_same_message_at_other_records_is_not_the_same_error() -> None:
    errors = RepeatedErrors(3)
    records = [replace(BAD, record=str(number)) for number in range(20)]
    assert [restart_after(errors, failure) for failure in records] == [1] * 20


def test_an_object_is_the_same_wherever_it_is_in_memory() -> None:
    errors = RepeatedErrors(0)
    for times, address in enumerate(("0x7f00", "0x7fa8", "0x1"), 1):
        assert restart_after(errors, replace(BAD, record=f"<Order object at {address}>")) == times


def test_a_limit_of_nothing_only_counts() -> None:
    errors = RepeatedErrors(0)
    assert [restart_after(errors, BAD) for _ in range(100)][-1] == 100
    assert not errors.is_too_many(BAD)


def test_only_a_checkpoint_behind_the_record_begins_again() -> None:
    errors = RepeatedErrors(0)
    errors.checkpoint_completed({MAP: 5})
    assert restart_after(errors, replace(BAD, records=7)) == 1, "two records behind the checkpoint"
    errors.checkpoint_completed({replace(MAP, index=1): 100})
    errors.checkpoint_completed({MAP: 1})
    assert restart_after(errors, replace(BAD, records=2)) == 2, "one record behind the checkpoint"
    errors.checkpoint_completed({MAP: 1})
    assert restart_after(errors, replace(BAD, records=50)) == 1
    errors.failed(replace(BAD, records=50))
    errors.checkpoint_completed({MAP: 50})
    assert errors.times(BAD) == 2, "a checkpoint of the attempts that failed says nothing about the next"


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=12),
    st.one_of(st.none(), st.integers(0, 11)),
    st.integers(1, 4),
    st.sets(st.integers(0, 100)),
    st.integers(1, 3),
)
def test_a_job_fails_when_a_record_fails_often_enough_and_only_then(
    failing: list[int], poison: int | None, limit: int, checkpoints: set[int], batch: int
) -> None:
    """`failing` is how often each record fails before it passes; the poison always does."""
    errors, left = RepeatedErrors(limit), list(failing)
    if poison is not None:
        left[poison % len(left)] = 1_000_000
    expected = any(times >= limit for times in left)
    restore = step = 0
    while restore < len(left):
        base = restore
        for position in range(base, len(left)):
            if left[position]:
                left[position] -= 1
                end_of_batch = position - (position - base) % batch + batch
                failure = replace(BAD, record=str(position), records=end_of_batch - base)
                errors.failed(failure)
                if errors.is_too_many(failure):
                    assert expected
                    return
                break
            step += 1
            if step in checkpoints and (position + 1 - base) % batch == 0:
                restore = position + 1
                errors.checkpoint_completed({MAP: restore - base})
        else:
            break
        errors.restarted([MAP])
    assert not expected
