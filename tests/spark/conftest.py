"""One Spark for all tests of a worker: starting a JVM takes seconds."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

LOOPBACK = "127.0.0.1"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session with two cores in this process, in a time zone that differs from the machine's."""
    yield from started_spark("local[2]", tmp_path_factory.mktemp("spark"))


def started_spark(master: str, folder: Path, **settings: str) -> Iterator[Any]:
    """A session, and the JVM that it runs in: both are stopped afterwards. One at a time in a process."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP=LOOPBACK)
    interrupt = signal.getsignal(signal.SIGINT)
    options = {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "America/New_York",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    builder = SparkSession.builder.master(master).appName("tests")
    for name, value in options.items():
        builder = builder.config(name, value)
    session = None
    try:
        session = builder.getOrCreate()
        signal.signal(signal.SIGINT, interrupt)  # Spark's own handler would cancel jobs of other tests' processes
        yield session
    finally:
        if session is not None:
            session.stop()
        gateway = SparkContext._gateway
        if gateway is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(30)
            SparkContext._gateway = SparkContext._jvm = None
