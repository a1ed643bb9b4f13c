"""Word count: `python examples/word_count.py`, or on a cluster, `millstream run examples/word_count.py`.

A keyed `sum` emits a new total for every record, so the last line for a word is its count.
"""

from collections.abc import Iterator

from millstream.datastream import StreamExecutionEnvironment

LINES = ["the mill turns the stone", "the stream turns the mill", "the stone grinds the grain"]


def words(line: str) -> Iterator[tuple[str, int]]:
    for word in line.split():
        yield word, 1


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    lines = env.from_collection(LINES, str)
    lines.flat_map(words).key_by(lambda pair: pair[0]).sum(1).print()
    env.execute("word count")


if __name__ == "__main__":
    main()
