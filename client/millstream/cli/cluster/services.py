"""The services of a local cluster, each a daemon of its own: which there are, starting them, and waiting for them.

A service is named by its kind and a number: `dispatcher-1`, `taskmanager-2`. A kind alone means all that there are of
it; for starting, of task managers one more.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from millstream.cli.cluster.directory import ClusterDirectory
from millstream.cli.rest import RestClient
from millstream.core.errors import MillstreamError
from millstream.core.logs.log_files import open_to_append
from millstream.core.logs.log_reading import read_piece
from millstream.core.services.leader_lookup import Role, configured_endpoint
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.variables import CLUSTER_DIR, CLUSTER_MEMBER
from millstream.resourcemanager.process_records import ProcessRecord

ONLY_ONE = ("resourcemanager", "jobmanager", "dispatcher")  # the order in which they start
TASK_MANAGER = "taskmanager"
_A_TASK_MANAGER = re.compile(rf"{TASK_MANAGER}-[1-9]\d{{0,8}}")
_POLL = 0.1
_SHOWN_LINES = 20


class ServiceFailedError(MillstreamError):
    """A service did not come up; the message ends with what it logged."""

    keeps_lines = True


class Daemon(Struct, frozen=True):
    """A process that was just started. Its log was `logged` bytes long before."""

    name: str
    process: subprocess.Popen[bytes]
    logged: int


def kind_of(name: str) -> str:
    """`taskmanager` of `taskmanager-2`."""
    return name.partition("-")[0]


def chosen(cluster: ClusterDirectory, names: Sequence[str]) -> list[str]:
    """Returns the services that `names` refer to, each once. Raises `MillstreamError` for an unknown name."""
    known = sorted({*cluster.services(), *(f"{kind}-1" for kind in ONLY_ONE)}, key=_order)
    found: dict[str, None] = {}
    for name in names:
        meant = [known_name for known_name in known if name in (known_name, kind_of(known_name))]
        if not meant and kind_of(name) not in (*ONLY_ONE, TASK_MANAGER):
            kinds = ", ".join((*ONLY_ONE, TASK_MANAGER))
            raise MillstreamError(f"there is no service '{name}': name one of {kinds}, or one of them with its number")
        if not meant and _A_TASK_MANAGER.fullmatch(name):
            meant = [name]  # one that is not there any more
        elif not meant and name != TASK_MANAGER:
            raise MillstreamError(f"there is no {name} in {cluster.root}: there are {', '.join(known)}")
        found.update(dict.fromkeys(meant))
    return list(found)


def to_start(cluster: ClusterDirectory, names: Sequence[str], task_managers: int) -> list[str]:
    """Returns the services to start: `taskmanager` is `task_managers` new ones, a name with a number is one."""
    found: dict[str, None] = {}
    for name in names:
        if name == TASK_MANAGER:
            found.update(dict.fromkeys(new_task_managers(cluster, task_managers)))
        elif _A_TASK_MANAGER.fullmatch(name):
            found[name] = None
        else:
            found.update(dict.fromkeys(chosen(cluster, [name])))
    return sorted(found, key=_order)


def new_task_managers(cluster: ClusterDirectory, number: int) -> list[str]:
    """The first names that no running task manager has."""
    running = {name for name, record in cluster.services().items() if record.is_running()}
    free = (f"{TASK_MANAGER}-{i}" for i in range(1, len(running) + number + 1))
    return [name for name in free if name not in running][:number]


def start_daemon(cluster: ClusterDirectory, name: str) -> Daemon:
    """Starts a service with the cluster's configuration, or with its own when it has one."""
    log = cluster.log / f"{name}.log"
    logged = log.stat().st_size if log.exists() else 0
    errors, output = open_to_append(log), open_to_append(log.with_suffix(".out"))
    command = [sys.executable, "-P", "-m", "millstream.cli.main", kind_of(name)]
    try:
        process = subprocess.Popen(
            [*command, "--configDir", str(cluster.conf_of(name))],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env={**os.environ, CLUSTER_MEMBER: str(cluster.root), CLUSTER_DIR: str(cluster.root)},
            start_new_session=True,
        )
    finally:
        os.close(errors)
        os.close(output)
    ProcessRecord.of(kind_of(name), process.pid).write(cluster.run / f"{name}.json")
    return Daemon(name, process, logged)


