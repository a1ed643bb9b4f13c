"""Submits so many nearly idle jobs of so many tasks: `rest_load_job.py JOBS TASKS`."""

from __future__ import annotations

import sys

from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource

RATE = 1.0  # records a second, in each task


def main() -> None:
    jobs, tasks = int(sys.argv[1]), int(sys.argv[2])
    for number in range(jobs):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.disable_operator_chaining()
        stream = env.from_source(DataGeneratorSource(int, rate_per_second=RATE), None, "numbers")
        for _ in range(tasks - 3):
            stream = stream.map(abs)
        stream.filter(lambda _: False).print()
        env.execute(f"load {number}")


if __name__ == "__main__":
    main()
