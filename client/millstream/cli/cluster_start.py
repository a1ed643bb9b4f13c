"""Starts a local cluster: every service as a daemon of its own, and waits until all of them work together."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from millstream.cli.cluster_directory import MARK, ClusterDirectory
from millstream.cli.cluster_stop import stop_cluster
from millstream.cli.options import CLUSTER_DIR_VARIABLE
from millstream.cli.rest import RestClient
from millstream.core.configuration import Configuration
from millstream.core.directories import for_user_only
from millstream.core.errors import MillstreamError
from millstream.resourcemanager.process_provider import last_line
from millstream.resourcemanager.process_records import ProcessRecord

_POLL = 0.1
_LISTENING = (  # the port's option, the option of the address that is listened on
    ("dispatcher.rpc.port", "dispatcher.rpc.address"),
    ("jobmanager.rpc.port", "jobmanager.rpc.address"),
    ("resourcemanager.rpc.port", "resourcemanager.rpc.address"),
    ("rest.port", "rest.bind-address"),
)
_OWN_PORTS = range(12_000, 32_000)


@dataclass(frozen=True, slots=True)
class _Daemon:
    name: str
    process: subprocess.Popen[bytes]


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
        raise MillstreamError(
            f"a cluster is already running in {cluster.root};"
            f" stop it with `millstream cluster stop --dir {cluster.root}`"
        )
    cluster.forget()
    configuration = with_ports(configuration)
    cluster.write_configuration(configuration)
    names = ["resourcemanager-1", "jobmanager-1", "dispatcher-1"]
    names += [f"taskmanager-{number}" for number in range(1, task_managers + 1)]
    try:
        daemons = [_start(cluster, name) for name in names]
        _wait_until_up(cluster, configuration, daemons, task_managers, timeout, progress)
    except BaseException:
        stop_cluster(cluster, timeout=5.0)
        raise
    return configuration


def _start(cluster: ClusterDirectory, name: str) -> _Daemon:
    service = name.partition("-")[0]
    log_path = cluster.log / f"{name}.log"
    with (
        open(log_path, "wb", opener=for_user_only) as errors,
        open(log_path.with_suffix(".out"), "wb", opener=for_user_only) as output,
    ):
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "millstream.cli.main", service, "--configDir", str(cluster.conf)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env={**os.environ, MARK: str(cluster.root), CLUSTER_DIR_VARIABLE: str(cluster.root)},
            start_new_session=True,
        )
    ProcessRecord.of(service, process.pid).write(cluster.run / f"{name}.json")
    return _Daemon(name, process)


def _wait_until_up(
    cluster: ClusterDirectory,
    configuration: Configuration,
    daemons: list[_Daemon],
    task_managers: int,
    timeout: float,
    progress: Callable[[str], None],
) -> None:
    client = RestClient(configuration, timeout=2.0, advises=False)
    slots = task_managers * configuration.integer("taskmanager.numberOfTaskSlots")
    deadline = time.monotonic() + timeout
    while True:
        for daemon in daemons:
            status = daemon.process.poll()
            if status is not None:
                reason = last_line(cluster.log / f"{daemon.name}.log")
                raise MillstreamError(f"{daemon.name} ended with exit status {status}: {reason}")
        waiting_for, blamed = _missing(client, task_managers, slots)
        if not waiting_for:
            return
        progress(f"waiting for {waiting_for}")
        if time.monotonic() > deadline:
            reason = last_line(cluster.log / f"{blamed}.log")
            raise MillstreamError(
                f"{blamed} is not up after {timeout:g} s: still waiting for {waiting_for}; its log ends with: {reason}"
            )
        time.sleep(_POLL)


def _missing(client: RestClient, task_managers: int, slots: int) -> tuple[str, str]:
    """What the cluster still lacks, empty when nothing, and the service to blame for it."""
    try:
        overview = client.get("/overview")
    except MillstreamError as error:
        return f"the REST API at {client.address} ({error})", "dispatcher-1"
    registered, offered = int(overview["taskmanagers"]), int(overview["slots-total"])
    if registered < task_managers or offered < slots:
        have = f"{registered} of {task_managers} task managers with {offered} of {slots} slots"
        return f"task managers: {have}", f"taskmanager-{min(registered + 1, task_managers)}"
    return "", ""
