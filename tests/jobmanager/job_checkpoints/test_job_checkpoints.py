"""A job's checkpoints between the enumerator process and the readers: order, resets, and splits that come back."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from job_graphs import edge, job, vertex
from waiting import DEADLINE, wait_until

from millstream.core.clock import Instant, SystemClock
from millstream.core.jobs.barriers import Alignment
from millstream.core.jobs.ids import NO_ALLOCATION, AllocationId, JobId, TaskManagerId, VertexId
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages import sources as src
from millstream.core.messages.checkpoints import CheckpointAck, CheckpointNotice, TriggerCheckpoint
from millstream.core.messages.snapshots import SnapshotRequest, SnapshotResult
from millstream.core.messages.task_manager import JobManagerCommand
from millstream.core.processes.background import BackgroundTasks
from millstream.core.services.leader_lookup import Role
from millstream.core.store.checkpoint_pointers import CheckpointPointers, JobPointers, Pointer
from millstream.core.store.leaders import Candidate
from millstream.core.store.memory import MemoryStore
from millstream.core.store.store import Contest, Key, Kind
from millstream.jobmanager.checkpoints.settings import CheckpointingMode, CheckpointSettings
from millstream.jobmanager.failover.topology import Subtask
from millstream.jobmanager.job_checkpoints.job_checkpoints import JobCheckpoints
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.job_master import JobMaster
from millstream.jobmanager.job_master.settings import JobMasterSettings
from millstream.jobmanager.restore_points import RestorePoints

M = TypeVar("M")
START = Instant(0, 0)
ONCE = {"interval_ms": 20, "min_pause_ms": 3_600_000}  # no second one gets in between, however slow the test is
PLAIN = CheckpointSettings(**ONCE)
FIRST_READER = Subtask(VertexId("s"), 0)


class FakeSurroundings:
    """Records the messages that are sent, with their receivers."""

    def __init__(self) -> None:
        self.said: list[tuple[str, Any]] = []
        self.events: asyncio.Queue[ev.Event] = asyncio.Queue()
        self.to_enumerators: asyncio.Queue[src.EnumeratorsCommand] = asyncio.Queue()
        self.completed: list[ev.CheckpointCompleted] = []
        self.may_complete = True

    def command(self, task_manager: TaskManagerId, command: JobManagerCommand) -> None:
        self.said.append((task_manager, command))

    def enumerators(self, command: src.EnumeratorsCommand) -> bool:
        self.to_enumerators.put_nowait(command)
        return True

    def start_enumerators(self, states: Mapping[VertexId, bytes]) -> None:
        self.said.append(("enumerators", dict(states)))

    def tell(self, event: ev.Event) -> None:
        if isinstance(event, ev.CheckpointCompleted):
            self.completed.append(event)
        else:
            self.events.put_nowait(event)

    def send_snapshot_result(self, result: SnapshotResult) -> None:
        self.said.append(("dispatcher", result))

    def in_charge(self) -> bool:
        return self.may_complete


def assignment(subtask: int, splits: bytes) -> src.EnumeratorEvent:
    return src.EnumeratorEvent(JobId("job"), VertexId("s"), subtask, src.Splits(splits))


class Rig:
    """A running job of two pipelines that have nothing to do with each other, each with a source reader."""

    def __init__(self, settings: CheckpointSettings) -> None:
        self.surroundings = FakeSurroundings()
        self.background = BackgroundTasks()
        graph = job([vertex("s", 2, source=True), vertex("b", 2)], [edge("s", "b", "FORWARD")])
        self.master = JobMaster(graph, JobMasterSettings(slot_timeout=10.0), START)
        self.clock = SetClock()
        self.store = MemoryStore()
        self.session = self.store.connect()
        points = RestorePoints(graph.job_id, Candidate(self.session, "host:1"))
        self.checkpoints = JobCheckpoints(self.master, settings, self.surroundings, self.background, self.clock, points)
        self.master.start(START)
        self.master.handle(ev.EnumeratorsReadied(), START)
        for name in ("a0", "a1"):
            self.master.handle(ev.SlotOffered(AllocationId(name), TaskManagerId(f"tm-{name}"), "host"), START)
        for name in ("a0", "a1"):
            self.master.handle(ev.WorkerReadied(AllocationId(name), name), START)
        for execution in self.master.execution_graph.executions:
            execution.move_to(ExecutionState.RUNNING, 0)
            self.checkpoints.task_changed(execution)

    def assign(self, subtask: int, *splits: str) -> bool:
        return self.checkpoints.sources.to_reader(assignment(subtask, pickle.dumps(list(splits))))

    async def told(self, kind: type[M]) -> M:
        """The next message of this kind to the enumerator process."""
        while not isinstance(command := await self.surroundings.to_enumerators.get(), kind):
            pass
        return command

    async def returned(self) -> tuple[int, list[str]]:
        """The next splits that the enumerator process gets back, and whose they were."""
        event = await self.told(src.ReaderEvent)
        assert isinstance(event.kind, src.SplitsReturned)
        return event.subtask, pickle.loads(event.kind.splits)

    async def snapshot(self, state: bytes) -> int:
        """The enumerator process responds to the next request for a snapshot."""
        wanted = await self.told(src.SnapshotEnumerators)
        self.checkpoints.snapshotted(src.EnumeratorsSnapshot(wanted.checkpoint_id, {"s": state}))
        return wanted.checkpoint_id

    async def complete(self, checkpoint_id: int) -> None:
        self.acknowledge(checkpoint_id)
        assert (await self.told(CheckpointNotice)).checkpoint_id == checkpoint_id

    def acknowledge(self, checkpoint_id: int) -> None:
        for execution in self.master.execution_graph.executions:
            self.checkpoints.received(CheckpointAck(NO_ALLOCATION, execution.attempt_id, checkpoint_id))

    async def stored(self) -> JobPointers:
        """What another session finds in the store."""
        entry = await self.store.connect().read(Key(Kind.CHECKPOINTS, "job"))
        return JobPointers.from_bytes(entry.value if entry is not None else None)

    async def follow(self) -> CheckpointPointers:
        """Another job manager leads the job."""
        self.session.lose()
        self.session.resume()
        store = self.store.connect()
        lead = await store.campaign(Contest(Role.JOB_MANAGER, JobId("job")), "host:2")
        return CheckpointPointers(store, JobId("job"), lead)

    @property
    def everything(self) -> frozenset[Subtask]:
        return frozenset(self.master.topology.subtasks())

    def roll_back(self, restart: int, *subtasks: Subtask, start_enumerators: bool = False) -> None:
        """Of some subtasks, or of all."""
        affected = frozenset(subtasks) or self.everything
        self.checkpoints.rolled_back(ev.RollBack(affected, "it failed"))
        self.checkpoints.restoration.restore(ev.Restore(restart, affected, start_enumerators))

    async def next(self, kind: type[M]) -> M:
        """The next event for the job, which is of this kind."""
        event = await self.surroundings.events.get()
        assert isinstance(event, kind)
        return event


@asynccontextmanager
async def running_rig(settings: CheckpointSettings = PLAIN) -> AsyncIterator[Rig]:
    rig = Rig(settings)
    try:
        await rig.checkpoints.prepare()
        yield rig
    finally:
        rig.checkpoints.suspend()
        await rig.background.cancel()


@pytest.fixture
def rig() -> AbstractAsyncContextManager[Rig]:
    return running_rig()


class SetClock(SystemClock):
    """The machine's, but for the wall clock, which was set by some hours."""

    def __init__(self) -> None:
        self.hours = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.hours * 3_600_000


