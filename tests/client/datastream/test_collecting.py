from __future__ import annotations

import gc
from typing import Any

import pytest
from api_fakes import FakeExecutor

from millstream.common import InvalidProgramError, JobExecutionError
from millstream.core.jobs.ids import stable_id
from millstream.datastream import CloseableIterator, StreamExecutionEnvironment


def collect(env: StreamExecutionEnvironment, **arguments: Any) -> Any:
    return env.from_collection([0]).uid("in").execute_and_collect(**arguments)


def test_all_results_then_the_end_of_the_job(env: StreamExecutionEnvironment, executor: FakeExecutor) -> None:
    executor.records = [1, 2, 3]
    results = collect(env, job_execution_name="named")
    [client] = executor.clients
    assert isinstance(results, CloseableIterator)
    assert results.get_job_client() is client
    assert list(results) == [1, 2, 3]
    assert (client.closed, client.cancelled, client.graph.name) == (1, 0, "named")
    assert client.status.value == "FINISHED"
    assert list(results) == []
    results.close()
    assert client.closed == 1


def test_the_collect_operators_id_is_requested(env: StreamExecutionEnvironment, executor: FakeExecutor) -> None:
    list(collect(env))
    [client] = executor.clients
    [vertex] = client.graph.vertices
    assert client.collected == [vertex.operators[1].id]
    assert vertex.operators[0].id == stable_id("uid", "in")


def test_one_subtask_collects(env: StreamExecutionEnvironment, executor: FakeExecutor) -> None:
    env.set_parallelism(3)
    list(env.from_sequence(1, 2).execute_and_collect())
    assert [vertex.parallelism for vertex in executor.clients[0].graph.vertices] == [3, 1]


def test_leaving_early_cancels(env: StreamExecutionEnvironment, executor: FakeExecutor) -> None:
    executor.records = [1, 2, 3]
    with collect(env) as results:
        assert next(results) == 1
    [client] = executor.clients
    assert (client.closed, client.cancelled) == (1, 1)
    assert list(results) == []


def test_leaving_before_the_first_result_cancels_too(env: StreamExecutionEnvironment, executor: FakeExecutor) -> None:
    collect(env).close()
    assert (executor.clients[0].closed, executor.clients[0].cancelled) == (1, 1)


def test_a_limit_answers_a_list_and_ends_the_job(env: StreamExecutionEnvironment, executor: FakeExecutor) -> None:
    executor.records = [1, 2, 3]
    assert collect(env, limit=2) == [1, 2]
    assert (executor.clients[0].closed, executor.clients[0].cancelled) == (1, 1)
    assert collect(env, limit=9) == [1, 2, 3]
    assert (executor.clients[1].closed, executor.clients[1].cancelled) == (1, 0)


@pytest.mark.parametrize("limit", [0, -1, True, "2"])
def test_limits_are_checked(env: StreamExecutionEnvironment, executor: FakeExecutor, limit: Any) -> None:
    with pytest.raises(InvalidProgramError, match="a limit is a whole number"):
        collect(env, limit=limit)


def test_a_failing_job_raises_and_is_closed(env: StreamExecutionEnvironment, executor: FakeExecutor) -> None:
    executor.records = [1]
    executor.failure = JobExecutionError("boom")
    results = collect(env)
    assert next(results) == 1
    with pytest.raises(JobExecutionError, match="boom"):
        next(results)
    assert (executor.clients[0].closed, executor.clients[0].cancelled) == (1, 0)


def test_a_forgotten_iterator_cancels_its_job(env: StreamExecutionEnvironment, executor: FakeExecutor) -> None:
    executor.records = [1, 2]
    results = collect(env)
    next(results)
    del results
    gc.collect()
    assert (executor.clients[0].closed, executor.clients[0].cancelled) == (1, 1)


def test_what_was_to_be_collected_of_a_job_that_cannot_be_is_in_no_later_job(
    env: StreamExecutionEnvironment, executor: FakeExecutor
) -> None:
    numbers = env.from_collection([1]).uid("the same")
    other = env.from_collection([2]).uid("the same")
    with pytest.raises(InvalidProgramError, match="the same"):
        numbers.execute_and_collect()
    other.uid("another")
    env.execute()
    [client] = executor.clients
    assert [operator.name for vertex in client.graph.vertices for operator in vertex.operators] == [
        "Source: Collection Source",
        "Source: Collection Source",
    ]
