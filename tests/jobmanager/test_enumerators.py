"""Split enumerators on their thread, with sources that do what the test prescribes."""

from __future__ import annotations

import pickle
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from waiting import DEADLINE

from millstream.core.clock import ManualClock
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.ids import NO_ALLOCATION, JobId, VertexId
from millstream.core.messages import sources as src
from millstream.core.messages.checkpoints import CheckpointNotice
from millstream.core.pickling import to_bytes
from millstream.datastream.connectors.base import Boundedness, Source, SplitEnumerator, SplitEnumeratorContext
from millstream.jobmanager.sources.enumerators import Enumerators

CLOSED: list[str] = []
M = TypeVar("M")


class FakeEnumerator(SplitEnumerator[str]):
    """Hands out its splits one by one; some of them are orders to misbehave."""

    def __init__(self, context: SplitEnumeratorContext[str], splits: list[str]) -> None:
        self.context = context
        self.splits = list(splits)

    def start(self) -> None:
        if self.splits[:1] == ["fail on start"]:
            raise OSError("no such folder")
        if self.splits[:1] == ["discover in vain"]:
            self.context.call_async(_in_vain, self._discovered)
        if self.splits[:1] == ["leave"]:
            self.context.call_async(_leave, self._discovered)

    def _discovered(self, found: Any, error: BaseException | None) -> None:
        if error is not None:
            raise RuntimeError(f"discovery failed: {error!r}")
        self.splits = found
        self.context.send_event_to_reader(0, {"on": threading.current_thread().name})

    def handle_split_request(self, subtask: int, host: str) -> None:
        if not self.splits:
            self.context.signal_no_more_splits(subtask)
            return
        split = self.splits.pop(0)
        if split == "raise":
            _user_code()
        self.context.assign_splits([f"{split} for {host}"], subtask)

    def add_splits_back(self, splits: list[str], subtask: int) -> None:
        self.splits = [*splits, *self.splits]

    def add_reader(self, subtask: int) -> None:
        readers = sorted(self.context.registered_readers())
        self.context.send_event_to_reader(subtask, (readers, self.context.current_parallelism()))
        if self.splits[:1] == ["discover"]:
            self.context.call_async(lambda: ["found 1", "found 2"], self._discovered)
        if self.splits[:1] == ["assign to another"]:
            self.context.assign_splits(["lost"], subtask + 1)

    def handle_source_event(self, subtask: int, event: Any) -> None:
        if event[0] == "assign":
            self.context.assign_splits(["y"], event[1])
        elif event[0] == "no more":
            self.context.signal_no_more_splits(event[1])
        self.context.send_event_to_reader(subtask, ("echo", event))

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return self.splits

    def unassigned_splits(self) -> int:
        return [0, 1, 2].index(len(self.splits))

    def close(self) -> None:
        CLOSED.append(" ".join(self.splits))
        if self.splits[:1] == ["fail on close"]:
            raise OSError("cannot close")


def _user_code() -> None:
    raise ValueError("bad split")


def _in_vain() -> None:
    raise FileNotFoundError("/data")


def _leave() -> None:
    raise SystemExit(3)


class FakeSource(Source[str]):
    def __init__(self, *splits: str) -> None:
        self.splits = list(splits)

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext[str]) -> SplitEnumerator[str]:
        return FakeEnumerator(context, self.splits)

    def restore_enumerator(self, context: SplitEnumeratorContext[str], state: Any) -> SplitEnumerator[str]:
        return FakeEnumerator(context, state)

    def create_reader(self, context: Any) -> Any:
        raise AssertionError("readers run elsewhere")


class LeavingSource(FakeSource):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def create_enumerator(self, context: SplitEnumeratorContext[str]) -> SplitEnumerator[str]:
        raise self.error


