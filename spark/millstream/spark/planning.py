"""DataFrames that Spark plans apart from what is made of them. By PySpark's own means: its API has none for that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType


def planned(frame: DataFrame, settings: Mapping[str, str] | None = None) -> DataFrame:
    """The same rows, planned now: for what is made of them, Spark knows nothing of where they come from.

    What comes before a shuffle is run now as well, and with these settings, which are none of the session's.
    """
    from pyspark.sql import DataFrame

    spark = frame.sparkSession
    made = frame.select("*")._jdf  # noqa: SLF001  # of a range itself, an RDD has no rows
    if settings:
        session = spark._jsparkSession.cloneSession()  # noqa: SLF001
        for name, value in {"spark.sql.adaptive.enabled": "true", **settings}.items():
            session.conf().set(name, value)
        datasets = spark._jvm.org.apache.spark.sql.classic.Dataset  # noqa: SLF001
        made = datasets.ofRows(session, made.queryExecution().analyzed())
    return DataFrame(spark._jsparkSession.createDataFrame(made.toJavaRDD(), made.schema()), spark)  # noqa: SLF001


def is_of_one_size(kind: DataType) -> bool:
    """Whether all values take the same space."""
    from pyspark.sql import types as s

    if isinstance(kind, s.StructType):
        return all(is_of_one_size(field.dataType) for field in kind.fields)
    return isinstance(kind, s.NumericType | s.BooleanType | s.DateType | s.TimestampType | s.TimestampNTZType)
