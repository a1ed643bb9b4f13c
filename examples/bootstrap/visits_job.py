"""What each user has bought, visit by visit: `millstream run examples/bootstrap/visits_job.py VISITS TOTALS`.

Reads the Parquet files of a folder and those added later, and writes a line for each visit: the user's visits and cents
so far, and how often the page was visited. With `--to-the-end` it ends when it has read the existing files.
"""

import argparse
from collections.abc import Iterator

from millstream.common import Duration, Row, Types
from millstream.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import FileSink, FileSource, RollingPolicy


class Totals(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state("total", tuple[int, int])
        self.pages = runtime_context.get_map_state("pages", str, int)

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        visits, cents = self.total.value() or (0, 0)
        self.total.update((visits + 1, cents + value["cents"]))
        seen = (self.pages.get(value["page"]) or 0) + 1
        self.pages.put(value["page"], seen)
        yield Row(user=value["user"], visits=visits + 1, cents=cents + value["cents"], page=value["page"], seen=seen)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("visits")
    parser.add_argument("totals")
    parser.add_argument("--to-the-end", action="store_true")
    arguments = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(500)
    files = FileSource.for_parquet(arguments.visits)
    if not arguments.to_the_end:
        files = files.monitor_continuously(Duration.of_millis(200))
    visits = env.from_source(files, None, "Visits").uid("visits")
    line = Types.ROW_NAMED(
        ["user", "visits", "cents", "page", "seen"],
        [Types.STRING(), Types.LONG(), Types.LONG(), Types.STRING(), Types.LONG()],
    )
    totals = visits.key_by(lambda visit: visit["user"], key_type=str).process(Totals(), output_type=line).uid("totals")
    lines = FileSink.for_json_lines(arguments.totals).with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    totals.sink_to(lines).uid("lines")
    env.execute("visits")


if __name__ == "__main__":
    main()