class RunningEnumerators:
    """Enumerators on a thread of their own, and what they sent."""

    def __init__(self, **sources: bytes) -> None:
        self.sent: queue.SimpleQueue[src.EnumeratorsMessage] = queue.SimpleQueue()
        self.clock = ManualClock(1_000)
        self.enumerators = Enumerators(self.sent.put, self.clock)
        wanted = tuple(src.SourceToEnumerate(VertexId(v), f"source {v}", 3, source) for v, source in sources.items())
        self.enumerators.command(src.StartEnumerators(JobId("job"), wanted))
        self.thread = threading.Thread(target=self.enumerators.run, name="enumerators of the test", daemon=True)
        self.thread.start()

    def reader(
        self, kind: src.Registered | src.SplitRequest | src.Custom | src.SplitsReturned, subtask: int = 0, of: str = "v"
    ) -> None:
        self.enumerators.command(src.ReaderEvent(JobId("job"), VertexId(of), subtask, kind))

    def register(self, *subtasks: int, of: str = "v") -> None:
        for subtask in subtasks:
            self.reader(src.Registered(), subtask, of)
            self.custom()

    def next(self, kind: type[M]) -> M:
        message = self.sent.get(timeout=DEADLINE)
        assert isinstance(message, kind)
        return message

    def ready(self) -> None:
        self.next(src.Ready)

    def splits(self) -> tuple[int, list[str]]:
        event = self.next(src.EnumeratorEvent)
        assert isinstance(event.kind, src.Splits)
        return event.subtask, pickle.loads(event.kind.splits)

    def request(self, host: str = "h", subtask: int = 0) -> list[str]:
        """The splits that a reader gets for a request."""
        self.reader(src.SplitRequest(host), subtask)
        receiver, splits = self.splits()
        assert receiver == subtask
        return splits

    def custom(self) -> Any:
        event = self.next(src.EnumeratorEvent)
        assert isinstance(event.kind, src.Custom)
        return pickle.loads(event.kind.event)

    def snapshot(self, checkpoint_id: int) -> src.EnumeratorsSnapshot:
        self.enumerators.command(src.SnapshotEnumerators(checkpoint_id))
        return self.next(src.EnumeratorsSnapshot)

    def reset(self, state: bytes = b"", parallelism: int = 3) -> None:
        self.enumerators.command(src.ResetSource(VertexId("v"), state, parallelism))
        self.ready()

    def stop(self) -> None:
        self.enumerators.command(src.Stop())
        self.thread.join(DEADLINE)
        assert not self.thread.is_alive()


Start = Callable[..., RunningEnumerators]


@pytest.fixture
def running(request: pytest.FixtureRequest) -> Start:
    CLOSED.clear()

    def start(*splits: str, readers: tuple[int, ...] | None = None, **more: bytes) -> RunningEnumerators:
        """With readers, these have registered, which happens once the enumerators are ready."""
        enumerators = RunningEnumerators(**{"v": to_bytes(FakeSource(*splits)), **more})
        request.addfinalizer(enumerators.stop)
        if readers is not None:
            enumerators.ready()
            enumerators.register(*readers)
        return enumerators

    return start


def test_readers_ask_for_splits_until_there_are_none(running: Start) -> None:
    enumerators = running("a", "b", readers=(0, 1, 2))
    for subtask in range(2):
        enumerators.reader(src.SplitRequest(f"host {subtask}"), subtask)
    assert enumerators.splits() == (0, ["a for host 0"])
    assert enumerators.splits() == (1, ["b for host 1"])
    enumerators.reader(src.SplitRequest("host 2"), 2)
    event = enumerators.next(src.EnumeratorEvent)
    assert event == src.EnumeratorEvent(JobId("job"), VertexId("v"), 2, src.NoMoreSplits())


