from __future__ import annotations

import json
from typing import Any

from checkpoint_driver import CheckpointDriver
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.jobs.ids import VertexId
from millstream.jobmanager.checkpoints.model import CheckpointId
from millstream.jobmanager.checkpoints.settings import CheckpointSettings, Retention
from millstream.jobmanager.checkpoints.statistics import statistics_json
from millstream.jobmanager.checkpoints.statistics.statistics import Distribution


def detailed(driver: CheckpointDriver, checkpoint_id: int) -> tuple[Any, Any]:
    """A checkpoint and its subtasks of the sink, as JSON."""
    stats = driver.coordinator.statistics.details(CheckpointId(checkpoint_id))
    shape = statistics_json.checkpoint(stats, driver.instant, with_tasks=True)
    subtasks = statistics_json.subtasks(stats, VertexId("sink"), driver.instant)
    return json.loads(json.dumps(shape)), json.loads(json.dumps(subtasks))


def test_the_overview() -> None:
    driver = CheckpointDriver.with_history()
    shape = json.loads(json.dumps(statistics_json.overview(driver.coordinator.statistics, driver.instant)))
    assert shape["counts"] == {"restored": 0, "total": 4, "in_progress": 1, "completed": 2, "failed": 1}
    statuses = [(c["id"], c["status"]) for c in shape["history"]]
    assert statuses == [(4, "IN_PROGRESS"), (3, "COMPLETED"), (2, "FAILED"), (1, "COMPLETED")]
    assert shape["latest"]["completed"]["id"] == 1
    assert shape["latest"]["savepoint"]["checkpoint_type"] == "SAVEPOINT"
    assert shape["latest"]["restored"] is None
    failed = shape["latest"]["failed"]
    assert failed["failure_message"] == "a task declined the checkpoint: no space left"
    assert shape["summary"]["checkpointed_size"]["max"] == 30
    assert shape["summary"]["end_to_end_duration"]["max"] == 40


def test_the_details_of_a_checkpoint() -> None:
    driver = CheckpointDriver.with_history()
    shape, subtasks = detailed(driver, 4)
    assert shape["num_subtasks"] == 3
    assert shape["num_acknowledged_subtasks"] == 1
    assert shape["tasks"]["source"]["num_acknowledged_subtasks"] == 0
    assert shape["tasks"]["source"]["latest_ack_timestamp"] == -1
    assert shape["tasks"]["sink"]["checkpointed_size"] == 10
    assert [s["status"] for s in subtasks["subtasks"]] == ["pending_or_failed", "completed"]
    assert subtasks["subtasks"][1]["checkpoint"] == {"sync": 2, "async": 5}
    assert subtasks["summary"]["state_size"]["avg"] == 20


def test_finished_subtasks_count_as_acknowledged() -> None:
    driver = CheckpointDriver.with_history()
    driver.complete(4)
    driver.finish(driver.attempt("source", 0))
    driver.pass_time(1000)
    driver.finish(driver.attempt("sink", 0))
    driver.now += 10
    driver.complete(5)
    shape, subtasks = detailed(driver, 5)
    assert (shape["num_acknowledged_subtasks"], shape["num_subtasks"]) == (3, 3)
    assert shape["tasks"]["source"]["end_to_end_duration"] == 0, "it had finished before"
    assert [s["status"] for s in subtasks["subtasks"]] == ["completed", "completed"]
    assert [s["checkpointed_size"] for s in subtasks["subtasks"]] == [0, 10]


def test_the_history_is_bounded_but_the_latest_stay() -> None:
    driver = CheckpointDriver.with_history()
    driver.complete(4)
    for _ in range(30):
        driver.pass_time(1000)
        driver.complete(driver.started[-1])
    statistics = driver.coordinator.statistics
    assert len(statistics.history()) == 10
    overview = json.loads(json.dumps(statistics_json.overview(statistics, driver.instant)))
    (savepoint,) = overview["savepoints"]
    assert all(entry["id"] != savepoint["id"] for entry in overview["history"])
    latest = statistics_json.checkpoint(statistics.latest_savepoint, driver.instant)
    assert savepoint == {name: latest[name] for name in savepoint}
    assert (savepoint["id"], savepoint["checkpoint_type"]) == (3, "SAVEPOINT")
    assert statistics.details(CheckpointId(1)) is None
    assert statistics.details(CheckpointId(2)) is statistics.latest_failed
    assert statistics.details(CheckpointId(3)) is statistics.latest_savepoint


def test_the_configuration() -> None:
    shape = statistics_json.config(
        CheckpointSettings(interval_ms=1000, retention=Retention.RETAIN_ON_CANCELLATION), "hashmap"
    )
    assert shape["mode"] == "exactly_once"
    assert shape["externalization"] == {"enabled": True, "delete_on_cancellation": False}
    assert shape["checkpoint_storage"] == "jobmanager"


@given(values=st.lists(st.integers(0, 10**9), max_size=50))
def test_distributions_are_ordered(values: list[int]) -> None:
    d = Distribution.of(values)
    assert d.min <= d.p50 <= d.p90 <= d.p95 <= d.p99 <= d.p999 <= d.max
    assert d.min <= d.avg <= d.max
    assert Distribution.of(reversed(values)) == d


def test_percentiles_interpolate() -> None:
    d = Distribution.of(range(1, 101))
    assert (d.min, d.max, d.avg, d.p50, d.p90) == (1, 100, 50, 50.5, 90.9)
    assert Distribution.of(range(0, 70, 7)).p90 == 62.3, "and not 62.300000000000004"


def test_a_checkpoint_in_memory_has_no_address() -> None:
    driver = CheckpointDriver.with_history()
    stats = driver.coordinator.statistics.details(CheckpointId(1))
    assert statistics_json.checkpoint(stats, driver.instant)["external_path"] == "file:///chk-1"
    stats.external_path = "memory://job/chk-1"
    shape = statistics_json.checkpoint(stats, driver.instant)
    assert shape["external_path"] == "<checkpoint-not-externally-addressable>"