async def test_barriers_are_sent_after_the_snapshot_of_the_enumerators(rig: Rig) -> None:
    assert rig.surroundings.said == []
    await rig.snapshot(b"state")
    assert [type(command) for _, command in rig.surroundings.said] == [TriggerCheckpoint, TriggerCheckpoint]
    assert [where for where, _ in rig.surroundings.said] == ["tm-a0", "tm-a1"]


async def test_checkpoints_go_on_when_the_wall_clock_is_set_back() -> None:
    async with running_rig(CheckpointSettings(interval_ms=20)) as rig:
        await rig.complete(await rig.snapshot(b"state"))
        rig.clock.hours = -1
        await rig.complete(await rig.snapshot(b"state"))
        await rig.complete(await rig.snapshot(b"state"))
        durations = [c.end_to_end_ms(Instant.of(rig.clock)) for c in rig.checkpoints.coordinator.statistics.history()]
        assert all(0 <= duration < DEADLINE * 1000 for duration in durations)


@pytest.mark.parametrize(
    ("settings", "alignment", "timeout"),
    [
        (PLAIN, Alignment.ALIGNED, None),
        (CheckpointSettings(**ONCE, unaligned=True), Alignment.UNALIGNED, None),
        (CheckpointSettings(**ONCE, unaligned=True, aligned_timeout_ms=300), Alignment.ALIGNED, 300),
        (CheckpointSettings(**ONCE, mode=CheckpointingMode.AT_LEAST_ONCE), Alignment.AT_LEAST_ONCE, None),
    ],
)
async def test_tasks_receive_the_options_of_barriers_and_report_how_they_were_aligned(
    settings: CheckpointSettings, alignment: Alignment, timeout: int | None
) -> None:
    async with running_rig(settings) as rig:
        checkpoint_id = await rig.snapshot(b"state")
        for _, command in rig.surroundings.said:
            assert (command.barrier.alignment, command.barrier.aligned_timeout_ms) == (alignment, timeout)
        for execution in rig.master.execution_graph.executions[:2]:
            ack = CheckpointAck(NO_ALLOCATION, execution.attempt_id, checkpoint_id, persisted_bytes=5, unaligned=True)
            rig.checkpoints.received(ack)
        (taken,) = rig.checkpoints.coordinator.statistics.history()
        assert [(s.metrics.persisted_bytes, s.metrics.unaligned) for s in taken.acknowledged] == [(5, True)] * 2


