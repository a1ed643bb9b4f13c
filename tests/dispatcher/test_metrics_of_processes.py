"""What the dispatcher fetches of other processes' metrics, keeps, forgets and shows."""

from __future__ import annotations

import asyncio

import pytest
from dispatcher_fixtures import eventually

from millstream.core.clock import ManualClock, SystemClock
from millstream.core.errors import UnreachableError
from millstream.core.metrics.model import MetricGroup, Scope, encode_groups
from millstream.dispatcher.metrics.fetcher import MetricFetcher
from millstream.dispatcher.metrics.store import MetricStore
from millstream.dispatcher.rest.metric_values import aggregated, single, wanted_aggregations, wanted_subtasks
from millstream.dispatcher.rest.table import RestError


def task(subtask: int, attempt: int = 0, **counters: int) -> MetricGroup:
    variables = {"job_id": "j", "task_id": "v", "subtask_index": str(subtask), "task_attempt_num": str(attempt)}
    return MetricGroup(Scope.TASK, variables, counters=counters)


def manager(name: str, load: float) -> MetricGroup:
    return MetricGroup(Scope.TASK_MANAGER, {"tm_id": name}, gauges={"load": load})


def test_an_answer_takes_the_place_of_the_one_before() -> None:
    store = MetricStore(kept=10)
    store.put("a", [task(0, seen=1), manager("tm-a", 0.5)], now=0)
    store.put("b", [task(1, seen=2)], now=0)
    assert store.vertex("j", "v") == {0: {"seen": 1}, 1: {"seen": 2}}
    store.put("a", [task(0, other=5)], now=1)
    assert store.vertex("j", "v") == {0: {"other": 5}, 1: {"seen": 2}}
    assert store.task_managers() == {}


def test_coordinators_are_distinguished_from_tasks() -> None:
    store = MetricStore(kept=10)
    variables = {"job_id": "j", "task_id": "v", "operator_name": "Source: a"}
    path, counters = ("coordinator",), {"numEventsIn": 3}
    coordinator = MetricGroup(Scope.JOB_MANAGER_OPERATOR, variables, path, path, counters)
    store.put("a", [coordinator, task(0, seen=1)], now=0)
    assert store.coordinators("j", "v") == {"Source__a.coordinator.numEventsIn": 3}
    assert store.coordinators("j", "w") == store.coordinators("k", "v") == {}
    assert store.vertex("j", "v") == {0: {"seen": 1}}


def test_the_latest_attempt_counts() -> None:
    store = MetricStore(kept=10)
    store.put("a", [task(0, 1, seen=1), task(0, 2, seen=7), task(0, 2, more=1)], now=0)
    store.put("b", [task(0, 0, seen=100)], now=0)
    assert store.vertex("j", "v") == {0: {"seen": 7, "more": 1}}


def test_what_is_gone_is_forgotten() -> None:
    store = MetricStore(kept=10)
    store.put("a", [manager("tm-a", 0.5)], now=0)
    store.put("b", [manager("tm-b", 0.5)], now=0)
    store.keep({"a", "b"}, now=10)
    assert list(store.task_managers()) == ["tm-a", "tm-b"]
    store.keep({"b"}, now=10)
    assert list(store.task_managers()) == ["tm-b"]
    store.keep({"b"}, now=11)
    assert store.task_managers() == {}, "it did not answer for too long"


class Processes:
    """Responds, or does not; counts the requests."""

    def __init__(self) -> None:
        self.asked = 0
        self.silent: set[str] = set()
        self.known = ["a", "b"]
        self.go = asyncio.Event()
        self.go.set()

    async def all(self) -> list[str]:
        return self.known

    async def ask(self, address: str) -> bytes:
        self.asked += 1
        await self.go.wait()
        if address in self.silent:
            raise UnreachableError("nobody there")
        return encode_groups([manager(address, float(self.asked))])


async def test_processes_are_queried_once_in_an_interval_for_all_callers() -> None:
    clock, processes = ManualClock(), Processes()
    fetcher = MetricFetcher(1.0, processes.all, processes.ask, clock)
    processes.go.clear()
    asking = [asyncio.create_task(fetcher.fresh()) for _ in range(5)]
    await asyncio.sleep(0)
    processes.go.set()
    await asyncio.gather(*asking)
    await fetcher.fresh()
    assert processes.asked == 2, "each of two once"
    clock.advance(1.0)
    await fetcher.fresh()
    assert processes.asked == 4
    await fetcher.close()


async def test_repeated_requests_do_not_wait_for_a_round() -> None:
    processes = Processes()
    fetcher = MetricFetcher(0.05, processes.all, processes.ask, SystemClock())
    await fetcher.fresh()
    await eventually(lambda: processes.asked == 4)  # by itself: it was wanted
    await fetcher.close()


async def test_one_that_does_not_answer_is_left_out_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    clock, processes = ManualClock(), Processes()
    processes.silent.add("b")
    fetcher = MetricFetcher(1.0, processes.all, processes.ask, clock)
    for _ in range(3):
        assert list((await fetcher.fresh()).task_managers()) == ["a"]
        clock.advance(1.0)
    assert caplog.text.count("the process at b does not report its metrics: nobody there") == 1
    processes.known.remove("a")
    assert (await fetcher.fresh()).task_managers() == {}


def test_values_have_flinks_shapes() -> None:
    assert single({"a": 1, "b": 0.25}, None) == [{"id": "a"}, {"id": "b"}]
    assert single({"a": 1, "b": 0.25}, "b,nothing") == [{"id": "b", "value": "0.25"}]
    several = [{"a": 1}, {"a": 3, "b": 2}, {"a": 8}]
    assert aggregated(several, None, []) == [{"id": "a"}, {"id": "b"}]
    (found,) = aggregated(several, "a,nothing", wanted_aggregations(None))
    assert found == {"id": "a", "min": 1.0, "max": 8.0, "avg": 4.0, "sum": 12.0, "skew": pytest.approx(200 / 3)}
    assert aggregated(several, "a", wanted_aggregations("max,sum")) == [{"id": "a", "max": 8.0, "sum": 12.0}]
    assert aggregated([{"a": 0}, {"a": float("nan")}], "a", ["avg", "skew"]) == [{"id": "a", "avg": 0.0, "skew": 0.0}]
    with pytest.raises(RestError, match="'median' is not one of min, max, avg, sum, skew"):
        wanted_aggregations("median")


def test_subtasks_are_given_as_indices_and_ranges() -> None:
    assert wanted_subtasks(None, range(3)) == [0, 1, 2]
    assert wanted_subtasks("0,2-4", range(4)) == [0, 2, 3]
    for wrong in ("", "a", "1-", "-1", "2-x", "1,,2", "9999999"):
        with pytest.raises(RestError, match="neither a subtask nor a range"):
            wanted_subtasks(wrong, range(4))
