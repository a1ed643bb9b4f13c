"""A program of its own: a cluster with executors on two hosts, where Spark runs a slow task twice while it writes.

Spark starts no second attempt on the same host, and none in its local modes; so the workers of this cluster are at two
addresses of the loopback. The function waits at one key until another attempt processes the key too, and at its end
until the other has arrived as well: then both write at the same time.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from conftest import LOOPBACK, started_spark

from millstream.spark import KeyedStateBootstrapFunction, SavepointWriter

KEYS, SLOW, DEADLINE = 200, 7, 90
SPECULATION = {
    "spark_speculation": "true", "spark_speculation_interval": "50ms", "spark_speculation_multiplier": "1",
    "spark_speculation_quantile": "0.1", "spark_speculation_minTaskRuntime": "0ms",
}  # fmt: skip


def main(target: str, folder: str) -> None:
    marks = Path(folder, "marks")
    marks.mkdir()
    for spark in started_spark(cluster(Path(folder)), Path(folder), spark_executor_memory="512m", **SPECULATION):
        writer = SavepointWriter.new_savepoint(spark, 64)
        writer.with_keyed_function("op", spark.range(KEYS), "id", slow_function(marks))
        writer.write(target, partitions=4)
        print("FOUND", json.dumps(sorted(path.name.split("-")[0] for path in marks.iterdir())), flush=True)


def slow_function(marks: Path) -> KeyedStateBootstrapFunction:
    """A function of a class that is pickled by value."""

    def both(marks: Path, what: str) -> None:
        (marks / f"{what}-{os.getpid()}").touch()
        until = time.monotonic() + DEADLINE
        while len(list(marks.glob(f"{what}-*"))) < 2 and time.monotonic() < until:
            time.sleep(0.01)  # a task has nothing else to wait on

    class Slow(KeyedStateBootstrapFunction):
        def open(self, runtime_context: Any) -> None:
            self.twice = runtime_context.get_state("twice", int)
            self.slow = False

        def process_element(self, value: Any, ctx: Any) -> None:
            self.twice.update(value.id * 2)
            if value.id != SLOW:
                return
            self.slow = True
            both(marks, "seen")

        def close(self) -> None:
            if self.slow:
                both(marks, "done")

    return Slow()


def cluster(folder: Path) -> str:
    """Starts a master and two workers in the JVM of the driver; returns the master's address."""
    from pyspark import SparkConf, SparkContext

    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP=LOOPBACK)
    SparkContext._ensure_initialized(conf=SparkConf().set("spark.log.level", "ERROR"))
    jvm: Any = SparkContext._jvm
    deploy, none = jvm.org.apache.spark.deploy, jvm.scala.Option.apply(None)
    conf = jvm.org.apache.spark.SparkConf(False)
    master = deploy.master.Master.startRpcEnvAndEndpoint(LOOPBACK, 0, 0, conf)._1().address().toSparkURL()
    masters = SparkContext._gateway.new_array(jvm.String, 1)
    masters[0] = master
    for number, host in enumerate((LOOPBACK, "127.0.0.2")):
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            host, 0, 0, 1, 1024, masters, str(folder / f"work-{number}"), none, conf, none
        )
    return str(master)


if __name__ == "__main__":
    main(*sys.argv[1:])