async def test_a_lost_readers_splits_since_the_checkpoint_go_back_and_late_ones_too(rig: Rig) -> None:
    assert rig.assign(0, "before")
    checkpoint_id = await rig.snapshot(b"state")
    assert rig.assign(0, "after")
    assert rig.assign(1, "of another")
    await rig.complete(checkpoint_id)
    rig.roll_back(1, FIRST_READER, Subtask(VertexId("b"), 0))
    assert await rig.returned() == (0, ["after"])
    assert not rig.assign(0, "late")
    assert rig.assign(1, "more of another")
    assert await rig.returned() == (0, ["late"])
    rig.checkpoints.sources.confirmed()
    await asyncio.sleep(0)
    assert rig.surroundings.events.empty()
    rig.checkpoints.sources.confirmed()
    restored = await rig.next(ev.Restored)
    assert restored.restart == 1
    assert rig.assign(0, "for the new one")


async def test_a_source_that_restarts_as_a_whole_is_reset_and_what_it_sent_before_is_dropped(rig: Rig) -> None:
    checkpoint_id = await rig.snapshot(b"state")
    rig.assign(0, "after")
    await rig.complete(checkpoint_id)
    rig.roll_back(1)
    reset = await rig.told(src.ResetSource)
    assert (reset.vertex_id, reset.state) == ("s", b"state")
    assert not rig.assign(0, "from before")
    rig.checkpoints.sources.confirmed()
    await rig.next(ev.Restored)
    assert rig.assign(0, "again")


async def test_a_new_enumerator_process_starts_from_the_checkpoint(rig: Rig) -> None:
    await rig.complete(await rig.snapshot(b"state"))
    rig.roll_back(1, start_enumerators=True)
    await rig.next(ev.Restored)
    assert rig.surroundings.said[-1] == ("enumerators", {"s": b"state"})


