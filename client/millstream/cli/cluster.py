"""`millstream cluster`: a whole local cluster in the background."""

from __future__ import annotations

import json
from typing import Any

import click

from millstream.cli.failures import Command, Group
from millstream.cli.options import cluster_directory, configuration_options, dir_option, verbose_option
from millstream.cli.progress import progress_on_terminal
from millstream.cli.tables import print_table
from millstream.core.configuration import Configuration
from millstream.core.errors import MillstreamError


@click.group(cls=Group)
def cluster() -> None:
    """Run a whole local cluster in the background."""


@cluster.command(cls=Command)
@configuration_options
@dir_option
@verbose_option
@click.option("--taskmanagers", type=click.IntRange(min=0), help="How many task managers; default 1.")
@click.option("--slots", type=click.IntRange(min=1), help="Slots of each; default taskmanager.numberOfTaskSlots.")
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds until it has to be up.")
def start(
    config_dir: str | None,
    overrides: tuple[str, ...],
    directory: str | None,
    verbose: bool,
    taskmanagers: int | None,
    slots: int | None,
    timeout: float,
) -> int:
    """Start a cluster: a dispatcher, a job manager, a resource manager and task managers."""
    from millstream.cli.cluster_directory import ClusterDirectory
    from millstream.cli.cluster_start import start_cluster

    files = ClusterDirectory(cluster_directory(directory))
    configuration = Configuration({"io.tmp.dirs": str(files.root / "tmp")})
    configuration = configuration.merged(Configuration.load(config_dir, overrides))
    if slots is not None:
        configuration.set("taskmanager.numberOfTaskSlots", slots)
    on_demand = configuration.string("resourcemanager.provider") == "process"
    number = taskmanagers if taskmanagers is not None else 0 if on_demand else 1
    files.create()
    with files.locked(), progress_on_terminal(verbose) as progress:
        configuration = start_cluster(files, configuration, number, timeout, progress)
    total = number * configuration.integer("taskmanager.numberOfTaskSlots")
    address = f"{configuration.string('rest.address')}:{configuration.integer('rest.port')}"
    offer = f"{number} task manager{'' if number == 1 else 's'}, {total} slot{'' if total == 1 else 's'}"
    click.echo(f"The cluster is up at {address}: {offer}. Its files are in {files.root}.")
    return 0


@cluster.command(cls=Command)
@dir_option
@verbose_option
@click.option("--timeout", type=float, default=15.0, show_default=True, help="Seconds until processes are killed.")
def stop(directory: str | None, verbose: bool, timeout: float) -> int:
    """Stop a cluster and everything that it started, also what a crash left behind."""
    from millstream.cli.cluster_directory import ClusterDirectory
    from millstream.cli.cluster_stop import stop_cluster

    files = ClusterDirectory(cluster_directory(directory))
    stopped = 0
    if files.root.is_dir():
        with files.locked(), progress_on_terminal(verbose) as progress:
            progress("stopping")
            stopped = stop_cluster(files, timeout)
    click.echo(f"Stopped the cluster in {files.root}." if stopped else f"No cluster is running in {files.root}.")
    return 0


@cluster.command(cls=Command)
@dir_option
@verbose_option
@click.option("--json", "as_json", is_flag=True, help="Prints JSON.")
def status(directory: str | None, verbose: bool, as_json: bool) -> int:
    """Show a cluster's services and its overview. The exit status is 0 when all services are up."""
    from millstream.cli.cluster_directory import ClusterDirectory
    from millstream.cli.rest import RestClient

    files = ClusterDirectory(cluster_directory(directory))
    services: list[dict[str, Any]] = [
        {"service": name, "pid": record.pid, "up": record.is_running(), "address": files.address_of(name)}
        for name, record in files.services().items()
    ]
    if not services:
        raise MillstreamError(f"no cluster is running in {files.root}")
    client = RestClient(files.configuration(), timeout=5.0, advises=False)
    overview: dict[str, Any] | None = None
    problem = ""
    try:
        overview = client.get("/overview")
    except MillstreamError as error:
        problem = str(error)
    if as_json:
        click.echo(json.dumps({"directory": str(files.root), "rest": client.address, "services": services,
                               "overview": overview}, indent=2))  # fmt: skip
    else:
        rows = [[s["service"], str(s["pid"]), "up" if s["up"] else "down", s["address"]] for s in services]
        print_table(["SERVICE", "PID", "STATE", "ADDRESS"], rows)
        click.echo(f"\nREST: {client.address}" if overview else f"\nREST: {problem}")
        for key, value in (overview or {}).items():
            click.echo(f"  {key}: {value}")
    return 0 if overview is not None and all(service["up"] for service in services) else 1
