"""What a job manager says of its checkpoints fits the schemas that the dispatcher publishes for it."""

from __future__ import annotations

import json

import jsonschema
from checkpoint_driver import CheckpointDriver, topology

from millstream.core.jobs.ids import VertexId
from millstream.dispatcher.rest import snapshot_schemas as schemas
from millstream.dispatcher.rest.schemas import Schema
from millstream.jobmanager.checkpoints.failures import CheckpointFailureReason
from millstream.jobmanager.checkpoints.settings import CheckpointSettings
from millstream.jobmanager.checkpoints.statistics import statistics_json


def check(shape: object, schema: Schema) -> None:
    jsonschema.validate(json.loads(json.dumps(shape)), schema)


def test_every_shape_fits_its_schema() -> None:
    settings = CheckpointSettings(interval_ms=1000, tolerable_failures=100)
    driver = CheckpointDriver(settings, topology(source=1, sink=2))
    statistics = driver.coordinator.statistics
    check(statistics_json.overview(statistics, driver.instant), schemas.CHECKPOINTS)
    driver.run_all()
    driver.pass_time(1000)
    driver.complete(1)
    driver.pass_time(1000)
    driver.decline(2, driver.attempt("sink", 1), CheckpointFailureReason.CHECKPOINT_DECLINED)
    driver.savepoint("t1")
    driver.complete(3)
    driver.pass_time(1000)
    driver.ack(4, driver.attempt("sink", 1))
    check(statistics_json.overview(statistics, driver.instant), schemas.CHECKPOINTS)
    check(statistics_json.config(settings, "hashmap"), schemas.CHECKPOINT_CONFIG)
    history = statistics.history()
    assert [stats.status.value for stats in history] == ["IN_PROGRESS", "COMPLETED", "FAILED", "COMPLETED"]
    for stats in history:
        check(statistics_json.checkpoint(stats, driver.instant, with_tasks=True), schemas.CHECKPOINT)
        check(statistics_json.subtasks(stats, VertexId("sink"), driver.instant), schemas.CHECKPOINT_SUBTASKS)
