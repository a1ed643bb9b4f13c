"""A slot worker that says anything: what is of its own slot is passed on, and anything else ends it with the reason."""

from __future__ import annotations

from typing import Any

import pytest
from fuzzed_messages import anything, messages, words
from hypothesis import given
from hypothesis import strategies as st
from played_children import SayingChild
from waiting import run

from millstream.core.jobs.ids import AllocationId, AttemptId, JobId, VertexId
from millstream.core.jobs.states import ExecutionState
from millstream.core.messages.inspection import PlacedTask, WorkerInspected
from millstream.core.messages.results import CollectResponse
from millstream.core.messages.sources import ReaderEvent, Registered, WatermarkReport
from millstream.core.messages.task_manager import SlotMetrics, StartWorker, TaskUpdate, WorkerReady
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.pipes import WORKER_MESSAGE
from millstream.proto import taskmanager_pb2
from millstream.taskmanager.supervisor.supervised_worker import SupervisedWorker

MESSAGE = taskmanager_pb2.DESCRIPTOR.message_types_by_name["WorkerMessage"]
SLOT, JOB = AllocationId("the slot"), JobId("the job")
ENDED = "slot worker: it has said all that it had to say"


def heard_from(said: list[bytes]) -> tuple[list[Any], str]:
    """What the supervisor passed on, and why the worker ended."""
    heard: list[Any] = []
    reasons: list[str] = []
    child = SayingChild(said)

    async def scenario() -> None:
        start = StartWorker(SLOT, JOB)
        worker = SupervisedWorker(start, "127.0.0.1", Configuration(), heard.append, lambda _: None, launch=child)
        reasons.append(await worker.run())

    run(scenario)
    assert child.was_killed, "nothing of it is left"
    return heard, reasons[0]


@given(said=st.lists(anything(MESSAGE, words(SLOT, JOB)) | messages(MESSAGE, words(SLOT, JOB)), max_size=5))
def test_a_worker_may_say_anything(said: list[bytes]) -> None:
    heard, reason = heard_from(said)
    if not reason.startswith("slot worker: killed: "):
        told = [WORKER_MESSAGE.from_bytes(raw) for raw in said]
        kept = (WorkerInspected, SlotMetrics, PlacedTask)
        assert heard == [message for message in told if not isinstance(message, kept)]
    for message in heard:
        match message:
            case ReaderEvent(job_id) | WatermarkReport(job_id):
                assert job_id == JOB
            case CollectResponse():
                pass
            case _:
                assert message.allocation_id == SLOT


@pytest.mark.parametrize(
    "foreign",
    [
        WorkerReady(AllocationId("another"), "127.0.0.1:1"),
        TaskUpdate(AllocationId("another"), AttemptId("x"), ExecutionState.FINISHED),
        ReaderEvent(JobId("another"), VertexId("v"), 0, Registered()),
    ],
)
def test_a_worker_speaks_for_its_own_slot_only(foreign: Any) -> None:
    own = WorkerReady(SLOT, "127.0.0.1:1")
    heard, reason = heard_from([WORKER_MESSAGE.to_bytes(message) for message in (own, foreign, own)])
    assert heard == [own]
    assert reason == f"slot worker: killed: it sent a {type(foreign).__name__} of another slot or job"
    assert heard_from([WORKER_MESSAGE.to_bytes(own)]) == ([own], ENDED)