def test_readers_register_send_events_and_give_splits_back(running: Start) -> None:
    enumerators = running(readers=())
    enumerators.reader(src.Registered(), 2)
    assert enumerators.custom() == ([2], 3)
    enumerators.reader(src.Registered(), 0)
    assert enumerators.custom() == ([0, 2], 3)
    enumerators.reader(src.Custom(to_bytes(("at", 5))), 2)
    assert enumerators.custom() == ("echo", ("at", 5))
    enumerators.reader(src.SplitsReturned(to_bytes(["x"])), 1)
    enumerators.ready()
    assert enumerators.request() == ["x for h"]


def test_figures_of_enumerators_are_reported_a_second_after_they_change(
    running: Start, caplog: pytest.LogCaptureFixture
) -> None:
    def told(enumerators: RunningEnumerators) -> src.EnumeratorFigures:
        enumerators.snapshot(1)  # they are done with all that was before
        enumerators.clock.advance(1.0)
        enumerators.enumerators.command(CheckpointNotice(NO_ALLOCATION, (), 1, completed=False))  # wakes them up
        return enumerators.next(src.EnumeratorFigures)

    of, two = VertexId("v"), running("a", "b", readers=(0, 1))
    assert told(two) == src.EnumeratorFigures(of, 2, 0, 0, 2, 2, 2)
    two.request()
    assert told(two) == src.EnumeratorFigures(of, 2, 1, 0, 3, 3, 1)
    two.reader(src.SplitsReturned(to_bytes(["a"])))
    two.ready()
    assert told(two) == src.EnumeratorFigures(of, 1, 1, 1, 4, 3, 2)

    three = running("a", "b", "c", readers=(0,))
    assert told(three).unassigned_splits is None, "it cannot count to three"
    three.request()
    assert told(three).unassigned_splits is None, "and is not asked again"
    assert caplog.text.count("Getting the number of unassigned splits of source v failed") == 1


@pytest.mark.parametrize("order", ["assign", "no more"])
def test_what_is_given_to_a_reader_that_is_not_there_is_an_error(running: Start, order: str) -> None:
    """Before it has registered, and after it was lost."""
    enumerators = running("x", readers=())
    enumerators.reader(src.Registered(), 2)
    enumerators.custom()
    for lost in (True, False):
        if lost:
            enumerators.register(1)
            enumerators.reader(src.SplitRequest("h"), 1)
            assert enumerators.splits() == (1, ["x for h"])
            enumerators.reader(src.SplitsReturned(to_bytes([])), 1)
            enumerators.ready()
        enumerators.reader(src.Custom(to_bytes((order, 1 if lost else 0))), 2)
        failure = enumerators.next(TaskFailure)
        assert f"ConnectorError: there is no reader {1 if lost else 0}" in failure.exception


def test_each_source_has_an_enumerator_of_its_own(running: Start) -> None:
    enumerators = running("a", w=to_bytes(FakeSource("b")), readers=(0,))
    enumerators.register(0, of="w")
    enumerators.reader(src.SplitRequest("h"), of="w")
    enumerators.reader(src.SplitRequest("h"), of="v")
    assert enumerators.splits() == (0, ["b for h"])
    assert enumerators.splits() == (0, ["a for h"])


def test_what_an_enumerator_raises_is_reported_with_the_users_traceback(running: Start) -> None:
    enumerators = running("raise", "a", readers=(0,))
    enumerators.reader(src.SplitRequest("h"))
    failure = enumerators.next(TaskFailure)
    assert failure.exception == "ValueError: bad split"
    assert (failure.job_id, failure.vertex_id, failure.operator_name) == ("job", "v", "source v")
    assert failure.task_name == "source v (split enumerator)"
    assert failure.timestamp == 1_000
    first, *frames = failure.traceback.splitlines()
    assert first == "Traceback (most recent call last):"
    assert "in handle_split_request" in frames[0]
    assert "millstream/jobmanager" not in failure.traceback
    assert frames[-1] == "ValueError: bad split"
    assert enumerators.request() == ["a for h"]


def test_a_source_that_cannot_start_fails_the_job_and_its_readers_get_no_response(running: Start) -> None:
    enumerators = running("fail on start", w=to_bytes(FakeSource("second")))
    assert enumerators.next(TaskFailure).exception == "OSError: no such folder"
    enumerators.stop()
    assert enumerators.sent.empty(), "it is not ready"


