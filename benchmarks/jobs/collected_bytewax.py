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

    def __init__(self, results: list[tuple[str, int]]) -> None:
        self._results = results

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Kept:
        return self

    def write_batch(self, items: list[tuple[str, int]]) -> None:
        self._results += items


def main(records: int, index: int, addresses: list[str]) -> None:
    results: list[tuple[str, int]] = []
    flow = Dataflow("collected_pipeline")
    numbers = op.input("numbers", flow, Numbers(records))
    pairs = op.map("pair", numbers, lambda x: (str(x % 500), x))
    sums = op.stateful_map("sum", pairs, add)
    op.output("kept", op.filter("multiples", sums, lambda pair: pair[1] % 500 == 0), Kept(results))
    first = time.monotonic_ns()
    cluster_main(flow, addresses, index)
    last = time.monotonic_ns()
    report("collected", first=first, last=last, count=len(results), values=dict(results))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
