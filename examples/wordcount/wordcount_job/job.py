"""Counts the words of generated lines: "mill" and "mills" are one word, thanks to a dependency of this wheel.

Every change of a count is written to a folder of JSON lines, as `["mill", 17]`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import inflection

from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource
from millstream.datastream.connectors.file_system import FileSink, RollingPolicy

from .words import line


def words(text: str) -> Iterator[tuple[str, int]]:
    for word in text.split():
        yield inflection.singularize(word), 1


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="wordcount")
    parser.add_argument("--output", required=True, help="the folder to write to; every host must be able to reach it")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--rate", type=float, help="lines a second; as fast as possible when not given")
    options = parser.parse_args(arguments)

    env = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(line, options.lines, options.rate, type_info=str)
    sink = FileSink.for_json_lines(options.output).with_rolling_policy(
        RollingPolicy.default_rolling_policy(part_size=256 * 1024, rollover_interval=1000)
    )
    counts = env.from_source(source, None, "Lines").flat_map(words).name("Words").key_by(lambda pair: pair[0]).sum(1)
    counts.name("Count").sink_to(sink).name("JSON lines")
    env.execute("word count")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
