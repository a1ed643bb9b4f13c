"""The declared types of state as types of Spark, and columns from one to the other."""

from millstream.spark.types.columns import to_spark, to_stored
from millstream.spark.types.schemas import arrow_type_of, common_type, fits, spark_type, type_information

__all__ = ["arrow_type_of", "common_type", "fits", "spark_type", "to_spark", "to_stored", "type_information"]
