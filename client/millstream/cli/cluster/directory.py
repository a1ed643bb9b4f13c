"""The directory of a local cluster: its configuration, its logs, and which processes it consists of.

    conf/config.yaml    the configuration of all its services
    conf/cluster.secret    the secret that they and this user's commands share, unless the options name another
    conf/rest.sock    where the dispatcher serves this user without a token
    conf/curl    what `curl -K` needs to be let in
    conf/<service>-<n>/config.yaml    that of one that was started with options of its own
    run/<service>-<n>.json    a record of each process (millstream.resourcemanager.process_records)
    log/<service>-<n>.log, .out    what it wrote to stderr and stdout; with .1, .2 and so on behind, older parts
    tmp/    what the services keep, unless io.tmp.dirs is set

A process belongs to the cluster when it is recorded here, was recorded by the cluster's resource manager, or carries
the directory in its environment: everything that a service starts inherits that, so nothing is out of reach after a
crash.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from millstream.core.errors import MillstreamError
from millstream.core.files.directories import for_user_only, make_private, private_folder
from millstream.core.logs.log_files import rotated
from millstream.core.services.leader_lookup import Role, configured_address
from millstream.core.services.security import is_loopback
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import (
    IO_TMP_DIRS,
    REST_ADDRESS,
    REST_PORT,
    REST_UNIX_SOCKET,
    SSL_REST_CA,
)
from millstream.core.settings.variables import CLUSTER_MEMBER
from millstream.resourcemanager.process_records import ProcessRecord, processes_with, read_records, values_of

UNIX_SOCKET = REST_UNIX_SOCKET
_LONGEST_SOCKET = 100
_SHORT_TEMPORARY = Path("/tmp")


class ClusterDirectory:
    """Names and reads the files of one directory; creates nothing by itself."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.conf = root / "conf"
        self.run = root / "run"
        self.log = root / "log"
        self.secret = self.conf / "cluster.secret"

    def create(self) -> None:
        """Makes the folders, private to this user. Raises ConfigurationError when someone else may write to them."""
        for folder in (self.conf, self.run, self.log):
            private_folder(self.root, folder.name, option="--dir")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Held while a cluster is started or stopped. Refuses at once when someone else does."""
        with open(self.root / ".lock", "w", opener=for_user_only) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise MillstreamError(f"the cluster in {self.root} is being started or stopped right now") from None
            yield

    def configuration(self) -> Configuration:
        """The configuration that the cluster was started with; empty when there is none."""
        path = self.conf / "config.yaml"
        return Configuration.from_yaml(path) if path.exists() else Configuration()

    def write_configuration(self, configuration: Configuration) -> None:
        """Keeps the effective configuration for the services and for `status`, `stop` and clients."""
        import yaml

        for own in self.conf.glob("*/config.yaml"):
            own.unlink()
        with open(self.conf / "config.yaml", "w", opener=for_user_only) as file:
            file.write("# Written by `millstream cluster start`.\n" + yaml.safe_dump(configuration.to_dict()))

    def write_curl_options(self, configuration: Configuration) -> None:
        """Keeps the Unix socket and the authority for curl. No process that takes the port is sent anything."""
        options = [f'unix-socket = "{configuration.get(UNIX_SOCKET)}"'] if configuration.get(UNIX_SOCKET) else []
        authority = configuration.get(SSL_REST_CA)
        options += [f'cacert = "{authority}"'] if authority else []
        with open(self.conf / "curl", "w", opener=for_user_only) as file:
            file.write("\n".join(["# For `curl -K`. Written by `millstream cluster start`.", *options, ""]))

    def unix_socket(self) -> Path:
        """Where the dispatcher listens for this user: in a short folder where the path is too long for a socket.

        The folder is not that of the environment's TMPDIR, which may be too long as well.
        """
        path = self.conf / "rest.sock"
        if len(os.fsencode(path)) <= _LONGEST_SOCKET:
            return path
        user = f"millstream-{os.geteuid()}"
        folder = private_folder(_SHORT_TEMPORARY, user, "rest", option=UNIX_SOCKET, is_shared=True)
        return folder / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}.sock"

    def has_configuration(self) -> bool:
        """Whether a cluster was ever started here."""
        return (self.conf / "config.yaml").exists()

    def conf_of(self, name: str) -> Path:
        """The configuration folder of a service: its own, or the cluster's."""
        own = self.conf / name
        return own if (own / "config.yaml").exists() else self.conf

    def write_own_configuration(self, name: str, options: Mapping[str, object]) -> None:
        """Gives a service options of its own over the cluster's, in place of those that it had before."""
        import yaml

        path = self.conf / name / "config.yaml"
        path.unlink(missing_ok=True)
        if options:
            make_private(path.parent)
            with open(path, "w", opener=for_user_only) as file:
                file.write(yaml.safe_dump(self.configuration().merged(dict(options)).to_dict()))

    def services(self) -> dict[str, ProcessRecord]:
        """The services that were started, by name, whether they run or not."""
        return {path.stem: record for path, record in read_records(self.run).items()}

    def is_running(self) -> bool:
        """Whether any of the services runs."""
        return any(record.is_running() for record in self.services().values())

    def members(self) -> list[ProcessRecord]:
        """Every running process of the cluster, also one that another process started."""
        found = {record.pid: record for record in processes_with(CLUSTER_MEMBER, str(self.root))}
        found.update({record.pid: record for record in self._provided().values()})
        found.update({record.pid: record for record in self.services().values()})
        return [record for record in found.values() if record.is_running()]

    def forget(self) -> None:
        """Removes the records of processes that no longer run."""
        for path, record in [*read_records(self.run).items(), *self._provided().items()]:
            if not record.is_running():
                path.unlink(missing_ok=True)

    def address_of(self, name: str) -> str:
        """The address that a service listens on, from its log; empty when it is not there."""
        log = self.log / f"{name}.log"
        for path in (log, *(rotated(log, number) for number in range(1, 100))):
            try:
                with path.open(errors="replace") as file:
                    found = [match.group(1) for line in file if (match := re.search(r" is up at ([^\s\"]+)", line))]
            except OSError:
                break
            if found:
                return found[-1]
        return ""

    def _provided(self) -> dict[Path, ProcessRecord]:
        if not (self.conf / "config.yaml").exists():
            return {}
        options = self.configuration()
        temporary = options.get(IO_TMP_DIRS)
        owner = configured_address(options, Role.RESOURCE_MANAGER)
        records = read_records(Path(temporary) / "run") if temporary else {}
        return {path: record for path, record in records.items() if record.details.get("owner") == owner}


def cluster_serving(configuration: Configuration, default: Path) -> ClusterDirectory | None:
    """The running local cluster of this user whose REST API is at the configured address; the default one first.

    A stopped cluster owns no address: daemons that were started by hand may listen there, with another secret or none.
    """
    wanted = _rest_of(configuration)
    for root in dict.fromkeys([default, *sorted(map(Path, values_of(CLUSTER_MEMBER)))]):
        cluster = ClusterDirectory(root)
        with contextlib.suppress(MillstreamError):  # one of another version may have options that there are not here
            if cluster.is_running() and cluster.has_configuration() and _rest_of(cluster.configuration()) == wanted:
                return cluster
    return None


def _rest_of(configuration: Configuration) -> tuple[str, int]:
    """Host and port; all names of loopback are one."""
    host = configuration.get(REST_ADDRESS)
    return "loopback" if is_loopback(host) else host, configuration.get(REST_PORT)
