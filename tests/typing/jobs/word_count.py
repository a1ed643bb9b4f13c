"""Lambdas only, and the types of PyFlink's programs."""

from __future__ import annotations

import sys

from millstream.common import Types
from millstream.datastream import RuntimeExecutionMode, StreamExecutionEnvironment


def main(lines: list[str]) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.set_parallelism(1)
    words = env.from_collection(lines, Types.STRING()).flat_map(lambda line: line.split())
    declared = words.map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
    declared.key_by(lambda pair: pair[0], key_type=Types.STRING()).reduce(lambda a, b: (a[0], a[1] + b[1])).print()
    inferred = words.map(lambda word: (word.lower(), 1)).key_by(lambda pair: pair[0])
    inferred.reduce(lambda a, b: (a[0], a[1] + b[1])).filter(lambda pair: pair[1] > 1).print("often")
    inferred.sum(1).map(lambda pair: f"{pair[0]}: {pair[1] + 1}").add_sink(print)
    words.key_by(len).max_by(0).shuffle().rebalance().map(str.upper).name("shout").uid("shout").print()
    env.execute("word count")


if __name__ == "__main__":
    main(sys.argv[1:])
