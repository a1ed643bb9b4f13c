"""`millstream state bootstrap`, `rewrite` and `export`: data at rest to savepoints and back, on Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

from millstream.cli.failures import Command
from millstream.cli.options import absolute_location, verbose_option
from millstream.cli.state.spark_options import spark_options, spark_work

F = TypeVar("F", bound=Callable[..., Any])
_RECIPE = "A recipe is a .yaml file, or a .py file with a function `recipe`: see docs/spark.md."


def _options(command: F) -> F:
    """What all of them take. `--spark` may be written as with `diff`: none of them works without it."""
    command = click.option("--json", "as_json", is_flag=True, help="Prints JSON.")(command)
    command = spark_options(command)
    command = click.option("--spark", is_flag=True, hidden=True, expose_value=False)(command)
    return verbose_option(command)


def _job_option(command: F) -> F:
    text = "A wheel or program: what it cannot start from is not kept."
    return click.option("--job", metavar="JOB", help=text)(command)


@click.command(cls=Command, epilog=_RECIPE)
@_options
@_job_option
@click.argument("recipe")
@click.argument("savepoint")
def bootstrap(
    verbose: bool, master: str | None, conf: tuple[str, ...], as_json: bool, job: str | None, recipe: str,
    savepoint: str,
) -> int:  # fmt: skip
    """Make a savepoint of data at rest. SAVEPOINT is a new folder."""
    return _write(recipe, None, savepoint, job, (master, conf, verbose), as_json)


@click.command(cls=Command, epilog=_RECIPE)
@_options
@_job_option
@click.argument("recipe")
@click.argument("snapshot")
@click.argument("savepoint")
def rewrite(
    verbose: bool, master: str | None, conf: tuple[str, ...], as_json: bool, job: str | None, recipe: str,
    snapshot: str, savepoint: str,
) -> int:  # fmt: skip
    """Make a savepoint of another one, or of a checkpoint, and changes to it. SNAPSHOT is only read."""
    return _write(recipe, absolute_location(snapshot), savepoint, job, (master, conf, verbose), as_json)


def _write(
    recipe: str, snapshot: str | None, savepoint: str, job: str | None,
    session: tuple[str | None, tuple[str, ...], bool], as_json: bool,
) -> int:  # fmt: skip
    from millstream.cli.state.listing import print_listing
    from millstream.cli.state.spark_session import check_spark
    from millstream.core.snapshot.inspection.listing_json import listing_json
    from millstream.core.snapshot.inspection.opened import open_snapshot

    target = absolute_location(savepoint)
    check_spark()
    from millstream.spark.recipes.recipe import load_recipe

    loaded = load_recipe(recipe, snapshot)  # what is wrong with it is known before a JVM is started
    if snapshot is not None:
        open_snapshot(snapshot)
    master, conf, verbose = session
    with spark_work(master, conf, "writing the savepoint", verbose) as spark:
        loaded.writer(spark).write(target, job=job, **loaded.write_options())
    written = open_snapshot(target)
    if as_json:
        click.echo(json.dumps(listing_json(written), indent=2))
    else:
        click.echo(f"Savepoint written. Path: {written.location}\n")
        print_listing(written)
    return 0


@click.command(cls=Command)
@_options
@click.option(
    "--format", "form", type=click.Choice(["parquet", "csv", "json", "table"]), default="parquet", show_default=True,
    help="What TARGET is: a folder of such files, or a table of Spark's catalog.",
)  # fmt: skip
@click.option(
    "--mode", type=click.Choice(["error", "overwrite", "append"]), default="error", show_default=True,
    help="What to do when TARGET is there.",
)  # fmt: skip
@click.option("--sql", metavar="QUERY", help="What is exported of it: SQL in which {state} stands for the state.")
@click.argument("snapshot")
@click.argument("operator")
@click.argument("state")
@click.argument("target")
def export(
    verbose: bool, master: str | None, conf: tuple[str, ...], as_json: bool, form: str, mode: str, sql: str | None,
    snapshot: str, operator: str, state: str, target: str,
) -> int:  # fmt: skip
    """Write a state of a snapshot as Parquet, CSV, JSON or a table. OPERATOR is a uid, an id, or a name.

    Pickled values are written as bytes. In CSV, values with parts are JSON, and bytes are base64.
    """
    from millstream.cli.state.spark_session import check_spark
    from millstream.core.snapshot.inspection.opened import open_snapshot

    pointer = absolute_location(snapshot)
    opened = open_snapshot(pointer)
    opened.state(opened.operator(operator), state)
    place = target if form == "table" else absolute_location(target)
    check_spark()
    with spark_work(master, conf, f"exporting {state}", verbose) as spark:
        from millstream.spark.export import export_state

        rows = export_state(spark, pointer, operator, state, place, form, mode, sql)
    from millstream.core.settings.secrets import without_secrets

    shown = without_secrets(place)
    if as_json:
        click.echo(json.dumps({"target": shown, "format": form, "rows": rows}, indent=2))
    else:
        click.echo(f"{rows} rows written. {'Table' if form == 'table' else 'Path'}: {shown}")
    return 0
