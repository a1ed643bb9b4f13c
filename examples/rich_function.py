"""A rich function: resources that are opened once in each subtask, a metric, and accumulators in the job's result."""

import json
import tempfile
from pathlib import Path

from millstream.datastream import Histogram, IntCounter, MapFunction, RuntimeContext, StreamExecutionEnvironment

PRICES = {"flour": 1.5, "rye": 2.25, "oats": 1.1}
ORDERS = [("flour", 3), ("rye", 2), ("spelt", 1), ("oats", 3), ("flour", 1)]


class Priced(MapFunction):
    """Looks prices up in a file; `open` reads it, and `close` is called on every end of the task."""

    def __init__(self, prices: str) -> None:
        self.path = prices

    def open(self, runtime_context: RuntimeContext) -> None:
        self.prices = json.loads(Path(self.path).read_text())
        self.unknown = runtime_context.get_metrics_group().counter("unknownItems")
        self.sold = IntCounter()
        self.quantities = Histogram()
        runtime_context.add_accumulator("sold", self.sold)
        runtime_context.add_accumulator("quantities", self.quantities)

    def map(self, value: tuple[str, int]) -> tuple[str, float]:
        item, quantity = value
        if item not in self.prices:
            self.unknown.inc()
        self.sold.add(quantity)
        self.quantities.add(quantity)
        return item, quantity * self.prices.get(item, 0.0)

    def close(self) -> None:
        self.prices = {}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        prices = Path(folder, "prices.json")
        prices.write_text(json.dumps(PRICES))
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(2)
        env.from_collection(ORDERS).map(Priced(str(prices))).name("Priced").print()
        result = env.execute("orders")
    print("sold:", result.get_accumulator_result("sold"))
    print("quantities:", result.get_accumulator_result("quantities"))
    print("unknown items:", result.get_accumulator_result("Priced.unknownItems"))


if __name__ == "__main__":
    main()
