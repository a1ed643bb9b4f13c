"""How a savepoint is written by Spark: rows to state files in tasks, and the metadata by the driver, last."""
