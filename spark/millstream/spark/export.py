"""A state of a snapshot to files that other tools read, or to a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def export_state(
    spark: SparkSession, snapshot: str, operator: str, state: str, target: str, form: str, mode: str, sql: str | None
) -> int:
    """Writes the rows of a state, or what SQL makes of them (`{state}` stands for it); how many there are.

    `form` is `parquet`, `csv`, `json` or `table`; `mode` is Spark's: `error`, `overwrite`, `append`.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    from millstream.spark.reading.tables import state_table

    frame = state_table(spark, snapshot, operator, state)
    if sql is not None:
        frame = spark.sql(sql, state=frame)
    counted = Observation()
    frame = frame.observe(counted, f.count(f.lit(1)).alias("rows"))
    writer = (flat(frame) if form == "csv" else frame).write.mode(mode)
    if form == "table":
        writer.saveAsTable(target)
    else:
        quoted = {"header": True, "escape": '"'} if form == "csv" else {}  # as other tools read CSV
        writer.format(form).options(**quoted).save(target)
    return int(counted.get["rows"])


def flat(frame: DataFrame) -> DataFrame:
    """With columns that CSV can hold: what has parts as JSON, bytes as base64."""
    from pyspark.sql import functions as f
    from pyspark.sql import types as s

    def written(field: s.StructField) -> Column:
        column = f.col(f"`{field.name}`")
        match field.dataType:
            case s.StructType() | s.ArrayType() | s.MapType():
                return f.to_json(column).alias(field.name)
            case s.BinaryType():
                return f.base64(column).alias(field.name)
        return column

    return frame.select(*map(written, frame.schema.fields))
