"""Real ZooKeeper servers, for the tests of the store on them: a single one on loopback, or an ensemble.

They run from the jars that PySpark contains. A server has one user with a password, and serves unauthenticated clients
as well. Its log has warnings and errors.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ports import free_port
from waiting import wait_until

USER, PASSWORD = "millstream", "secret"
_JARS = (  # of 300: with all of them a server takes half as long again to start
    "zookeeper-", "slf4j-api-", "log4j-api-", "log4j-core-", "log4j-slf4j2-impl-", "metrics-core-", "snappy-java-",
    "netty-common-", "netty-handler-", "netty-buffer-", "netty-transport-",
)  # fmt: skip
_CONFIGURATION = """\
tickTime=500
dataDir={folder}/data
clientPortAddress={host}
clientPort={port}
admin.enableServer=false
forceSync=no
authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider
"""
_IN_ENSEMBLE = "initLimit=20\nsyncLimit=4\n"
_USERS = f"""\
Server {{
    org.apache.zookeeper.server.auth.DigestLoginModule required user_{USER}="{PASSWORD}";
}};
"""
_LOGGING = """\
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss.SSS} %-5p %c{1}: %m%n%throwable
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
"""


class ZookeeperProcess:
    """One server: it can be stopped and started again on its port, with its data."""

    def __init__(self, folder: Path, host: str = "127.0.0.1", port: int = 0) -> None:
        self.host = host
        self.port = port or free_port()
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._configure(_CONFIGURATION.format(folder=folder, host=host, port=self.port))
        (folder / "users.conf").write_text(_USERS)
        (folder / "log.properties").write_text(_LOGGING)

    @property
    def pid(self) -> int:
        """The process id while it runs."""
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it was started, and not stopped since."""
        return self._process is not None

    def _configure(self, text: str) -> None:
        with (self._folder / "zoo.cfg").open("a") as file:
            file.write(text)

    def join(self, number: int, hosts: Sequence[str]) -> None:
        """Called before it is started: it becomes this one, from 1, of an ensemble on these hosts."""
        members = "".join(f"server.{n}={host}:2888:3888\n" for n, host in enumerate(hosts, 1))
        self._configure(_IN_ENSEMBLE + members)
        (self._folder / "data").mkdir()
        (self._folder / "data" / "myid").write_text(str(number))

    def launch(self, within: Sequence[str] = ()) -> None:
        """Returns at once. `within` is put before its command, such as to enter a host."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *within, "java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                    f"-Djava.security.auth.login.config={self._folder}/users.conf",
                    f"-Dlog4j2.configurationFile={self._folder}/log.properties",
                    "-cp", ":".join(map(str, _jars())),
                    "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self._folder / "zoo.cfg"),
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def start(self) -> None:
        """Returns when it accepts connections."""
        self.launch()
        wait_until(self.accepts, "ZooKeeper to accept connections")

    def accepts(self) -> bool:
        """Whether it accepts connections; fails if it has ended by itself."""
        assert self._process is not None
        assert self._process.poll() is None, self.log_tails()
        with suppress(OSError), socket.create_connection((self.host, self.port), timeout=5):
            return True
        return False

    def stop(self) -> None:
        """Stops it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def log_tails(self) -> str:
        """The end of its log."""
        return (self._folder / "log").read_text(errors="replace")[-4000:]


@contextmanager
def running_zookeeper() -> Iterator[ZookeeperProcess]:
    """A server that runs inside of the context."""
    with tempfile.TemporaryDirectory() as folder:
        server = ZookeeperProcess(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.stop()


def why_not() -> str | None:
    """Why ZooKeeper cannot be started, if so. CI has Java."""
    if shutil.which("java") is None and "CI" not in os.environ:
        return "there is no Java to run ZooKeeper"
    return None


def _jars() -> list[Path]:
    found = importlib.util.find_spec("pyspark")
    assert found is not None, "PySpark, which brings ZooKeeper's jars, is not installed: see the extra `spark`"
    assert found.origin is not None
    folder = Path(found.origin).parent / "jars"
    return sorted(jar for name in _JARS for jar in folder.glob(f"{name}*.jar"))
