"""An enumerator process that sends arbitrary bytes is ended, and the job fails with the reason instead of waiting."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest
from fuzzed_messages import anything, words
from hypothesis import given
from hypothesis import strategies as st
from job_graphs import pipeline
from played_children import SayingChild
from waiting import run

from millstream.core.clock import ManualClock
from millstream.core.jobs.failures import TaskFailure
from millstream.core.messages.sources import Ready
from millstream.core.processes.child import Child, ChildProcess
from millstream.core.processes.job_process import start_job_process
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.pipes import ENUMERATORS_MESSAGE
from millstream.jobmanager.failover.repeated_errors import RepeatedErrors
from millstream.jobmanager.sources.enumerator_process import EnumeratorProcess
from millstream.proto import taskmanager_pb2

MESSAGE = taskmanager_pb2.DESCRIPTOR.message_types_by_name["EnumeratorsMessage"]


def heard_from(said: list[bytes], crashes: bool = False) -> list[Any]:
    heard: list[Any] = []
    child = SayingChild(said)
    child.crashed = crashes

    async def scenario() -> None:
        process = EnumeratorProcess(
            pipeline(1), Configuration(), "", heard.append, lambda _: None, ManualClock(), launch=child
        )
        await process.run()

    run(scenario)
    assert child.was_killed or crashes, "nothing of it is left"
    return heard


@given(said=st.lists(anything(MESSAGE, words("job")), max_size=5))
def test_any_message_of_an_enumerator_process_is_handled(said: list[bytes]) -> None:
    end = heard_from(said)[-1]
    assert isinstance(end, TaskFailure)
    assert end.task_name == "split enumerators"


@pytest.mark.parametrize("garbage", [b"", b"\xff", b"\x0a\xff\xff\xff\xff\x0f"])
def test_garbage_fails_the_job_with_the_reason(garbage: bytes) -> None:
    ready, failure = heard_from([ENUMERATORS_MESSAGE.to_bytes(Ready()), garbage])
    assert isinstance(ready, Ready)
    assert failure.exception.startswith("split enumerators: killed: this is no millstream.taskmanager.Enumerators")


def test_a_process_that_crashes_is_no_error_at_a_record() -> None:
    (failure,) = heard_from([], crashes=True)
    assert failure.exception == "split enumerators: no more messages"
    errors = RepeatedErrors(1)
    assert errors.failed(failure) == 0
    assert not errors.is_too_many(failure)


@pytest.mark.process
def test_a_process_that_is_stopped_fails_the_job_within_the_heartbeat_timeout() -> None:
    heard: list[Any] = []
    children: list[Child] = []

    async def launch(*arguments: Any) -> Child:
        children.append(await start_job_process(*arguments))
        return children[-1]

    async def scenario() -> None:
        ready = asyncio.Event()

        def received(message: Any) -> None:
            heard.append(message)
            ready.set()

        configuration = Configuration({"heartbeat.interval": "100 ms", "heartbeat.timeout": "600 ms"})
        process = EnumeratorProcess(
            pipeline(1), configuration, "", received, lambda _: None, ManualClock(), launch=launch
        )
        running = asyncio.create_task(process.run())
        await ready.wait()
        (child,) = children
        assert isinstance(child, ChildProcess)
        os.kill(child.pid, signal.SIGSTOP)
        await running

    run(scenario)
    assert isinstance(heard[0], Ready)
    assert "killed: its process" in heard[-1].exception
    assert "did not respond for 0.6 s (heartbeat.timeout): it was stopped (SIGSTOP)" in heard[-1].exception
