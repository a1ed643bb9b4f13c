"""The place of PyFlink's Table API, which Millstream does not have: importing it raises an error that says so."""

raise ModuleNotFoundError(
    "millstream.table: this version has no Table API and no SQL, only the DataStream API (millstream.datastream). For "
    "aggregations over columns use stream.key_by(...).window(...).aggregate(count(), sum('amount')) with "
    "millstream.datastream.aggregates, and for functions over columns stream.map_batches(...)",
    name=__name__,
)
