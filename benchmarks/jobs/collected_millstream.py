"""The collected pipeline on Millstream: `python collected_millstream.py RECORDS typed|untyped`."""

from __future__ import annotations

import sys
import time
from typing import Any

from job import environment
from marks import report

from millstream.datastream.connectors.number_sequence import NumberSequenceSource


def main(records: int, kind: str) -> None:
    hint: Any = tuple[int, int] if kind == "typed" else None
    sums = (
        environment()
        .from_source(NumberSequenceSource(0, records - 1))
        .map(lambda x: (x % 500, x), output_type=hint)
        .key_by(lambda pair: pair[0])
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .filter(lambda pair: pair[1] % 500 == 0)
    )
    results: list[Any] = []
    first = last = time.monotonic_ns()
    for result in sums.execute_and_collect("collected pipeline"):
        results.append(result)
        last = time.monotonic_ns()
    report("collected", first=first, last=last, count=len(results), values=dict(results))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
