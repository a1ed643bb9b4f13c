"""Reads CSV, works on columns, writes Parquet: `python examples/csv_to_parquet.py IN.csv OUT_FOLDER`.

Records stay in Arrow record batches throughout. Without arguments, a small file is created and converted.
"""

import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import FileSink, FileSource


def with_total(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Drops empty orders and adds the cost of each order."""
    orders = batch.filter(pc.greater(batch["quantity"], 0))
    return orders.append_column("total", pc.multiply(orders["quantity"], orders["price"]))


def convert(source: Path, target: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    types = {"item": str, "quantity": int, "price": float}
    orders = env.from_source(FileSource.for_csv(source, types=types), None, "Orders")
    orders.map_batches(with_total).name("Total").sink_to(FileSink.for_parquet(target))
    env.execute("CSV to Parquet")


def main(arguments: list[str]) -> None:
    if len(arguments) == 2:
        convert(Path(arguments[0]), Path(arguments[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "orders.csv"), Path(folder, "orders")
        source.write_text("item,quantity,price\nflour,3,1.5\nbran,0,0.8\nrye,2,2.25\n")
        convert(source, target)
        print(pq.read_table(target).to_pylist())


if __name__ == "__main__":
    main(sys.argv[1:])
