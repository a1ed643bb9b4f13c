"""Listeners of a program's jobs."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from api_fakes import FakeExecutor

from millstream.core.errors import InvalidProgramError, JobExecutionError, SubmissionError
from millstream.core.jobs.graph import JobGraph
from millstream.datastream import JobListener, StreamExecutionEnvironment


class Recorded(JobListener):
    """Records the notifications."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def on_job_submitted(self, job_client: Any, throwable: BaseException | None) -> None:
        self.events.append(("submitted", job_client and job_client.get_job_id(), throwable))

    def on_job_executed(self, job_execution_result: Any, throwable: BaseException | None) -> None:
        self.events.append(("executed", job_execution_result and job_execution_result.get_job_id(), throwable))


@pytest.fixture
def recorded(env: StreamExecutionEnvironment) -> Recorded:
    listener = Recorded()
    env.register_job_listener(listener)
    env.from_collection([1]).print()
    return listener


def test_listeners_are_notified_at_the_start_and_the_end_of_a_job(
    env: StreamExecutionEnvironment, executor: FakeExecutor, recorded: Recorded
) -> None:
    env.execute()
    job_id = executor.clients[0].get_job_id()
    assert recorded.events == [("submitted", job_id, None), ("executed", job_id, None)]


def test_listeners_are_notified_at_the_start_of_a_detached_job(
    env: StreamExecutionEnvironment, executor: FakeExecutor, recorded: Recorded
) -> None:
    job_id = env.execute_async().get_job_id()
    assert recorded.events == [("submitted", job_id, None)]


def test_listeners_receive_the_error_of_a_failed_job(
    env: StreamExecutionEnvironment, executor: FakeExecutor, recorded: Recorded
) -> None:
    executor.failure = JobExecutionError("broken")
    with pytest.raises(JobExecutionError):
        env.execute()
    assert recorded.events[1:] == [("executed", None, executor.failure)]


def test_listeners_are_notified_twice_of_a_refused_job_as_in_flink(
    env: StreamExecutionEnvironment, executor: FakeExecutor, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = SubmissionError("no")

    def refuse(graph: JobGraph, artifact_paths: dict[str, str] | None = None) -> Any:
        raise refusal

    monkeypatch.setattr(executor, "submit", refuse)
    with pytest.raises(SubmissionError):
        env.execute()
    assert recorded.events == [("submitted", None, refusal), ("executed", None, refusal)]


def test_a_listener_that_fails_does_no_harm(
    env: StreamExecutionEnvironment, executor: FakeExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(JobListener):
        def on_job_submitted(self, job_client: Any, throwable: BaseException | None) -> None:
            raise ValueError("mine")

    after = Recorded()
    env.register_job_listener(Failing())
    env.register_job_listener(after)
    env.from_collection([1]).print()
    with caplog.at_level(logging.ERROR):
        env.execute()
    assert "a listener of the program's jobs failed" in caplog.text
    assert len(after.events) == 2


def test_listeners_can_be_listed_and_cleared(env: StreamExecutionEnvironment, executor: FakeExecutor) -> None:
    listener = Recorded()
    env.register_job_listener(listener)
    assert env.get_job_listeners() == [listener]
    env.clear_job_listeners()
    env.from_collection([1]).print()
    env.execute()
    assert listener.events == []
    with pytest.raises(InvalidProgramError, match="register_job_listener: expected a JobListener"):
        env.register_job_listener(print)  # type: ignore[arg-type]
