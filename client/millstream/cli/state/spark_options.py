"""What commands that work on Spark share: their options, and the frame that they work in."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

F = TypeVar("F", bound=Callable[..., Any])


def spark_options(command: F) -> F:
    """`--master` and `--conf`."""
    for option in (
        click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Sets an option of Spark; may be repeated."),
        click.option("--master", metavar="URL", help="The Spark cluster; default as configured, else this host."),
    ):
        command = option(command)
    return command


@contextlib.contextmanager
def spark_work(master: str | None, conf: tuple[str, ...], doing: str, verbose: bool) -> Iterator[SparkSession]:
    """A session, with progress while it is used, and Spark's errors as ours."""
    from millstream.cli.progress import progress_on_terminal
    from millstream.cli.state.spark_session import check_spark, spark_session, spark_settings

    settings = spark_settings(conf)
    check_spark()
    from millstream.cli.state.spark_progress import stages_on_terminal
    from millstream.spark.spark_failures import spark_errors

    with contextlib.ExitStack() as stack:
        with progress_on_terminal(verbose) as show:
            show("starting Spark")
            spark = stack.enter_context(spark_session(master, settings, verbose))
        stack.enter_context(spark_errors())
        stack.enter_context(stages_on_terminal(spark, doing, verbose))
        yield spark
