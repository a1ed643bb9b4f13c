"""The checkpoint coordinator under any order of events: `CheckpointDriver` checks each step."""

from __future__ import annotations

from checkpoint_driver import CheckpointDriver, topology
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from thoroughness import cases

from millstream.core.jobs.ids import AttemptId
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.failures import CheckpointFailureReason
from millstream.jobmanager.checkpoints.model import CheckpointId
from millstream.jobmanager.checkpoints.settings import CheckpointSettings, Retention
from millstream.jobmanager.failover.topology import JobTopology

TOPOLOGIES: list[JobTopology] = [topology(source=1), topology(source=2, sink=1), topology(source=1, map=2, sink=2)]
SETTINGS = st.builds(
    CheckpointSettings,
    interval_ms=st.sampled_from([0, 100, 1000]),
    timeout_ms=st.sampled_from([150, 3000]),
    min_pause_ms=st.sampled_from([0, 50, 400]),
    max_concurrent=st.integers(1, 3),
    tolerable_failures=st.sampled_from([0, 1, 1000]),
    num_retained=st.integers(1, 2),
    retention=st.sampled_from(Retention),
    after_tasks_finish=st.booleans(),
)


class CheckpointMachine(RuleBasedStateMachine):
    """Events come as the shells can send them: late, twice, and about things that are gone."""

    @initialize(
        options=SETTINGS,
        job=st.sampled_from(TOPOLOGIES),
        coordinated=st.booleans(),
        next_id=st.sampled_from([1, 40]),
        union=st.sampled_from(["", "source", "sink"]),
    )
    def begin(self, options: CheckpointSettings, job: JobTopology, coordinated: bool, next_id: int, union: str) -> None:
        self.driver = CheckpointDriver(options, job, coordinated=coordinated, next_id=next_id, union=union)
        self.triggers = 0
        self.driver.run_all()

    def some_id(self, data: st.DataObject) -> int:
        under_way = [p.id for p in self.driver.coordinator.pending]
        return int(data.draw(st.sampled_from(under_way or self.driver.started[-6:] or [1])))

    def trigger(self, data: st.DataObject) -> str:
        if self.triggers and data.draw(st.integers(0, 5)) == 0:
            repeated = f"t{data.draw(st.integers(1, self.triggers))}"
            if repeated not in self.driver.answered:
                return repeated
        self.triggers += 1
        return f"t{self.triggers}"

    @rule(milliseconds=st.sampled_from([1, 60, 100, 500, 2000]))
    def time_passes(self, milliseconds: int) -> None:
        self.driver.pass_time(milliseconds)

    @rule(hours=st.sampled_from([-1, 1]))
    def the_wall_clock_is_set(self, hours: int) -> None:
        self.driver.ahead += hours * 3_600_000

    @rule(data=st.data())
    def a_task_acknowledges(self, data: st.DataObject) -> None:
        attempts = [*self.driver.attempts.values(), AttemptId("unknown")]
        checkpoint_id = self.some_id(data)
        if checkpoint_id in self.driver.started and checkpoint_id not in self.driver.preparing:
            attempt = data.draw(st.sampled_from(attempts))
            self.driver.ack(checkpoint_id, attempt)

    @precondition(lambda self: self.driver.acknowledged)
    @rule(data=st.data())
    def an_acknowledgement_is_repeated(self, data: st.DataObject) -> None:
        state = data.draw(st.sampled_from(list(self.driver.acknowledged)))
        checkpoint_id, _, attempt = state.partition("/")
        effects = self.driver.ack(int(checkpoint_id), AttemptId(attempt))
        assert not any(isinstance(e, ev.DiscardState) and state in e.states for e in effects)

    @precondition(lambda self: self.driver.coordinator.pending)
    @rule(data=st.data())
    def all_tasks_acknowledge(self, data: st.DataObject) -> None:
        checkpoint_id = self.some_id(data)
        if checkpoint_id not in self.driver.preparing:
            self.driver.ack_all(checkpoint_id)

    @rule(data=st.data(), reason=st.sampled_from(CheckpointFailureReason))
    def a_task_declines(self, data: st.DataObject, reason: CheckpointFailureReason) -> None:
        attempts = list(self.driver.attempts.values())
        if attempts:
            self.driver.decline(self.some_id(data), data.draw(st.sampled_from(attempts)), reason)

    @precondition(lambda self: self.driver.preparing)
    @rule(data=st.data(), succeeds=st.sampled_from([True, True, False]))
    def the_coordinators_answer(self, data: st.DataObject, succeeds: bool) -> None:
        checkpoint_id = CheckpointId(data.draw(st.sampled_from(sorted(self.driver.preparing))))
        if succeeds:
            self.driver.tell(ev.EnumeratorsSnapshotted(checkpoint_id, "splits"))
        else:
            self.driver.tell(ev.EnumeratorsFailed(checkpoint_id, "it raised"))

    @precondition(lambda self: self.driver.writing)
    @rule(data=st.data(), succeeds=st.sampled_from([True, True, False]))
    def the_metadata_is_written(self, data: st.DataObject, succeeds: bool) -> None:
        checkpoint_id = data.draw(st.sampled_from(sorted(self.driver.writing)))
        under_way = any(p.id == checkpoint_id for p in self.driver.coordinator.pending)
        if not succeeds:
            self.driver.metadata_failed(checkpoint_id)
        elif under_way:
            self.driver.metadata_written(checkpoint_id)
        else:
            del self.driver.writing[checkpoint_id]
            pointer = f"file:///chk-{checkpoint_id}"
            (effect, *_) = self.driver.tell(ev.MetadataWritten(CheckpointId(checkpoint_id), pointer))
            assert isinstance(effect, ev.DiscardState)
            assert effect.pointer == pointer

    @precondition(lambda self: self.driver.storing)
    @rule(succeeds=st.sampled_from([True, True, False]))
    def the_pointer_is_stored(self, succeeds: bool) -> None:
        (checkpoint_id,) = self.driver.storing
        if succeeds:
            self.driver.pointer_stored(checkpoint_id)
        else:
            self.driver.pointer_failed(checkpoint_id)

    @precondition(lambda self: self.driver.coordinator.pending)
    @rule()
    def all_are_written(self) -> None:
        """Several at once, the newest first; the pointer of one is being stored then."""
        for checkpoint_id in sorted(self.driver.preparing):
            self.driver.tell(ev.EnumeratorsSnapshotted(CheckpointId(checkpoint_id), "splits"))
        for pending in reversed(self.driver.coordinator.pending):
            if any(p.id == pending.id for p in self.driver.coordinator.pending):
                self.driver.ack_all(pending.id)
        for pending in reversed(self.driver.coordinator.pending):
            if pending.id in self.driver.writing:
                self.driver.metadata_written(pending.id)

    @precondition(lambda self: self.driver.coordinator.pending)
    @rule()
    def the_oldest_completes(self) -> None:
        oldest = self.driver.coordinator.pending[0]
        if oldest.id not in self.driver.writing and oldest.pointer is None and not self.driver.storing:
            self.driver.complete(oldest.id)

    @rule(data=st.data())
    def a_task_finishes(self, data: st.DataObject) -> None:
        active = sorted(self.driver.active)
        if active:
            attempt = data.draw(st.sampled_from(active))
            if data.draw(st.booleans()):
                self.driver.end_inputs(attempt)
            self.driver.finish(attempt)

    @rule(data=st.data())
    def an_input_ends(self, data: st.DataObject) -> None:
        attempts = [*self.driver.active, AttemptId("unknown")]
        self.driver.end_inputs(data.draw(st.sampled_from(sorted(attempts))))

    @rule()
    def all_inputs_end(self) -> None:
        self.driver.end_inputs(*self.driver.active)

    @rule(data=st.data())
    def tasks_fail(self, data: st.DataObject) -> None:
        if data.draw(st.booleans()):
            self.driver.roll_back()
        else:
            self.driver.roll_back(frozenset({data.draw(st.sampled_from(list(self.driver.topology.subtasks())))}))
        assert all(p.id in self.driver.writing or p.id in self.driver.storing for p in self.driver.coordinator.pending)

    @precondition(lambda self: self.driver.stopped is None and self.driver.coordinator.settled)
    @rule()
    def tasks_run(self) -> None:
        self.driver.run_all()

    @rule(data=st.data(), stop=st.sampled_from([False, False, True]), drain=st.booleans())
    def a_savepoint_is_wanted(self, data: st.DataObject, stop: bool, drain: bool) -> None:
        self.driver.savepoint(self.trigger(data), stop, drain)

    @rule(data=st.data(), full=st.booleans())
    def a_checkpoint_is_wanted(self, data: st.DataObject, full: bool) -> None:
        self.driver.checkpoint(self.trigger(data), full)

    @rule(data=st.data())
    def a_commit_fails(self, data: st.DataObject) -> None:
        attempts = list(self.driver.attempts.values())
        if attempts and self.driver.completed:
            checkpoint_id = CheckpointId(data.draw(st.sampled_from(self.driver.completed)))
            attempt = data.draw(st.sampled_from(attempts))
            self.driver.tell(ev.NotifyFailed(checkpoint_id, attempt, "the broker is away"))

    @precondition(lambda self: len(self.driver.log) > 30)
    @rule(outcome=st.sampled_from(ev.StopOutcome))
    def the_job_stops(self, outcome: ev.StopOutcome) -> None:
        self.driver.stop(outcome)

    def teardown(self) -> None:
        """Whatever happened: after the end of the job and all writes, nothing is pending and no request open."""
        if not hasattr(self, "driver"):
            return
        driver = self.driver
        driver.stop(ev.StopOutcome.CANCELED)
        for checkpoint_id in list(driver.storing):
            driver.pointer_stored(checkpoint_id)
        for checkpoint_id in list(driver.writing):
            driver.metadata_failed(checkpoint_id)
        assert not driver.coordinator.pending
        assert driver.coordinator.next_wake_up() is None
        assert set(driver.answered) == driver.asked
        driver.validate()


TestCheckpointMachine = CheckpointMachine.TestCase
TestCheckpointMachine.settings = settings(max_examples=cases(200), stateful_step_count=50)