def test_a_source_that_cannot_be_loaded_fails_the_job() -> None:
    enumerators = RunningEnumerators(v=b"cnowhere_to_be_found\nSource\n.")
    failure = enumerators.next(TaskFailure)
    assert "the source 'source v' cannot be loaded: No module named 'nowhere_to_be_found'" in failure.exception
    assert failure.final
    enumerators.reader(src.SplitRequest("h"))
    enumerators.stop()
    assert enumerators.sent.empty()


def test_async_work_continues_on_the_enumerators_thread(running: Start) -> None:
    enumerators = running("discover", readers=(0,))
    assert enumerators.custom() == {"on": "enumerators of the test"}
    assert enumerators.request() == ["found 1 for h"]


@pytest.mark.parametrize(
    ("order", "error"), [("discover in vain", "FileNotFoundError('/data')"), ("leave", "SystemExit(3)")]
)
def test_an_error_of_async_work_reaches_its_continuation_and_one_there_the_job(
    running: Start, order: str, error: str
) -> None:
    enumerators = running(order)
    messages = [enumerators.next(object), enumerators.next(object)]
    (failure,) = [message for message in messages if isinstance(message, TaskFailure)]
    assert failure.exception == f"RuntimeError: discovery failed: {error}"
    assert failure.vertex_id == "v"
    assert "millstream/jobmanager" not in failure.traceback


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_an_enumerator_that_wants_to_leave_fails_the_job_and_nothing_else(running: Start, error: BaseException) -> None:
    enumerators = running("a", w=to_bytes(LeavingSource(error)))
    failure = enumerators.next(TaskFailure)
    assert (failure.vertex_id, failure.operator_name) == ("w", "source w")
    assert failure.exception.startswith(type(error).__name__)
    enumerators.register(0)
    assert enumerators.request() == ["a for h"]


def test_stopping_closes_every_enumerator_even_when_one_cannot_close(
    running: Start, caplog: pytest.LogCaptureFixture
) -> None:
    enumerators = running("fail on close", w=to_bytes(FakeSource("second")), readers=())
    enumerators.stop()
    assert CLOSED == ["fail on close", "second"]
    assert "closing the enumerator of source v failed" in caplog.text


def test_an_enumerator_that_failed_is_closed_too(running: Start) -> None:
    enumerators = running("fail on start")
    enumerators.next(TaskFailure)
    enumerators.stop()
    assert CLOSED == ["fail on start"]


# Checkpoints


def test_a_snapshot_comes_after_what_was_assigned_before_it(running: Start) -> None:
    enumerators = running("a", "b", readers=(0,))
    enumerators.reader(src.SplitRequest("h"))
    enumerators.enumerators.command(src.SnapshotEnumerators(7))
    assert enumerators.request() == ["a for h"]
    snapshot = enumerators.next(src.EnumeratorsSnapshot)
    assert (snapshot.checkpoint_id, snapshot.error) == (7, "")
    assert pickle.loads(snapshot.states["v"]) == ["b"]
    assert enumerators.splits() == (0, ["b for h"])


def test_a_source_that_is_reset_continues_from_its_state(running: Start) -> None:
    enumerators = running("a", "b", readers=(0,))
    state = enumerators.snapshot(1).states["v"]
    assert enumerators.request() == ["a for h"]
    enumerators.reader(src.Registered(), 1)
    assert enumerators.custom() == ([0, 1], 3)
    enumerators.reset(state)
    enumerators.reader(src.SplitRequest("of the reader before it"))
    enumerators.reader(src.Registered(), 2)
    assert enumerators.custom() == ([2], 3)
    enumerators.register(0)
    assert enumerators.request() == ["a for h"]
    enumerators.reset()
    assert pickle.loads(enumerators.snapshot(2).states["v"]) == ["a", "b"]