def wait_until_up(
    cluster: ClusterDirectory,
    daemons: Sequence[Daemon],
    timeout: float,
    progress: Callable[[str], None],
) -> None:
    """Returns once these services respond and have found each other. Raises ServiceFailedError."""
    configuration = cluster.configuration()
    client = RestClient(configuration, timeout=2.0, advises=False)
    deadline = time.monotonic() + timeout
    while True:
        for daemon in daemons:
            status = daemon.process.poll()
            if status is not None:
                raise ServiceFailedError(f"{daemon.name} ended with exit status {status}{_logged(cluster, daemon)}")
        waiting_for, blamed = _missing(cluster, configuration, client, daemons)
        if blamed is None:
            return
        progress(f"waiting for {waiting_for}")
        if time.monotonic() > deadline:
            late = f"{blamed.name} is not up after {timeout:g} s: still waiting for {waiting_for}"
            raise ServiceFailedError(late + _logged(cluster, blamed))
        time.sleep(_POLL)


def _missing(
    cluster: ClusterDirectory, configuration: Configuration, client: RestClient, daemons: Sequence[Daemon]
) -> tuple[str, Daemon | None]:
    """What is still lacking, and the service to blame for it, or None. Also one that is ending counts as started."""
    running = {name for name, record in cluster.services().items() if record.is_running()}
    running.update(daemon.name for daemon in daemons)
    for daemon in daemons:
        if kind_of(daemon.name) == "dispatcher":
            try:
                client.get("/config")
            except MillstreamError as error:
                return f"the REST API at {client.address} ({error})", daemon
        elif kind_of(daemon.name) in ONLY_ONE and not _listens(configuration, kind_of(daemon.name)):
            return f"{daemon.name} to listen", daemon
    leading = [daemon for daemon in daemons if kind_of(daemon.name) in ONLY_ONE]
    if leading and running.issuperset(f"{kind}-1" for kind in ONLY_ONE):
        try:
            client.get("/readyz")
        except MillstreamError as error:
            late = next((daemon for daemon in leading if kind_of(daemon.name) == "jobmanager"), leading[0])
            return f"the cluster to be ready ({error})", late
    started = [daemon for daemon in daemons if kind_of(daemon.name) == TASK_MANAGER]
    if not started or not running.issuperset(("dispatcher-1", "resourcemanager-1")):
        return "", None  # no REST API yet: it registers as soon as they run
    wanted = [name for name in running if kind_of(name) == TASK_MANAGER]
    try:
        registered = int(client.get("/overview")["taskmanagers"])
    except MillstreamError as error:
        return f"the REST API at {client.address} ({error})", started[0]
    if registered < len(wanted):
        return f"task managers: {registered} of {len(wanted)} are registered", started[-1]
    return "", None


def _listens(configuration: Configuration, kind: str) -> bool:
    try:
        socket.create_connection(configured_endpoint(configuration, Role(kind)), timeout=2.0).close()
    except OSError:
        return False
    return True


def _logged(cluster: ClusterDirectory, daemon: Daemon) -> str:
    """The end of what this process has logged, for its failure; one line of it as a part of the sentence."""
    path = cluster.log / f"{daemon.name}.log"
    piece = read_piece(path, daemon.logged)
    lines = [line for line in piece.content.decode(errors="replace").splitlines() if line.strip()]
    if not lines:
        return f"; it logged nothing to {path}"
    if len(lines) == 1:
        return f": {lines[0].strip()}"
    return "\n".join([f". The end of its log, {path}:", *lines[-_SHOWN_LINES:]])


def _order(name: str) -> tuple[int, int]:
    kinds = (*ONLY_ONE, TASK_MANAGER)
    kind, _, number = name.partition("-")
    return kinds.index(kind) if kind in kinds else len(kinds), int(number) if number.isdigit() else 0
