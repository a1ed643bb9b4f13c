"""Inference over batches: a model that works on whole arrays gets whole Arrow record batches, not single records.

The model here is a logistic regression with fixed weights in NumPy; any library that takes arrays fits in its place.
It is loaded once in each subtask, in `open`.
"""

import numpy as np
import pyarrow as pa

from millstream.datastream import Function, RuntimeContext, StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import ColumnDataGeneratorSource


def measurements(start: int, count: int) -> pa.RecordBatch:
    """Rows `start` to `start + count` of an endless table of measurements."""
    index = np.arange(start, start + count)
    return pa.RecordBatch.from_pydict(
        {"id": index, "temperature": 20 + index % 30, "pressure": 1000 + index * 7 % 40, "noise": index * 13 % 11 / 10}
    )


class Model(Function):
    """Adds the probability that a machine fails, and keeps only the likely ones."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.weights = np.array([0.25, 0.02, 1.5])
        self.bias = -29.0

    def map_batches(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        features = np.column_stack([batch[name].to_numpy() for name in ("temperature", "pressure", "noise")])
        probability = 1 / (1 + np.exp(-(features @ self.weights + self.bias)))
        scored = batch.select(["id"]).append_column("probability", pa.array(probability))
        return scored.filter(pa.array(probability > 0.95))


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    source = ColumnDataGeneratorSource(measurements, count=200_000)
    likely = env.from_source(source, None, "Measurements").map_batches(Model()).name("Model")
    with likely.execute_and_collect("inference") as results:
        rows = list(results)
    first = min(rows, key=lambda row: row.id)
    print(f"{len(rows)} of 200000 measurements are above 0.95; the first is {first}")


if __name__ == "__main__":
    main()
