"""The Spark session of a command: started for it, quiet, and stopped with it.

What Spark and its JVM log goes to a file that is deleted at the end, or to stderr with -v: errors stay one line.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from millstream.core.errors import MillstreamError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_QUIET = {"spark.ui.showConsoleProgress": "false", "spark.ui.enabled": "false"}
_PARTS = "spark.sql.shuffle.partitions"


class SparkUnavailableError(MillstreamError):
    """Spark is not installed, or cannot be started."""


def spark_settings(conf: tuple[str, ...]) -> dict[str, str]:
    """What `--conf` sets."""
    settings = {}
    for given in conf:
        key, equals, value = given.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"--conf {key.strip() or given}: write it as --conf key=value")
        settings[key.strip()] = value.strip()
    return settings


@contextlib.contextmanager
def spark_session(master: str | None, settings: dict[str, str], verbose: bool) -> Iterator[SparkSession]:
    """A session to work with; one that this process has already is used as it is, and left running."""
    check_spark()
    from pyspark.sql import SparkSession

    with contextlib.ExitStack() as stack:
        if not verbose:
            stack.enter_context(_quiet_python())
        active = SparkSession.getActiveSession()
        yield active if active is not None else stack.enter_context(_new_session(master, settings, verbose))


@contextlib.contextmanager
def _new_session(master: str | None, settings: dict[str, str], verbose: bool) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("millstream state")
    if master is not None:
        builder = builder.master(master)
    for key, value in {**_QUIET, **settings}.items():
        builder = builder.config(key, value)
    if master is None or master.startswith("local"):  # the workers are on this host, and need what is installed here
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="millstream-spark-"))
        log = None if verbose else Path(folder, "log")
        spark = _started(builder, log)
        stack.callback(spark.stop)
        _fit_to_host(spark)
        yield spark


def _fit_to_host(spark: SparkSession) -> None:
    """On one host, unless it is configured, no 200 parts: most are empty, and half of a small bootstrap's time."""
    context = spark.sparkContext
    if context.master.startswith("local[") and not context.getConf().contains(_PARTS):
        spark.conf.set(_PARTS, 2 * context.defaultParallelism)


@contextlib.contextmanager
def _quiet_python() -> Iterator[None]:
    """Without warnings, and without the errors that PySpark logs as well as raises."""
    from pyspark.logger import PySparkLogger

    logging = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in logging]
    try:
        for logger in logging:
            logger.disabled = True
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        for logger, disabled in zip(logging, before, strict=True):
            logger.disabled = disabled


def check_spark() -> None:
    """Raises when PySpark or Java is not there."""
    if importlib.util.find_spec("pyspark") is None:
        raise SparkUnavailableError("this needs Spark, which is not installed: pip install 'millstream[spark]'")
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=f"{home}/bin" if home else None) is None:
        where = f"there is none in JAVA_HOME, {home}" if home else "there is none on the path, and JAVA_HOME is not set"
        raise SparkUnavailableError(f"Spark needs Java 17 or later, and {where}")


def _started(builder: Any, log: Path | None) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        with contextlib.nullcontext() if log is None else _errors_to(log):
            session: SparkSession = builder.getOrCreate()
            return session
    except (PySparkException, Py4JError, OSError) as error:
        from millstream.spark.spark_failures import cause_of

        exited = isinstance(error, PySparkException) and error.getCondition() == "JAVA_GATEWAY_EXITED"
        reason = (exited and _last_words(log)) or cause_of(str(error))
        raise SparkUnavailableError(f"Spark does not start: {reason:.500}") from error


def _last_words(log: Path | None) -> str:
    """The error in the log of a JVM that has ended."""
    lines = [] if log is None or not log.exists() else log.read_text(errors="replace").splitlines()
    errors = [line for line in lines if "Error" in line or "Exception" in line] or lines[-1:]
    return errors[0].strip() if errors else ""


@contextlib.contextmanager
def _errors_to(log: Path) -> Iterator[None]:
    """Standard error of the processes that are started within goes to a file, until they end."""
    sys.stderr.flush()
    before = os.dup(2)
    try:
        with log.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