async def test_restarted_tasks_receive_the_savepoints_that_failed(tmp_path: Path) -> None:
    async with running_rig(CheckpointSettings()) as rig:
        request = SnapshotRequest(JobId("job"), "t", target_directory=str(tmp_path))
        rig.checkpoints.requested.take(request)
        number = await rig.snapshot(b"state")
        rig.roll_back(1, start_enumerators=True)
        restored = await rig.next(ev.Restored)
        told = {place: restore.failed_savepoints for place, restore in restored.restores.items()}
        assert told == dict.fromkeys(rig.everything, (number,))


@pytest.mark.parametrize("damaged", [True, False])
async def test_a_checkpoint_that_is_damaged_ends_the_job_and_one_that_is_away_does_not(
    tmp_path: Path, damaged: bool
) -> None:
    def damage() -> None:
        (metadata,) = tmp_path.rglob("_metadata.json")
        content = metadata.read_bytes()
        metadata.unlink()
        if damaged:
            metadata.write_bytes(content.replace(b"the job", b"THE job"))

    async with running_rig(CheckpointSettings(interval_ms=20, num_retained=5, directory=str(tmp_path))) as rig:
        await rig.complete(await rig.snapshot(b"state"))
        damage()
        rig.roll_back(1)
        failed = await rig.next(ev.RestoreFailed)
        assert f"{tmp_path}/job/chk-1" in failed.reason
        assert failed.final is damaged


async def test_a_later_restart_overtakes_one_that_is_under_way(rig: Rig) -> None:
    rig.roll_back(1, FIRST_READER, Subtask(VertexId("b"), 0))
    await rig.returned()
    rig.roll_back(2)
    await rig.told(src.ResetSource)
    rig.checkpoints.sources.confirmed()
    rig.checkpoints.sources.confirmed()
    restored = await rig.next(ev.Restored)
    assert restored.restart == 2
    assert rig.surroundings.events.empty()


