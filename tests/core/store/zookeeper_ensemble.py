"""A ZooKeeper ensemble, each server on a host of its own, so that any of them can be cut off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hosts import Hosts
from waiting import wait_until
from zookeeper_process import ZookeeperProcess

_PORT = 2181


class ZookeeperEnsemble:
    """Servers by the names of their hosts. It serves while most of them run and reach each other."""

    def __init__(self, folder: Path, hosts: Hosts, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._hosts = hosts
        addresses = [hosts.address(name) for name in names]
        self.quorum = ",".join(f"{address}:{_PORT}" for address in addresses)
        self._servers: dict[str, ZookeeperProcess] = {}
        for number, (name, address) in enumerate(zip(names, addresses, strict=True), 1):
            (folder / name).mkdir()
            self._servers[name] = ZookeeperProcess(folder / name, address, _PORT)
            self._servers[name].join(number, addresses)

    def start(self, *names: str) -> None:
        """Returns at once; starts all of them, or these."""
        for name in names or self.names:
            self._servers[name].launch(self._hosts.within(name))

    def wait_until_it_serves(self) -> None:
        """Called on a host that reaches all of them, which are running."""
        for name in self.names:
            wait_until(self._servers[name].accepts, f"{name} to accept connections")

    def stop(self, *names: str) -> None:
        """Stops all of them, or these, at once."""
        for name in names or self.names:
            self._servers[name].stop()

    def pid_of(self, name: str) -> int:
        """The process id of a running server."""
        return self._servers[name].pid

    def runs(self, name: str) -> bool:
        """Whether it was started, and not stopped since."""
        return self._servers[name].runs

    def log_tails(self) -> str:
        """The ends of all logs, for a test that failed."""
        return "\n".join(f"== {name}\n{server.log_tails()}" for name, server in self._servers.items())


@contextmanager
def running_ensemble(folder: Path, hosts: Hosts, names: Sequence[str]) -> Iterator[ZookeeperEnsemble]:
    """Servers that run inside of the context, on hosts with these names."""
    ensemble = ZookeeperEnsemble(folder, hosts, names)
    try:
        ensemble.start()
        yield ensemble
    finally:
        ensemble.stop()
