"""Starts a local cluster, or single services of one, and waits until they work."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Callable, Mapping, Sequence

from millstream.cli.cluster_directory import ClusterDirectory
from millstream.cli.cluster_services import ONLY_ONE, TASK_MANAGER, kind_of, start_daemon, wait_until_up
from millstream.cli.cluster_stop import stop_cluster, stop_services
from millstream.core.configuration import Configuration
from millstream.core.errors import MillstreamError

_LISTENING = (  # the port's option, the option of the address that is listened on
    ("dispatcher.rpc.port", "dispatcher.rpc.address"),
    ("jobmanager.rpc.port", "jobmanager.rpc.address"),
    ("resourcemanager.rpc.port", "resourcemanager.rpc.address"),
    ("rest.port", "rest.bind-address"),
)
_OWN_PORTS = range(12_000, 32_000)


def with_ports(configuration: Configuration) -> Configuration:
    """The configuration with a free port in place of each 0. Raises when a port that was chosen is taken."""
    chosen: dict[str, int] = {}
    with contextlib.ExitStack() as held:
        for port_key, host_key in _LISTENING:
            host, port = configuration.string(host_key), configuration.integer(port_key)
            listener = held.enter_context(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                _bind(listener, host, port)
            except OSError as error:
                where = f"{host}:{port} ({port_key})"
                raise MillstreamError(
                    f"cannot listen on {where}: {error.strerror}; choose another port with -D {port_key}=..., 0 for any"
                ) from error
            if port == 0:
                chosen[port_key] = listener.getsockname()[1]
    return configuration.merged(chosen)


def _bind(listener: socket.socket, host: str, port: int) -> None:
    """Binds the port, or for 0 one below those that the system hands out: those may be gone when the daemon starts."""
    if port:
        listener.bind((host, port))
        return
    for candidate in random.sample(_OWN_PORTS, 50):
        with contextlib.suppress(OSError):
            listener.bind((host, candidate))
            return
    listener.bind((host, 0))


def start_cluster(
    cluster: ClusterDirectory,
    configuration: Configuration,
    task_managers: int,
    timeout: float,
    progress: Callable[[str], None],
) -> Configuration:
    """Starts the services and answers their configuration once all are up. On any failure nothing is left running."""
    if cluster.members():
        down = [name for name, record in cluster.services().items() if not record.is_running()]
        more = f"; {', '.join(down)} is down: `millstream cluster start {' '.join(down)}`" if down else ""
        raise MillstreamError(
            f"a cluster is already running in {cluster.root};"
            f" stop it with `millstream cluster stop --dir {cluster.root}`{more}"
        )
    cluster.forget()
    configuration = with_ports(configuration)
    cluster.write_configuration(configuration)
    names = [*(f"{kind}-1" for kind in ONLY_ONE), *(f"{TASK_MANAGER}-{i + 1}" for i in range(task_managers))]
    start_again(cluster, names, timeout, progress)
    return configuration


def start_again(
    cluster: ClusterDirectory, names: Sequence[str], timeout: float, progress: Callable[[str], None]
) -> None:
    """Starts all services of a cluster that is configured. On any failure nothing is left running."""
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
    """Starts those that do not run yet, and answers which those were.

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
