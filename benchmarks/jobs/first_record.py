"""The smallest job: one record through a Python function."""

from __future__ import annotations

import time

from marks import report

from millstream.datastream import StreamExecutionEnvironment


def mark(value: int) -> int:
    report("record", moment=time.monotonic_ns(), value=value)
    return value


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([42]).map(mark).print()
    env.execute("first record")
