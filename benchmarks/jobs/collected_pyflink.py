"""The collected pipeline on PyFlink: `python collected_pyflink.py RECORDS thread|process`."""

from __future__ import annotations

import sys
import time
from typing import Any

from marks import report
from pyflink.common.typeinfo import Types
from pyflink_job import ToPair, environment, numbers


def main(records: int, mode: str) -> None:
    sums = (
        numbers(environment(mode), records)
        .map(ToPair(lambda x: (x % 500, x)), output_type=Types.TUPLE([Types.LONG(), Types.LONG()]))
        .key_by(lambda pair: pair[0], key_type=Types.LONG())
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .filter(lambda pair: pair[1] % 500 == 0)
    )
    results: list[Any] = []
    first = last = time.monotonic_ns()
    with sums.execute_and_collect("collected pipeline") as collected:
        for result in collected:
            results.append(result)
            last = time.monotonic_ns()
    report("collected", first=first, last=last, count=len(results), values=dict(results))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
