"""A slot worker that sends arbitrary messages: those of its own slot are forwarded, others end it."""

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
ENDED = "slot worker: no more messages"


def forwarded_from(sent: list[bytes]) -> tuple[list[Any], str]:
    """What the supervisor forwarded, and why the worker ended."""
    forwarded: list[Any] = []
    reasons: list[str] = []
    child = SayingChild(sent)

    async def scenario() -> None:
        start = StartWorker(SLOT, JOB)
        worker = SupervisedWorker(start, "127.0.0.1", Configuration(), forwarded.append, lambda _: None, launch=child)
        reasons.append(await worker.run())

    run(scenario)
    assert child.was_killed, "nothing of it is left"
    return forwarded, reasons[0]


@given(sent=st.lists(anything(MESSAGE, words(SLOT, JOB)) | messages(MESSAGE, words(SLOT, JOB)), max_size=5))
def test_a_worker_may_send_anything(sent: list[bytes]) -> None:
    forwarded, reason = forwarded_from(sent)
    if not reason.startswith("slot worker: killed: "):
        decoded = [WORKER_MESSAGE.from_bytes(raw) for raw in sent]
        kept = (WorkerInspected, SlotMetrics, PlacedTask)
        assert forwarded == [message for message in decoded if not isinstance(message, kept)]
    for message in forwarded:
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
def test_a_worker_sends_for_its_own_slot_only(foreign: Any) -> None:
    own = WorkerReady(SLOT, "127.0.0.1:1")
    forwarded, reason = forwarded_from([WORKER_MESSAGE.to_bytes(message) for message in (own, foreign, own)])
    assert forwarded == [own]
    assert reason == f"slot worker: killed: it sent a {type(foreign).__name__} of another slot or job"
    assert forwarded_from([WORKER_MESSAGE.to_bytes(own)]) == ([own], ENDED)
