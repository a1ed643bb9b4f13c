"""A real ZooKeeper server on loopback, for the tests of the store on it.

It consists of a few jars of Maven's registry, 6 MB, which are fetched once and checked by their hashes. It knows one
user by a password, and serves those who do not authenticate as well.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ports import free_port
from waiting import wait_until

USER, PASSWORD = "millstream", "secret"
_REGISTRY = "https://repo1.maven.org/maven2"
_JARS = {
    "org/apache/zookeeper/zookeeper/3.9.4/zookeeper-3.9.4.jar": (
        "7bb3bb38bbddbc71424c59a7a0b170a1b2147313a84c972225ab0568dab513bf"
    ),
    "org/apache/zookeeper/zookeeper-jute/3.9.4/zookeeper-jute-3.9.4.jar": (
        "bd9750935add09b6cb920f7bcf0fa7b9a8165c45cdafd8ee1fc6808c46ec9094"
    ),
    "org/slf4j/slf4j-api/2.0.13/slf4j-api-2.0.13.jar": (
        "e7c2a48e8515ba1f49fa637d57b4e2f590b3f5bd97407ac699c3aa5efb1204a9"
    ),
    "org/slf4j/slf4j-simple/2.0.13/slf4j-simple-2.0.13.jar": (
        "3153fe1d689cffb94f1530b58470c306685ba68844de8857116e3b6ebb81d9f7"
    ),
    "io/dropwizard/metrics/metrics-core/4.1.12.1/metrics-core-4.1.12.1.jar": (
        "cec34936faa625039f4e46123eccaa10a9eb9d9a40c6075830cd81330e259cf9"
    ),
    "org/xerial/snappy/snappy-java/1.1.10.5/snappy-java-1.1.10.5.jar": (
        "0f3f1857ed33116583f480b4df5c0218836c47bfbc9c6221c0d73f356decf37b"
    ),
    "io/netty/netty-common/4.1.119.Final/netty-common-4.1.119.Final.jar": (
        "991a69b1594dcad9926e268e7e94530cfdaa89feef42af26922a302d3e2e9212"
    ),
    "io/netty/netty-handler/4.1.119.Final/netty-handler-4.1.119.Final.jar": (
        "9b49be98e36bb79a2025ffb5159aec87da2720cfa545f56de39c3bc108587b1b"
    ),
    "io/netty/netty-buffer/4.1.119.Final/netty-buffer-4.1.119.Final.jar": (
        "32226218d854c2e51d4935a7ebe4663b72ecb9af4da881b86bf518e61aed48d3"
    ),
    "io/netty/netty-transport/4.1.119.Final/netty-transport-4.1.119.Final.jar": (
        "c0921ea0e79c3b936daabe08a26e926642a4ad24951d6115fb43362c21dfeb10"
    ),
}
_CONFIGURATION = """\
tickTime=500
dataDir={folder}/data
clientPortAddress=127.0.0.1
clientPort={port}
admin.enableServer=false
forceSync=no
authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider
"""
_USERS = f"""\
Server {{
    org.apache.zookeeper.server.auth.DigestLoginModule required user_{USER}="{PASSWORD}";
}};
"""


class ZookeeperProcess:
    """One server: it may be stopped and started again on its port, with its data."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "zoo.cfg").write_text(_CONFIGURATION.format(folder=folder, port=self.port))
        (folder / "users.conf").write_text(_USERS)

    def start(self) -> None:
        """Returns when it accepts connections."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    "java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                    f"-Djava.security.auth.login.config={self._folder}/users.conf",
                    "-cp", ":".join(map(str, _jars())),
                    "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self._folder / "zoo.cfg"),
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        wait_until(self._accepts, "ZooKeeper to accept connections")

    def _accepts(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()[-4000:]
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5):
            return True
        return False

    def stop(self) -> None:
        """At once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def running_zookeeper() -> Iterator[ZookeeperProcess]:
    """A server that runs within."""
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
    try:
        _jars()
    except OSError as error:
        return f"ZooKeeper's jars cannot be fetched: {error}"
    return None


def _jars() -> list[Path]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "millstream-tests"
    cache.mkdir(parents=True, exist_ok=True)
    return [_jar(cache, path, expected) for path, expected in _JARS.items()]


def _jar(cache: Path, path: str, expected: str) -> Path:
    jar = cache / path.rsplit("/", 1)[1]
    if not jar.exists():
        with urllib.request.urlopen(f"{_REGISTRY}/{path}", timeout=60) as response:
            content = response.read()
        with tempfile.NamedTemporaryFile(dir=cache, delete=False) as partial:
            partial.write(content)
        Path(partial.name).rename(jar)  # whole or not at all, also if two of the tests' processes fetch it
    found = hashlib.sha256(jar.read_bytes()).hexdigest()
    if found != expected:
        jar.unlink()
        raise AssertionError(f"{_REGISTRY}/{path} has the hash {found}, not {expected}")
    return jar
