"""`millstream state`: reads savepoints and checkpoints. Needs no cluster and none of the program's classes."""

from __future__ import annotations

import json

import click

from millstream.cli.failures import MISUSED, Command, Group
from millstream.cli.options import absolute_location, verbose_option
from millstream.cli.progress import progress_on_terminal
from millstream.cli.state.spark_commands import bootstrap, export, rewrite
from millstream.cli.state.spark_options import spark_options, spark_work

_SNAPSHOT = "A snapshot is named by its folder or its _metadata.json: a path or a URI."


class _DiffCommand(Command):
    """As diff(1): 1 means that there are differences, so failures are 2."""

    failure_status = MISUSED


@click.group(cls=Group)
def state() -> None:
    """Look into savepoints and checkpoints, make and change savepoints."""


@state.command(cls=Command, epilog=_SNAPSHOT)
@verbose_option
@click.option("--json", "as_json", is_flag=True, help="Prints JSON.")
@click.argument("snapshot")
def ls(verbose: bool, as_json: bool, snapshot: str) -> int:
    """List the operators and states of a snapshot."""
    from millstream.cli.state.listing import print_listing
    from millstream.core.snapshot.inspection.listing_json import listing_json
    from millstream.core.snapshot.inspection.opened import open_snapshot

    with progress_on_terminal(verbose) as progress:
        progress(f"reading {snapshot}")
        opened = open_snapshot(absolute_location(snapshot))
    if as_json:
        click.echo(json.dumps(listing_json(opened), indent=2))
    else:
        print_listing(opened)
    return 0


@state.command(cls=Command, epilog=_SNAPSHOT)
@verbose_option
@click.option("--key", metavar="KEY", help="Only this key: plain text for a primitive, JSON for a key with parts.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many rows at most.")
@click.option(
    "--unpickle",
    is_flag=True,
    help="Loads pickled values. This executes code from the snapshot: only for snapshots that you trust.",
)
@click.option("--json", "as_json", is_flag=True, help="Prints JSON.")
@click.argument("snapshot")
@click.argument("operator")
@click.argument("state")
def show(
    verbose: bool, key: str | None, limit: int, unpickle: bool, as_json: bool, snapshot: str, operator: str, state: str
) -> int:
    """Show rows of a state. OPERATOR is a uid, an id, or a name that only one has."""
    from millstream.cli.state.rows import print_rows
    from millstream.core.snapshot.inspection.lookup import rows_of, rows_of_key
    from millstream.core.snapshot.inspection.opened import open_snapshot
    from millstream.core.snapshot.inspection.state_rows import StateRows, rows_json

    with progress_on_terminal(verbose) as progress:
        progress(f"reading {snapshot}")
        opened = open_snapshot(absolute_location(snapshot))
        owner = opened.operator(operator)
        wanted = opened.state(owner, state)
        if key is None:
            found = StateRows(wanted, rows_of(opened, wanted, limit, unpickle), limit)
        else:
            found = StateRows(wanted, rows_of_key(opened, owner, wanted, key, unpickle), limit)
    if as_json:
        click.echo(json.dumps(rows_json(found), indent=2))
    else:
        print_rows(found, key, unpickle)
    return 0


@state.command(cls=_DiffCommand, epilog=_SNAPSHOT)
@verbose_option
@click.option("--keys", is_flag=True, help="Lists the keys of entries that differ, without their values.")
@click.option("--summary", is_flag=True, help="Lists no entries.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Entries listed for each state."
)
@click.option(
    "--unpickle",
    is_flag=True,
    help="Loads pickled values. This executes code from the snapshots: only for snapshots that you trust.",
)
@click.option("--spark", is_flag=True, help="Compares on Spark: for snapshots of any size.")
@spark_options
@click.option("--json", "as_json", is_flag=True, help="Prints JSON.")
@click.argument("first")
@click.argument("second")
def diff(
    verbose: bool, keys: bool, summary: bool, limit: int, unpickle: bool, spark: bool, master: str | None,
    conf: tuple[str, ...], as_json: bool, first: str, second: str,
) -> int:  # fmt: skip
    """Compare two snapshots. Entries that differ are listed with their old and new values.

    The exit status is 0 when they hold the same state, 1 when they differ, and 2 when one cannot be read. Pickled
    values are compared as bytes; parallelism, and when entries expire, are not compared.
    """
    from millstream.cli.state.differences import print_differences
    from millstream.core.snapshot.inspection.diff import diff_snapshots
    from millstream.core.snapshot.inspection.diff_json import Shown, differences_json
    from millstream.core.snapshot.inspection.opened import open_snapshot

    locations = absolute_location(first), absolute_location(second)
    listed = 0 if summary else limit
    if spark:
        with spark_work(master, conf, "comparing", verbose) as session:
            from millstream.spark.savepoint_diff import SavepointDiff

            found = SavepointDiff.compare(session, *locations).summary(listed)
    elif master is not None or conf:
        raise click.UsageError("--master and --conf are about Spark: add --spark")
    else:
        opened = open_snapshot(locations[0]), open_snapshot(locations[1])
        with progress_on_terminal(verbose) as progress:
            found = diff_snapshots(*opened, listed, progress)
    shown = Shown(values=not keys, unpickle=unpickle)
    if as_json:
        click.echo(json.dumps(differences_json(found, shown), indent=2))
    else:
        print_differences(found, shown)
    return 0 if found.equal else 1


for _command in (bootstrap, rewrite, export):
    state.add_command(_command)
