"""Side outputs: one process function, several streams. Records that do not parse are emitted to a side output."""

from collections.abc import Iterator

from millstream.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment

LINES = ["4", "eight", "15", "16", "", "23", "42"]
REJECTED = OutputTag("rejected", str)


class Parse(ProcessFunction):
    def process_element(self, value: str, ctx: ProcessFunction.Context) -> Iterator[int | tuple[OutputTag, str]]:
        try:
            yield int(value)
        except ValueError:
            yield REJECTED, f"not a number: {value!r}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_collection(LINES, str).process(Parse())
    numbers.map(lambda number: number * 2).print("doubled")
    numbers.get_side_output(REJECTED).print("rejected")
    env.execute("side outputs")


if __name__ == "__main__":
    main()
