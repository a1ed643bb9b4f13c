"""The collected pipeline on Bytewax, a process of two: `python collected_bytewax.py RECORDS INDEX ADDRESS ADDRESS`."""

from __future__ import annotations

import sys
import time

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import cluster_main
from marks import report
from pipeline_bytewax import Numbers, add


class Kept(DynamicSink[tuple[str, int]], StatelessSinkPartition[tuple[str, int]]):
    """Keeps the results of its process in a list."""

    def __init__(self) -> None:
        self.results: list[tuple[str, int]] = []
        self.last = 0

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Kept:
        return self

    def write_batch(self, items: list[tuple[str, int]]) -> None:
        self.results += items
        self.last = time.monotonic_ns()


def main(records: int, index: int, addresses: list[str]) -> None:
    kept = Kept()
    flow = Dataflow("collected_pipeline")
    numbers = op.input("numbers", flow, Numbers(records))
    pairs = op.map("pair", numbers, lambda x: (str(x % 500), x))
    sums = op.stateful_map("sum", pairs, add)
    op.output("kept", op.filter("multiples", sums, lambda pair: pair[1] % 500 == 0), kept)
    first = time.monotonic_ns()
    cluster_main(flow, addresses, index)
    report("collected", first=first, last=kept.last, count=len(kept.results), values=dict(kept.results))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
