"""Windows over columns: partial aggregates of each key, kept as Arrow tables."""
