"""Starts a local cluster, or single services of one, and waits until they work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from millstream.cli.cluster.directory import ClusterDirectory
from millstream.cli.cluster.ports import held_ports
from millstream.cli.cluster.services import ONLY_ONE, TASK_MANAGER, kind_of, start_daemon, wait_until_up
from millstream.cli.cluster.stop import stop_cluster, stop_services
from millstream.core.errors import MillstreamError
from millstream.core.settings.configuration import Configuration


def start_cluster(
    cluster: ClusterDirectory,
    configuration: Configuration,
    task_managers: int,
    timeout: float,
    progress: Callable[[str], None],
) -> Configuration:
    """Starts the services and returns their configuration once all are up. On any failure all of them are stopped."""
    if cluster.members():
        down = [name for name, record in cluster.services().items() if not record.is_running()]
        more = f"; {', '.join(down)} is down: `millstream cluster start {' '.join(down)}`" if down else ""
        raise MillstreamError(
            f"a cluster is already running in {cluster.root};"
            f" stop it with `millstream cluster stop --dir {cluster.root}`{more}"
        )
    cluster.forget()
    names = [*(f"{kind}-1" for kind in ONLY_ONE), *(f"{TASK_MANAGER}-{i + 1}" for i in range(task_managers))]
    with held_ports(configuration) as configuration:
        cluster.write_configuration(configuration)
        cluster.write_curl_options(configuration)
        start_again(cluster, names, timeout, progress)
    return configuration


def start_again(
    cluster: ClusterDirectory, names: Sequence[str], timeout: float, progress: Callable[[str], None]
) -> None:
    """Starts all services of a cluster that is configured. On any failure all of them are stopped."""
    try:
        wait_until_up(cluster, [start_daemon(cluster, name) for name in names], timeout, progress)
    except BaseException:
        stop_cluster(cluster, timeout=5.0)
        raise


def start_services(
    cluster: ClusterDirectory,
    names: Sequence[str],
    options: Mapping[str, object] | None,
    timeout: float,
    progress: Callable[[str], None],
) -> list[str]:
    """Starts those that do not run yet, and returns which those were.

    `options` are over the cluster's; None: as they were started before.

    A service that does not come up is stopped again; the others are left as they were.
    """
    if not cluster.has_configuration():
        raise MillstreamError(f"there is no cluster in {cluster.root}; `millstream cluster start` starts a whole one")
    running = {name for name, record in cluster.services().items() if record.is_running()}
    missing = [name for name in names if name not in running]
    for name in missing:
        if options and kind_of(name) != TASK_MANAGER:
            raise MillstreamError(f"{name} runs with the cluster's configuration; only task managers take options")
    for name in missing:
        if options is not None:
            cluster.write_own_configuration(name, options)
    started = []
    try:
        for name in missing:
            started.append(start_daemon(cluster, name))
        wait_until_up(cluster, started, timeout, progress)
    except BaseException:
        stop_services(cluster, [daemon.name for daemon in started], timeout=5.0)
        raise
    return missing
