"""Statistics of checkpoints match the schemas that the dispatcher publishes for them."""

from __future__ import annotations

import json

import jsonschema
from checkpoint_driver import CheckpointDriver

from millstream.core.jobs.ids import VertexId
from millstream.dispatcher.rest import snapshot_schemas as schemas
from millstream.dispatcher.rest.schemas import Schema
from millstream.jobmanager.checkpoints.settings import CheckpointSettings
from millstream.jobmanager.checkpoints.statistics import statistics_json


def check(shape: object, schema: Schema) -> None:
    jsonschema.validate(json.loads(json.dumps(shape)), schema)


def test_every_shape_fits_its_schema() -> None:
    unused = CheckpointDriver(CheckpointSettings())
    check(statistics_json.overview(unused.coordinator.statistics, unused.instant), schemas.CHECKPOINTS)
    driver = CheckpointDriver.with_history()
    statistics = driver.coordinator.statistics
    check(statistics_json.overview(statistics, driver.instant), schemas.CHECKPOINTS)
    check(statistics_json.config(driver.settings, "hashmap"), schemas.CHECKPOINT_CONFIG)
    history = statistics.history()
    assert [stats.status.value for stats in history] == ["IN_PROGRESS", "COMPLETED", "FAILED", "COMPLETED"]
    for stats in history:
        check(statistics_json.checkpoint(stats, driver.instant, with_tasks=True), schemas.CHECKPOINT)
        check(statistics_json.subtasks(stats, VertexId("sink"), driver.instant), schemas.CHECKPOINT_SUBTASKS)
