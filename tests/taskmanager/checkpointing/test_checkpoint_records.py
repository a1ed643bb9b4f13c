"""The records of a task's checkpoints: their stages, which files may be referred to, and how long they are kept."""

from __future__ import annotations

from itertools import product
from typing import cast

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from millstream.core.jobs.ids import NO_ALLOCATION, AttemptId
from millstream.core.messages.checkpoints import CheckpointAck
from millstream.core.records.batches import Barrier
from millstream.taskmanager.worker.checkpointing.capture import CapturedTask
from millstream.taskmanager.worker.checkpointing.checkpoint_records import (
    TRANSITIONS,
    Arrival,
    CheckpointRecord,
    CheckpointRecords,
    Stage,
)
from millstream.taskmanager.worker.checkpointing.writer_thread import SnapshotWritten
from millstream.taskmanager.worker.checkpointing.writing import SnapshotTarget

FIRST = Arrival(1.0, 20, 300)
TARGET = cast(SnapshotTarget, object())


def mail(number: int) -> SnapshotWritten:
    return SnapshotWritten("a", Barrier(number, 0), CheckpointAck(NO_ALLOCATION, AttemptId("a"), number))


def taken(records: CheckpointRecords, number: int, full: bool = False) -> CheckpointRecord:
    records.arrived(number, FIRST)
    record = records.taken(number)
    record.is_full = full
    record.write(CapturedTask(()), TARGET)
    return record


def acknowledged(records: CheckpointRecords, number: int, full: bool = False) -> None:
    records.acknowledged(taken(records, number, full), f"chk-{number}", (f"file-{number}",), {})


@pytest.mark.parametrize(("before", "after"), list(product(Stage, Stage)))
def test_only_the_transitions_of_the_table_are_allowed(before: Stage, after: Stage) -> None:
    record = CheckpointRecord(3, FIRST, before)
    if after in TRANSITIONS[before]:
        record.move_to(after)
        assert record.stage is after
    else:
        with pytest.raises(AssertionError, match=f"checkpoint 3 is {before.value}"):
            record.move_to(after)


def test_a_snapshot_is_held_until_what_is_in_flight_is_recorded() -> None:
    records, states = CheckpointRecords(), mail(1)
    record = taken(records, 1)
    record.hold(states)
    assert (record.stage, records.is_writing) == (Stage.HELD, True)
    assert record.go_on() == (states, TARGET)
    assert (record.stage, record.held) == (Stage.WRITING, None)
    records.acknowledged(record, "there", (), {})
    assert not records.is_writing
    assert (record.captured, record.target) == (None, None)


def test_what_is_given_up_is_written_to_its_end_and_then_forgotten() -> None:
    records, states = CheckpointRecords(), mail(1)
    record = taken(records, 1)
    record.hold(states)
    assert record.give_up() is states
    assert records.is_writing
    assert records.aborted(1) == ("", ())
    assert records.get(1) is record
    records.settle(record)
    assert (records.is_writing, list(records)) == (False, [])


def test_an_aborted_checkpoint_returns_its_files_once() -> None:
    records = CheckpointRecords()
    acknowledged(records, 1)
    assert records.aborted(1) == ("chk-1", ("file-1",))
    assert records.aborted(1) == ("", ())
    assert list(records) == []


def test_the_files_of_a_completed_checkpoint_replace_those_of_older_ones() -> None:
    records = CheckpointRecords()
    for number in (1, 2, 3):
        acknowledged(records, number)
    assert set(records.bases(2)) == {2, 3}
    records.completed(2)
    assert set(records.bases(0)) == {2, 3}
    assert records.aborted(1) == ("chk-1", ("file-1",)), "its notice is late"
    records.completed(7)  # its snapshot was taken by an earlier attempt
    assert set(records.bases(0)) == {2, 3}


def test_nothing_is_shared_while_the_outcome_of_a_full_checkpoint_is_unknown() -> None:
    records = CheckpointRecords()
    acknowledged(records, 1, full=True)
    assert not records.may_share
    records.completed(1)
    assert records.may_share
    acknowledged(records, 2, full=True)
    records.aborted(2)
    assert records.may_share
    records.not_written(taken(records, 3, full=True))
    assert records.may_share
    records.arrived(4, FIRST)
    records.taken(4).is_full = True
    records.abandoned(4)
    assert not records.may_share, "other tasks may have taken theirs"
    records.aborted(4)
    assert (records.may_share, list(records)[1:]) == (True, [])


def test_a_snapshot_ends_the_wait_of_older_ones() -> None:
    records = CheckpointRecords()
    records.arrived(1, FIRST)
    records.arrived(3, FIRST)
    taken(records, 2)
    assert [(r.number, r.stage) for r in records] == [(3, Stage.ARRIVED), (2, Stage.WRITING)]
    records.abandoned(3)
    records.abandoned(2)  # it was taken
    records.abandoned(9)
    assert [r.number for r in records] == [2]


def test_the_files_of_few_checkpoints_without_a_notice_are_remembered() -> None:
    records = CheckpointRecords()
    for number in range(1, 67):
        acknowledged(records, number)
    assert [records.aborted(number)[1] for number in (1, 2, 3)] == [(), (), ("file-3",)]


class Lives(RuleBasedStateMachine):
    """Checkpoints in any order of events, compared with a set for each question."""

    def __init__(self) -> None:
        super().__init__()
        self.records = CheckpointRecords()
        self.next = 1
        self.writing: set[int] = set()
        self.full: set[int] = set()
        self.layouts: set[int] = set()
        self.files: set[int] = set()

    def record(self, number: int) -> CheckpointRecord:
        record = self.records.get(number)
        assert record is not None
        return record

    @rule(full=st.booleans(), fails=st.booleans())
    def take(self, full: bool, fails: bool) -> None:
        number, self.next = self.next, self.next + 1
        self.records.arrived(number, FIRST)
        record = self.records.taken(number)
        record.is_full = full
        self.full |= {number} if full else set()
        if fails:
            self.records.abandoned(number)
        else:
            record.write(CapturedTask(()), TARGET)
            self.writing.add(number)

    @precondition(lambda self: self.writing)
    @rule(data=st.data(), fails=st.booleans())
    def write(self, data: st.DataObject, fails: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.writing)))
        self.writing.remove(number)
        record = self.record(number)
        if fails:
            self.records.not_written(record)
            self.full.discard(number)
        elif record.stage is Stage.GIVEN_UP:
            self.records.settle(record)
        else:
            self.records.acknowledged(record, "", (str(number),), {})
            self.layouts.add(number)
            self.files.add(number)

    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(1, self.next))
        record = self.records.get(number)
        if record is not None and record.stage is Stage.WRITING:
            record.give_up()
        assert bool(self.records.aborted(number)[1]) == (number in self.files)
        for known in (self.full, self.layouts, self.files):
            known.discard(number)

    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(1, self.next))
        if number not in self.writing:  # each task has acknowledged it
            self.records.completed(number)
            self.full.discard(number)
            self.files.discard(number)
            if number in self.layouts:
                self.layouts = {other for other in self.layouts if other >= number}

    @invariant()
    def records_tell_what_the_sets_do(self) -> None:
        assert {r.number for r in self.records if r.is_writing} == self.writing
        assert self.records.is_writing == bool(self.writing)
        assert self.records.may_share == (not self.full)
        assert set(self.records.bases(0)) == self.layouts
        kept = self.writing | self.full | self.layouts | self.files
        assert {r.number for r in self.records} == kept


TestLives = Lives.TestCase
