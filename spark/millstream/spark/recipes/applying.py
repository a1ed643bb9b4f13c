"""Steps of a recipe, done: each is a call of `SavepointWriter`. Errors name the line of the step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from millstream.datastream.connectors.file_system.monitoring import MonitoringState
from millstream.datastream.connectors.file_system.paths import absolute
from millstream.spark.recipes.steps import Step
from millstream.spark.recipes.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from millstream.spark.savepoint_writer import SavepointWriter


def apply_steps(writer: SavepointWriter, steps: list[Step], tables: Tables) -> None:
    """All steps, in their order."""
    for step in steps:
        with step.node.explained():
            _apply(writer, step, tables)


def _apply(writer: SavepointWriter, step: Step, tables: Tables) -> None:
    given = dict(step.fields)
    uid, state = given.pop("operator", None), given.pop("state", None)
    match step.name:
        case "with_keyed_state" | "with_operator_state" | "with_broadcast_state":
            getattr(writer, step.name)(uid, state, _rows(step, tables), **given)
        case "with_timers":
            writer.with_timers(uid, _rows(step, tables), **given)
        case "with_window_state":
            window = given.pop("start"), given.pop("end")
            name = {} if state is None else {"name": state}
            writer.with_window_state(uid, _rows(step, tables), window=window, **name, **given)
        case "with_source_positions":
            paths = _rows(step, tables).select(given["files_read"]).distinct().collect()
            found = sorted(absolute(cast(str, row[0])) for row in paths)
            writer.with_source_positions(uid, enumerator_state=MonitoringState([], found))
        case "change_operator_identifier":
            writer.change_operator_identifier(uid, given["to"])
        case "rename_state":
            writer.rename_state(uid, state, given["to"])
        case "transform_state":
            writer.transform_state(uid, state, given.pop("sql"), **given)
        case "filter_keys":
            writer.filter_keys(uid, given["where"])
        case "remove_operator":
            writer.remove_operator(uid)
        case "remove_state" | "declare_state" | "compact" as name:
            getattr(writer, name)(uid, state, **given)
        case name:
            raise AssertionError(f"a step {name}, which the recipe's reader does not know")


def _rows(step: Step, tables: Tables) -> DataFrame:
    assert step.rows is not None, "steps that add state have rows"
    found: Any = tables.query(step.rows) if step.rows_are_sql else tables.get(step.rows)
    return cast("DataFrame", found)