def test_readers_that_are_gone_are_not_registered(running: Start) -> None:
    enumerators = running(readers=())
    enumerators.reader(src.Registered(), 1)
    assert enumerators.custom() == ([1], 3)
    enumerators.reader(src.SplitsReturned(to_bytes([])), 1)
    enumerators.ready()
    enumerators.reader(src.Registered(), 0)
    assert enumerators.custom() == ([0], 3)


def test_splits_for_a_reader_that_is_not_there_fail_the_job(running: Start) -> None:
    enumerators = running("assign to another", readers=(1,))
    failure = enumerators.next(TaskFailure)
    assert "there is no reader 2: splits and events can only be sent to registered readers, which are [1] of 3" in (
        failure.exception
    )


class NotifiedEnumerator(FakeEnumerator):
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.context.send_event_to_reader(0, ("complete", checkpoint_id))

    def snapshot_state(self, checkpoint_id: int) -> Any:
        raise OSError("no state")


class NotifiedSource(FakeSource):
    def create_enumerator(self, context: SplitEnumeratorContext[str]) -> SplitEnumerator[str]:
        return NotifiedEnumerator(context, self.splits)


def test_enumerators_hear_of_completed_checkpoints_and_may_fail_to_be_captured(running: Start) -> None:
    enumerators = running(v=to_bytes(NotifiedSource("a")), readers=(0,))
    for completed in (False, True):
        enumerators.enumerators.command(CheckpointNotice(NO_ALLOCATION, (), 3, completed))
    assert enumerators.custom() == ("complete", 3)
    response = enumerators.snapshot(4)
    assert response.error == "source v (split enumerator): OSError: no state"
    assert "snapshot_state" in response.failure.traceback
    assert response.failure.signature == enumerators.snapshot(5).failure.signature != ""


class FollowingEnumerator(FakeEnumerator):
    def take_over(self, assigned: dict[int, list[str]]) -> bool:
        self.splits = [split for split in self.splits if split not in assigned[1]]
        return True


class FollowingSource(FakeSource):
    def restore_enumerator(self, context: SplitEnumeratorContext[str], state: Any) -> SplitEnumerator[str]:
        return FollowingEnumerator(context, state)


def taking_over(source: FakeSource, *given: str) -> RunningEnumerators:
    """Enumerators that start from a state with three splits, while reader 1 has had these since."""
    running = RunningEnumerators()
    running.ready()
    readers = (src.RunningReader(0), src.RunningReader(1, tuple(to_bytes([split]) for split in given)))
    state = pickle.dumps(["a", "b", "c"])
    wanted = src.SourceToEnumerate(VertexId("v"), "source v", 2, to_bytes(source), state, readers)
    running.enumerators.command(src.StartEnumerators(JobId("job"), (wanted,)))
    return running


def end(running: RunningEnumerators) -> None:
    running.enumerators.command(src.Stop())
    running.thread.join(DEADLINE)


def test_an_enumerator_continues_with_readers_that_run_already() -> None:
    running = taking_over(FollowingSource(), "b", "c")
    running.ready()
    assert running.request(subtask=0) == ["a for h"]
    running.reader(src.SplitRequest("h"), 1)
    assert isinstance(running.next(src.EnumeratorEvent).kind, src.NoMoreSplits)
    end(running)


def test_an_enumerator_without_a_snapshot_continues_if_readers_have_no_splits() -> None:
    running = taking_over(FakeSource())
    assert [running.custom() for _ in range(2)] == [([0, 1], 2)] * 2, "they count as registered"
    running.ready()
    assert running.request(subtask=1) == ["a for h"]
    end(running)


def test_an_enumerator_that_knows_nothing_of_that_refuses_readers_that_were_given_splits() -> None:
    running = taking_over(FakeSource(), "b")
    assert "the enumerator of source v cannot continue" in running.next(src.TakeoverRefused).reason
    end(running)
