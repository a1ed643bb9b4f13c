"""The same pipeline on PyFlink: `python pipeline_pyflink.py RECORDS thread|process`."""

from __future__ import annotations

import sys

from pyflink.common.typeinfo import Types
from pyflink_job import LastOfEachKey, ToPair, environment, numbers


def main(records: int, mode: str) -> None:
    env = environment(mode)
    (
        numbers(env, records)
        .map(ToPair(lambda x: (x % 500, x)), output_type=Types.TUPLE([Types.LONG(), Types.LONG()]))
        .key_by(lambda pair: pair[0], key_type=Types.LONG())
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .filter(lambda pair: pair[1] % 2 == 0)
        .flat_map(LastOfEachKey(), output_type=Types.LONG())
        .print()
    )
    env.execute("python pipeline")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
