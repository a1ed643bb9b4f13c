"""`millstream doctor`: whether this host can run Millstream as it is configured, and what to do where it cannot."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import asdict

from millstream.cli.failures import Command
from millstream.cli.options import cluster_directory, configuration_options, verbose_option
from millstream.core.linux.losses import Loss, losses
from millstream.core.linux.memory import available_memory, shared_memory
from millstream.core.processes.memory import amount
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import CHECKPOINTING_DIR, CHECKPOINTING_SAVEPOINT_DIR
from millstream.core.settings.options.scheduling import TASKMANAGER_NUMBER_OF_TASK_SLOTS
from millstream.core.settings.options.services import ENV_LOG_DIR, IO_TMP_DIRS, REST_ADDRESS, REST_PORT
from millstream.core.settings.variables import KERNELS

_OLDEST = (3, 11)
_LITTLE_DISK, _NO_DISK = 5 << 30, 200 << 20
_LITTLE_SHARED_MEMORY = 64 << 20
_FEW_FILES = 4096
_LITTLE_MEMORY = 1 << 30
_CLOCK_STEP = 1.0  # seconds that both clocks may be apart after a wait
_TIMEOUT = 5.0
_CONTAINER = "run it in a container, which is Linux: see docs/deployment.md"


class Finding(Struct, frozen=True):
    """What one check found; `advice` is what to do about it."""

    check: str
    status: str
    message: str
    advice: str = ""


@click.command(cls=Command)
@configuration_options
@verbose_option
@click.option("--json", "as_json", is_flag=True, help="Prints JSON.")
def doctor(config_dir: str | None, overrides: tuple[str, ...], verbose: bool, as_json: bool) -> int:
    """Check whether this host can run Millstream as it is configured. The exit status is 1 when a check fails."""
    configuration = Configuration.load(config_dir, overrides)
    findings = [finding for check in CHECKS for finding in check(configuration)]
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        width = max(len(finding.check) for finding in findings)
        for finding in findings:
            click.echo(f"{finding.status:<4}  {finding.check:<{width}}  {finding.message}")
            if finding.advice:
                click.echo(f"{'':<{width + 6}}  {finding.advice}")
    return int(any(finding.status == "FAIL" for finding in findings))


def python_version(configuration: Configuration) -> Iterator[Finding]:
    """The version of the interpreter that runs this command."""
    found, oldest = ".".join(map(str, sys.version_info[:3])), ".".join(map(str, _OLDEST))
    if sys.version_info[:2] < _OLDEST:
        yield Finding("python", "FAIL", f"Python {found} at {sys.executable}", f"install Python {oldest} or later")
    else:
        yield Finding("python", "OK", f"Python {found} at {sys.executable}")


def ports(configuration: Configuration) -> Iterator[Finding]:
    """Checks that the ports of all services are free on this host, or used by this user's own cluster."""
    from millstream.cli.cluster.directory import cluster_serving
    from millstream.cli.cluster.ports import LISTENING

    own = cluster_serving(configuration, cluster_directory(None))
    for host_key, port_key in LISTENING:
        host, port = configuration.get(host_key), configuration.get(port_key)
        where, check = f"{host}:{port}", f"port {port_key}"
        if not port:
            yield Finding(check, "OK", "any free port")
        elif (problem := _cannot_bind(host, port)) is None:
            yield Finding(check, "OK", f"{where} is free")
        elif own is not None:
            yield Finding(check, "OK", f"{where} is used by the cluster in {own.root}")
        else:
            advice = f"stop what listens there, or choose another port with -D {port_key}=..."
            yield Finding(check, "FAIL", f"cannot listen on {where}: {problem}", advice)


def _cannot_bind(host: str, port: int) -> str | None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen()
    except OSError as error:
        return error.strerror or str(error)
    return None


def folders(configuration: Configuration) -> Iterator[Finding]:
    """Where files are kept: that they can be written, and how much room there is."""
    checkpoints, savepoints = CHECKPOINTING_DIR, CHECKPOINTING_SAVEPOINT_DIR
    named: dict[str, str] = {key: configuration.get(key) for key in (IO_TMP_DIRS, ENV_LOG_DIR, checkpoints, savepoints)}
    places = {key: text.removeprefix("file://") for key, text in named.items() if text}
    places.setdefault(IO_TMP_DIRS, tempfile.gettempdir())
    places["cluster directory"] = str(cluster_directory(None))
    for key, text in places.items():
        if "://" in text:
            yield Finding(f"folder {key}", "OK", f"{text} is not on this host, and was not checked")
            continue
        yield _folder(f"folder {key}", Path(text))


def _folder(check: str, folder: Path) -> Finding:
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
        free = shutil.disk_usage(existing).free
    except OSError as error:
        return Finding(check, "FAIL", f"cannot write to {existing}: {error.strerror}", f"make {folder} writable")
    found = f"{folder} is writable, {amount(free)} are free"
    if free < _LITTLE_DISK:
        status = "FAIL" if free < _NO_DISK else "WARN"
        return Finding(check, status, found, f"free some disk space, or choose another place than {folder}")
    return Finding(check, "OK", found)