@pytest.mark.parametrize(("strategy", "remembered"), [("FORWARD", 7), ("HASH", 0)])
async def test_splits_are_remembered_only_where_some_readers_may_restart_without_the_others(
    strategy: str, remembered: int
) -> None:
    graph = job([vertex("s", 2, source=True), vertex("b", 2)], [edge("s", "b", strategy)])
    master, background = JobMaster(graph, JobMasterSettings(slot_timeout=10.0), START), BackgroundTasks()
    points = RestorePoints(graph.job_id, Candidate(MemoryStore().connect(), "host:1"))
    checkpoints = JobCheckpoints(master, PLAIN, FakeSurroundings(), background, SetClock(), points)
    assert checkpoints.sources.to_reader(assignment(1, b"7 bytes"))
    assert checkpoints.sources.assignments.size == remembered
    assert checkpoints.sources.assignments.take_back(Subtask(VertexId("s"), 1)) == [b"7 bytes"] * (remembered // 7)
    assert checkpoints.sources.assignments.size == 0


# The store


async def until(condition: Callable[[], bool], wanted: bool) -> None:
    """Threads write and delete; looks until they have."""
    await asyncio.to_thread(wait_until, lambda: condition() is wanted, "the job manager's threads")


async def test_the_store_has_the_pointers_that_are_kept_and_nothing_of_a_job_that_has_ended(tmp_path: Path) -> None:
    async with running_rig(CheckpointSettings(interval_ms=20, num_retained=2, directory=str(tmp_path))) as rig:
        for _ in range(3):
            await rig.complete(await rig.snapshot(b"state"))
        await until(lambda: (tmp_path / "job" / "chk-1").exists(), False)
        stored = await rig.stored()
        assert stored.pointers == tuple(Pointer(n, f"file://{tmp_path}/job/chk-{n}") for n in (2, 3))
        assert stored.next_id > 3
        rig.checkpoints.job_ended(JobStatus.FINISHED)
        await until(lambda: (tmp_path / "job").exists(), False)
        async with asyncio.timeout(DEADLINE):  # the pointers go after the files
            while await rig.store.connect().names(Kind.CHECKPOINTS):  # noqa: ASYNC110  # the store notifies only of leaders
                await asyncio.sleep(0)
        await rig.follow()


async def test_no_id_is_used_that_was_not_reserved_before() -> None:
    async with running_rig(CheckpointSettings(interval_ms=1)) as rig:
        last = 0
        while last < 150:
            number = await rig.snapshot(b"state")
            assert number == last + 1
            assert number < (await rig.stored()).next_id
            await rig.complete(number)
            last = number
        statistics = rig.checkpoints.coordinator.statistics
        assert statistics.counts.completed == 150


async def test_ids_go_on_behind_those_of_an_earlier_leader(rig: Rig) -> None:
    rig.checkpoints.suspend()
    after = await rig.follow()
    block = await after.reserve(1, 5)
    assert block.start > 1
    assert await after.reserve(1, 5) == range(block.stop, block.stop + 5)


@pytest.mark.parametrize("takes_effect", [True, False])
async def test_a_restart_waits_until_it_is_known_whether_the_pointer_is_stored(takes_effect: bool, rig: Rig) -> None:
    checkpoint_id = await rig.snapshot(b"state")
    rig.session.suspend_within_write(takes_effect)
    rig.acknowledge(checkpoint_id)
    await until(lambda: rig.checkpoints.coordinator.settled, False)
    rig.roll_back(1, start_enumerators=True)
    await asyncio.sleep(0)
    assert rig.surroundings.events.empty()
    rig.session.resume()
    await rig.next(ev.Restored)
    assert rig.surroundings.said[-1] == ("enumerators", {"s": b"state"})
    assert [p.checkpoint_id for p in (await rig.stored()).pointers] == [checkpoint_id]


async def test_the_statistics_of_a_job_that_has_ended_are_final(tmp_path: Path) -> None:
    async with running_rig(CheckpointSettings(interval_ms=20, num_retained=1, directory=str(tmp_path))) as rig:
        await rig.complete(await rig.snapshot(b"state"))
        second = await rig.snapshot(b"state")
        rig.session.suspend_within_write(True)
        rig.acknowledge(second)
        await until(lambda: rig.checkpoints.coordinator.settled, False)
        concluding = asyncio.create_task(rig.checkpoints.conclude())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not concluding.done(), "the second may be stored, and the first go"
        rig.session.resume()
        await concluding
        assert rig.checkpoints.kept.places()[0] == f"file://{tmp_path}/job/chk-{second}"


async def test_no_checkpoint_completes_after_the_end_of_its_job(tmp_path: Path) -> None:
    async with running_rig(CheckpointSettings(interval_ms=20, num_retained=1, directory=str(tmp_path))) as rig:
        first = await rig.snapshot(b"state")
        await rig.complete(first)
        second = await rig.snapshot(b"state")
        await rig.checkpoints.conclude()
        rig.acknowledge(second)
        await until(lambda: rig.checkpoints.coordinator.statistics.counts.failed == 1, True)
        assert rig.checkpoints.kept.places()[0] == f"file://{tmp_path}/job/chk-{first}"
        assert [p.checkpoint_id for p in (await rig.stored()).pointers] == [first]


async def test_a_job_manager_that_another_has_followed_completes_and_deletes_nothing(tmp_path: Path) -> None:
    async with running_rig(CheckpointSettings(interval_ms=20, directory=str(tmp_path))) as rig:
        await rig.complete(await rig.snapshot(b"state"))
        under_way = await rig.snapshot(b"state")
        after = await rig.follow()
        stored = await after.read()
        told = len(rig.surroundings.said)
        rig.acknowledge(under_way)
        await until(lambda: (tmp_path / "job" / f"chk-{under_way}" / "_metadata.json").exists(), True)
        await until(lambda: rig.checkpoints.coordinator.settled, False)
        rig.checkpoints.job_ended(JobStatus.CANCELED)
        for _ in range(20):
            await asyncio.sleep(0)
        await asyncio.get_running_loop().shutdown_default_executor()  # whatever is being deleted is gone now
        assert rig.surroundings.said[told:] == []
        assert sorted(path.name for path in (tmp_path / "job").iterdir()) == ["chk-1", "chk-2"]
        assert await after.read() == stored
