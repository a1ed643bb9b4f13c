"""`millstream cluster`: a whole local cluster in the background."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from millstream.cli.dashboard import dashboard_url
from millstream.cli.failures import Command, Group
from millstream.cli.options import cluster_directory, configuration_options, dir_option, role_option, verbose_option
from millstream.cli.progress import progress_on_terminal
from millstream.cli.tables import print_table
from millstream.core.clock import SystemClock
from millstream.core.errors import MillstreamError
from millstream.core.services.cluster_secret import SECRET_FILE, cluster_secret, make_secret_file
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.scheduling import RESOURCEMANAGER_PROVIDER, TASKMANAGER_NUMBER_OF_TASK_SLOTS
from millstream.core.settings.options.services import (
    ENV_LOG_DIR,
    HA_STORAGE_DIR,
    HA_TYPE,
    IO_TMP_DIRS,
    REST_ADDRESS,
    REST_PORT,
)

if TYPE_CHECKING:
    from millstream.cli.cluster.directory import ClusterDirectory

_STOP_TIMEOUT = 15.0
_LEADING_TIMEOUT = 15.0
"""Seconds within which job managers come to lead the jobs of an earlier run of the cluster."""


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
@click.argument("services", nargs=-1, metavar="[SERVICE]...")
def start(
    config_dir: str | None,
    overrides: tuple[str, ...],
    directory: str | None,
    verbose: bool,
    taskmanagers: int | None,
    slots: int | None,
    timeout: float,
    services: tuple[str, ...],
) -> int:
    """Start a cluster: a dispatcher, a job manager, a resource manager and task managers.

    With SERVICE, only that one of the cluster which is there: dispatcher, jobmanager, resourcemanager; taskmanager adds
    one more, or as many as --taskmanagers, and taskmanager-2 is that one.
    """
    from millstream.cli.cluster.directory import UNIX_SOCKET, ClusterDirectory
    from millstream.cli.cluster.resumed_jobs import jobs_that_start
    from millstream.cli.cluster.start import start_cluster

    files = ClusterDirectory(cluster_directory(directory))
    if services:
        own: dict[str, object] = dict(Configuration.load(config_dir, overrides).to_dict()) if overrides else {}
        if slots is not None:
            own[TASKMANAGER_NUMBER_OF_TASK_SLOTS] = slots
        return _start_services(files, services, 1 if taskmanagers is None else taskmanagers, own, timeout, verbose)
    configuration = Configuration(
        {
            IO_TMP_DIRS: str(files.root / "tmp"),
            ENV_LOG_DIR: str(files.log),
            HA_TYPE: "file",
            HA_STORAGE_DIR: str(files.root / "ha"),
            SECRET_FILE: str(files.secret),
            UNIX_SOCKET: str(files.unix_socket()),
        }
    )
    configuration = configuration.merged(Configuration.load(config_dir, overrides))
    if slots is not None:
        configuration.set(TASKMANAGER_NUMBER_OF_TASK_SLOTS, slots)
    on_demand = configuration.get(RESOURCEMANAGER_PROVIDER) == "process"
    number = taskmanagers if taskmanagers is not None else 0 if on_demand else 1
    files.create()
    if configuration.get(SECRET_FILE) == str(files.secret):
        make_secret_file(files.secret)
    since_ms = SystemClock().now_ms()
    with files.locked(), progress_on_terminal(verbose) as progress:
        configuration = start_cluster(files, configuration, number, timeout, progress)
        resumed = jobs_that_start(configuration, since_ms, _LEADING_TIMEOUT, progress)
    total = number * configuration.get(TASKMANAGER_NUMBER_OF_TASK_SLOTS)
    address = f"{configuration.get(REST_ADDRESS)}:{configuration.get(REST_PORT)}"
    offer = f"{number} task manager{'' if number == 1 else 's'}, {total} slot{'' if total == 1 else 's'}"
    click.echo(f"The cluster is up at {address}: {offer}. Its files are in {files.root}.")
    click.echo(f"Its dashboard is at {dashboard_url(configuration)}; `millstream dashboard --open` logs in there.")
    for line in resumed:
        click.echo(line)
    return 0


def _start_services(
    files: ClusterDirectory,
    services: tuple[str, ...],
    task_managers: int,
    options: dict[str, object],
    timeout: float,
    verbose: bool,
) -> int:
    from millstream.cli.cluster.services import to_start
    from millstream.cli.cluster.start import start_services

    _check_there_is_one(files)
    with files.locked(), progress_on_terminal(verbose) as progress:
        names = to_start(files, services, task_managers)
        started = start_services(files, names, options, timeout, progress)
    for name in names:
        pid = files.services()[name].pid
        click.echo(f"{name} is up (process {pid})." if name in started else f"{name} runs already (process {pid}).")
    return 0


def _check_there_is_one(files: ClusterDirectory) -> None:
    if not files.has_configuration():
        raise MillstreamError(f"there is no cluster in {files.root}; `millstream cluster start` starts a whole one")


@cluster.command(cls=Command)
@dir_option
@verbose_option
@click.option("--timeout", type=float, default=15.0, show_default=True, help="Seconds until processes are killed.")
@click.argument("services", nargs=-1, metavar="[SERVICE]...")
def stop(directory: str | None, verbose: bool, timeout: float, services: tuple[str, ...]) -> int:
    """Stop a cluster and everything that it started, also what a crash left behind.

    With SERVICE, only that one: taskmanager is all task managers, taskmanager-2 one of them. The others keep running.
    """
    from millstream.cli.cluster.directory import ClusterDirectory
    from millstream.cli.cluster.resumed_jobs import jobs_that_lose_tasks, jobs_that_stop
    from millstream.cli.cluster.services import TASK_MANAGER, chosen, kind_of
    from millstream.cli.cluster.stop import stop_cluster, stop_services

    files = ClusterDirectory(cluster_directory(directory))
    if services:
        _check_there_is_one(files)
        with files.locked(), progress_on_terminal(verbose) as progress:
            names = chosen(files, services)
            kinds = {
                kind_of(name) for name in names if name in files.services() and files.services()[name].is_running()
            }
            lines = jobs_that_stop(files.configuration()) if "jobmanager" in kinds else []
            if not lines and TASK_MANAGER in kinds:
                lines = jobs_that_lose_tasks(files.configuration())
            for line in lines:
                click.echo(line)
            progress(f"stopping {', '.join(names)}")
            ended = stop_services(files, names, timeout)
        for name in names or services:
            click.echo(f"Stopped {name}." if name in ended else f"{name} is not running.")
        return 0
    stopped = 0
    if files.root.is_dir():
        with files.locked(), progress_on_terminal(verbose) as progress:
            lines = jobs_that_stop(files.configuration()) if files.is_running() else []
            for line in lines:
                click.echo(line)
            progress("stopping")
            stopped = stop_cluster(files, timeout)
    click.echo(f"Stopped the cluster in {files.root}." if stopped else f"No cluster is running in {files.root}.")
    return 0


@cluster.command(cls=Command)
@dir_option
@verbose_option
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds until it has to be up again.")
@click.argument("services", nargs=-1, metavar="[SERVICE]...")
def restart(directory: str | None, verbose: bool, timeout: float, services: tuple[str, ...]) -> int:
    """Stop a cluster or single services of it, and start the same again with the same configuration."""
    from millstream.cli.cluster.directory import ClusterDirectory
    from millstream.cli.cluster.resumed_jobs import jobs_that_start
    from millstream.cli.cluster.services import ONLY_ONE, chosen
    from millstream.cli.cluster.start import start_again, start_services
    from millstream.cli.cluster.stop import stop_cluster, stop_services

    files = ClusterDirectory(cluster_directory(directory))
    _check_there_is_one(files)
    resumed: list[str] = []
    with files.locked(), progress_on_terminal(verbose) as progress:
        names = chosen(files, services or [*ONLY_ONE, *files.services()])
        if not names:
            raise MillstreamError(f"there is no {services[0]} in {files.root}; `millstream cluster start` starts one")
        progress(f"stopping {', '.join(names)}")
        if services:
            stop_services(files, names, _STOP_TIMEOUT)
            start_services(files, names, None, timeout, progress)
        else:
            stop_cluster(files, _STOP_TIMEOUT)
            since_ms = SystemClock().now_ms()
            start_again(files, names, timeout, progress)
            resumed = jobs_that_start(files.configuration(), since_ms, _LEADING_TIMEOUT, progress)
    click.echo(f"Restarted {', '.join(names)}.")
    for line in resumed:
        click.echo(line)
    return 0


@cluster.command(cls=Command)
@dir_option
@verbose_option
@role_option("submit")
@click.option(
    "--hours", type=click.IntRange(1, 8784), default=12, show_default=True, help="How long the token is valid."
)
def token(directory: str | None, verbose: bool, role: str, hours: int) -> int:
    """Print a token for the REST API of a cluster, for tools other than this one.

    It is made from the cluster's secret, and counts until its time is over or the secret is another one. curl needs
    none: curl -K ~/.millstream/cluster/conf/curl URL.
    """
    from millstream.cli.cluster.directory import ClusterDirectory

    files = ClusterDirectory(cluster_directory(directory))
    _check_there_is_one(files)
    secret = cluster_secret(files.configuration())
    if secret is None:
        raise MillstreamError(f"the cluster in {files.root} has no secret: its REST API takes no tokens of it")
    click.echo(secret.rest_token(role, round(time.time()) + 3600 * hours))
    return 0


@cluster.command(cls=Command)
@dir_option
@verbose_option
@click.option("--json", "as_json", is_flag=True, help="Prints JSON.")
def status(directory: str | None, verbose: bool, as_json: bool) -> int:
    """Show a cluster's services and its overview. The exit status is 0 when all services are up."""
    from millstream.cli.cluster.directory import ClusterDirectory
    from millstream.cli.cluster.services import ONLY_ONE
    from millstream.cli.rest import RestClient

    files = ClusterDirectory(cluster_directory(directory))
    services: list[dict[str, Any]] = [
        {"service": name, "pid": record.pid, "up": record.is_running(), "address": files.address_of(name)}
        for name, record in files.services().items()
    ]
    if not services:
        raise MillstreamError(f"no cluster is running in {files.root}")
    missing = [f"{kind}-1" for kind in ONLY_ONE if f"{kind}-1" not in files.services()]
    services += [{"service": name, "pid": None, "up": False, "address": ""} for name in missing]
    client = RestClient(files.configuration(), timeout=5.0, advises=False)
    overview: dict[str, Any] | None = None
    problem = ""
    try:
        overview = _own_names(client.get("/overview"))
    except MillstreamError as error:
        problem = str(error)
    if as_json:
        click.echo(json.dumps({"directory": str(files.root), "rest": client.address, "services": services,
                               "overview": overview}, indent=2))  # fmt: skip
    else:
        rows = [[s["service"], str(s["pid"] or ""), "up" if s["up"] else "down", s["address"]] for s in services]
        print_table(["SERVICE", "PID", "STATE", "ADDRESS"], rows)
        click.echo(f"\nREST: {client.address}" if overview else f"\nREST: {problem}")
        for key, value in (overview or {}).items():
            click.echo(f"  {key}: {value}")
    return 0 if overview is not None and all(service["up"] for service in services) else 1


def _own_names(overview: dict[str, Any]) -> dict[str, Any]:
    """The overview without what only Flink's clients expect in it: `flink-version` is the version of Millstream."""
    return {key.removeprefix("flink-"): value for key, value in overview.items() if key != "flink-commit"}