def clock(configuration: Configuration) -> Iterator[Finding]:
    """Whether the wall clock runs as the monotonic one, and is that of the cluster's REST API if one is configured."""
    wall, steady = time.time(), time.monotonic()
    time.sleep(0.2)
    apart = abs((time.time() - wall) - (time.monotonic() - steady))
    advice = "have the host's clock kept by NTP"
    if time.time() < 1_700_000_000:
        yield Finding("clock", "FAIL", f"it is {time.strftime('%Y-%m-%d %H:%M:%S')}, which is in the past", advice)
    elif apart > _CLOCK_STEP:
        yield Finding("clock", "WARN", f"the wall clock was set by {apart:.1f} s during this check", advice)
    else:
        yield Finding("clock", "OK", time.strftime("it is %Y-%m-%d %H:%M:%S %z, and runs evenly"))
    if not configuration.is_set(REST_ADDRESS):
        return
    host, port = configuration.get(REST_ADDRESS), configuration.get(REST_PORT)
    skew = _skew(host, port)
    if skew is None:
        yield Finding("clock of the cluster", "WARN", f"{host}:{port} does not respond, and was not compared")
    elif abs(skew) > 2:  # the header has whole seconds
        yield Finding("clock of the cluster", "WARN", f"{host}:{port} differs by {abs(skew):.0f} s", advice)
    else:
        yield Finding("clock of the cluster", "OK", f"{host}:{port} agrees within two seconds")


def _skew(host: str, port: int) -> float | None:
    import http.client
    from email.utils import parsedate_to_datetime

    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException, ValueError):
        connection.request("GET", "/healthz")
        date = connection.getresponse().headers.get("Date")
        return None if date is None else time.time() - parsedate_to_datetime(date).timestamp()
    return None


def package_index(configuration: Configuration) -> Iterator[Finding]:
    """The index that pip is configured with, which environments of jobs are installed from."""
    from urllib.parse import urlsplit

    configured = os.environ.get("PIP_INDEX_URL")
    if not configured:
        command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            yield Finding("package index", "WARN", f"pip does not run: {error}", "install pip for this interpreter")
            return
        configured = done.stdout.strip() if done.returncode == 0 else ""
    parts = urlsplit(configured or "https://pypi.org/simple")
    where = parts.hostname or configured  # without a user's name and password
    if not parts.hostname:
        yield Finding("package index", "OK", f"{where} is no host, and was not checked")
        return
    try:
        port = parts.port or (80 if parts.scheme == "http" else 443)
        socket.create_connection((parts.hostname, port), _TIMEOUT).close()
    except (OSError, ValueError) as error:
        advice = "jobs with requirements cannot be installed; set pip's index-url, or submit bundled wheels"
        yield Finding("package index", "WARN", f"{where} cannot be reached: {error}", advice)
    else:
        yield Finding("package index", "OK", f"{where} is reachable")


def java(configuration: Configuration) -> Iterator[Finding]:
    """Only what Spark needs: jobs run without Java."""
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        return
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found:
        yield Finding("java", "OK", f"{found}, for Spark")
    else:
        yield Finding("java", "WARN", "pyspark is installed, but there is no java", "install Java 17 or set JAVA_HOME")


def kernels(configuration: Configuration) -> Iterator[Finding]:
    """Whether the native kernels are used."""
    from millstream.core.kernels.loading import KernelsError, choose

    try:
        chosen = choose(os.environ.get(KERNELS, ""))
    except KernelsError as error:
        yield Finding("kernels", "FAIL", str(error), f"unset {KERNELS} in the environment of all services")
        return
    if chosen.is_slower:
        advice = "keys in columns are hashed several times slower: " + chosen.advice
        yield Finding("kernels", "WARN", f"{chosen.kernels.name}: {chosen.reason}", advice)
    else:
        yield Finding("kernels", "OK", f"{chosen.kernels.name}: {chosen.reason}")


def limits(configuration: Configuration) -> Iterator[Finding]:
    """Open files, shared memory, and the memory of this host or container."""
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    shown = "unlimited" if soft == unlimited else str(soft)
    if soft != unlimited and soft < _FEW_FILES:
        may = most == unlimited or most >= _FEW_FILES
        advice = f"ulimit -n {_FEW_FILES}" if may else "raise the hard limit: LimitNOFILE= of the unit, or limits.conf"
        yield Finding("open files", "WARN", f"a process may have {shown}", advice)
    else:
        yield Finding("open files", "OK", f"a process may have {shown}")
    shared = shared_memory()
    if shared is not None:
        free = shutil.disk_usage(shared).free
        little = free < _LITTLE_SHARED_MEMORY
        advice = "docker run --shm-size=1g, or a larger tmpfs" if little else ""
        yield Finding("shared memory", "WARN" if little else "OK", f"{amount(free)} are free in {shared}", advice)
    usable, total = available_memory(), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = f"{amount(usable)}" + (" by the container's limit" if usable < total else " in this host")
    slots = configuration.get(TASKMANAGER_NUMBER_OF_TASK_SLOTS)
    needed = _LITTLE_MEMORY + slots * (256 << 20)
    little = usable < needed
    advice = f"four services and {slots} slots take about {amount(needed)}: have fewer slots" if little else ""
    yield Finding("memory", "WARN" if little else "OK", found, advice)


def without_linux(configuration: Configuration, lost: Sequence[Loss] = losses()) -> Iterator[Finding]:
    """What is limited on this platform; nothing on Linux."""
    if lost:
        yield Finding("platform", "WARN", "this is not Linux, and the following is limited", _CONTAINER)
    for loss in lost:
        yield Finding("platform", "WARN", loss.feature, loss.elsewhere)


CHECKS: tuple[Callable[[Configuration], Iterator[Finding]], ...] = (
    python_version, ports, folders, clock, package_index, java, kernels, limits, without_linux,
)  # fmt: skip
