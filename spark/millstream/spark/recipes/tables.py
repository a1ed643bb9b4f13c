"""The tables of a recipe: files, SQL over earlier tables, tables that Spark knows, and states of snapshots.

They are views of Spark's under their names while the recipe is read, so that SQL finds them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from millstream.core.snapshot.metadata.model import absolute_location
from millstream.spark.recipes.document import RecipeNode, did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FORMS = ("path", "sql", "table", "state")


class Table(Struct, frozen=True):
    """A named DataFrame: `form` names the field that it is made from."""

    name: str
    form: str
    fields: dict[str, Any]
    node: RecipeNode


def tables_of(node: RecipeNode) -> list[Table]:
    """The section `tables`, in its order."""
    return [_table(name, entry) for name, entry in node.entries().items()]


def _table(name: str, node: RecipeNode) -> Table:
    if not name.isidentifier():
        raise node.error("is no name of a table: it has letters, digits and _ only")
    found = node.fields(optional=(*_FORMS, "format", "schema", "options", "operator", "snapshot"))
    forms = [form for form in _FORMS if form in found]
    if len(forms) != 1:
        has = f", and has {' and '.join(forms)}" if forms else ""
        raise node.error(f"needs one of {', '.join(_FORMS)}{has}")
    match forms[0]:
        case "path":
            given = node.fields("path", "format", optional=("schema", "options"))
            options = given["options"].entries() if "options" in given else {}
            fields = {
                "path": given["path"].texts(), "format": given["format"].text(),
                "schema": given["schema"].text() if "schema" in given else None,
                "options": {key: value.text() for key, value in options.items()},
            }  # fmt: skip
        case "state":
            given = node.fields("operator", "state", optional=("snapshot",))
            fields = {key: value.text() for key, value in given.items()}
        case form:
            fields = {form: node.fields(form)[form].text()}
    return Table(name, forms[0], fields, node)


def _from_here(path: str) -> str:
    """A relative path is one from this process's folder; any other means what it means to Spark."""
    return path if os.path.isabs(path) or ":" in path.partition("/")[0] else f"file://{os.path.abspath(path)}"


class Tables:
    """The tables of a recipe as DataFrames."""

    def __init__(self, spark: SparkSession, snapshot: str | None) -> None:
        self._spark, self._snapshot = spark, snapshot
        self._frames: dict[str, DataFrame] = {}

    @contextlib.contextmanager
    def defined(self, tables: list[Table]) -> Iterator[None]:
        """With the tables as views of Spark's."""
        try:
            for table in tables:
                with table.node.explained():
                    frame = self._frames[table.name] = self._loaded(table)
                    frame.createOrReplaceTempView(table.name)
            yield
        finally:
            for name in self._frames:
                self._spark.catalog.dropTempView(name)

    def get(self, node: RecipeNode) -> DataFrame:
        """The table that a step names."""
        name = node.text()
        if name not in self._frames:
            known = did_you_mean(name, self._frames) if self._frames else ": the recipe has none"
            raise node.error(f"names the table '{name}', which is not there{known}")
        return self._frames[name]

    def query(self, node: RecipeNode) -> DataFrame:
        """The result of the SQL in a step."""
        return self._spark.sql(node.text())

    def _loaded(self, table: Table) -> DataFrame:
        match table.form, table.fields:
            case "path", {"path": paths, "format": format, "schema": schema, "options": options}:
                reader = self._spark.read.format(format).options(**options)
                return (reader.schema(schema) if schema else reader).load([_from_here(path) for path in paths])
            case "sql", {"sql": query}:
                return self._spark.sql(query)
            case "table", {"table": name}:
                return self._spark.table(name)
        from millstream.spark.reading.tables import state_table

        snapshot = table.fields.get("snapshot", self._snapshot)
        if snapshot is None:
            raise table.node.error("needs 'snapshot': a savepoint or checkpoint that has the state")
        return state_table(
            self._spark, absolute_location(snapshot), table.fields["operator"], table.fields["state"]
        )
