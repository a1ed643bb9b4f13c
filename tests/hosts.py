"""Hosts in a network for tests that cut connections: network namespaces around one that routes.

Each host has one address, which only these hosts reach. Packets from one to another pass the router, where a rule drops
them silently, in one direction or both, as a broken network does: the sender gets no error. That requires root and
iproute2, nothing else. Leftovers of an earlier run that was killed are removed with their processes.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from processes import is_alive

_PREFIX = "millstream-test"
_FOLDER = Path("/run/netns")
_ROUTER = "router"
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_NEEDED = 1 << 12 | 1 << 21  # CAP_NET_ADMIN, CAP_SYS_ADMIN: a container's root may lack them
_numbers = itertools.count(1)


def why_no_hosts() -> str | None:
    """Why hosts cannot be created, if so. CI can create them."""
    if "CI" in os.environ:
        return None
    if _rights() & _NEEDED != _NEEDED:
        return "only root, with all its rights, can make network namespaces"
    return "there is no `ip` to make network namespaces: see iproute2" if shutil.which("ip") is None else None


def _rights() -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), 16)


class Hosts:
    """Hosts by name. Created by `network`."""

    def __init__(self, names: Sequence[str]) -> None:
        self._own = f"{_PREFIX}-{os.getpid()}-{next(_numbers)}"
        self._names = tuple(names)
        self._dropped: set[tuple[str, str]] = set()

    def address(self, name: str) -> str:
        """The address of a host, in the range reserved for tests of networks."""
        return f"198.18.{self._names.index(name) + 1}.2"

    def within(self, name: str) -> list[str]:
        """A prefix that runs a command on this host."""
        return ["ip", "netns", "exec", self._space(name)]

    @contextmanager
    def entered(self, name: str) -> Iterator[None]:
        """Inside of the context, this thread, and whatever it starts, is on this host."""
        with Path("/proc/thread-self/ns/net").open() as here, (_FOLDER / self._space(name)).open() as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(here.fileno())

    def drop(self, sources: Iterable[str], destinations: Iterable[str]) -> Callable[[], None]:
        """Drops everything that the sources send to the destinations. Returns a function that undoes just that."""
        pairs = {pair for pair in itertools.product(sources, destinations) if pair[0] != pair[1]} - self._dropped
        self._rules("add", pairs)
        self._dropped |= pairs
        return lambda: self._heal(pairs)

    def heal(self) -> None:
        """Removes all rules."""
        self._heal(self._dropped)

    def _heal(self, pairs: set[tuple[str, str]]) -> None:
        healed = pairs & self._dropped
        self._rules("del", healed)
        self._dropped -= healed

    def make(self) -> None:
        """Called once."""
        _remove_forsaken()
        for name in (_ROUTER, *self._names):
            _ip("netns", "add", self._space(name))
            _ip("-n", self._space(name), "link", "set", "lo", "up")
        for number, name in enumerate(self._names, 1):
            space, router = self._space(name), self._space(_ROUTER)
            _ip("link", "add", "eth0", "netns", space, "type", "veth", "peer", "name", f"to{number}", "netns", router)
            _lines(space, f"addr add 198.18.{number}.2/24 dev eth0", "link set eth0 up",
                   f"route add default via 198.18.{number}.1")  # fmt: skip
            _lines(router, f"addr add 198.18.{number}.1/24 dev to{number}", f"link set to{number} up")
        forwarding = "echo 1 > /proc/sys/net/ipv4/ip_forward"
        subprocess.run([*self.within(_ROUTER), "sh", "-c", forwarding], check=True, capture_output=True)

    def remove(self) -> None:
        """Removes the hosts with all processes on them."""
        for name in (*self._names, _ROUTER):
            _remove(self._space(name))

    def _space(self, name: str) -> str:
        return f"{self._own}-{name}"

    def _rules(self, action: str, pairs: Iterable[tuple[str, str]]) -> None:
        rules = [f"rule {action} pref 100 from {self.address(a)} to {self.address(b)} blackhole" for a, b in pairs]
        _lines(self._space(_ROUTER), *rules)


@contextmanager
def network(*names: str) -> Iterator[Hosts]:
    """Creates hosts with these names, and removes them afterwards."""
    hosts = Hosts(names)
    try:
        hosts.make()
        yield hosts
    finally:
        hosts.remove()


def _remove_forsaken() -> None:
    """Removes namespaces of runs whose process is gone."""
    for space in list(_FOLDER.glob(f"{_PREFIX}-*")) if _FOLDER.exists() else ():
        if not is_alive(int(space.name.removeprefix(f"{_PREFIX}-").partition("-")[0])):
            _remove(space.name)


def _remove(space: str) -> None:
    if (_FOLDER / space).exists():
        for pid in _ip("netns", "pids", space).split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        _ip("netns", "delete", space)


def _lines(space: str, *commands: str) -> None:
    _ip("-n", space, "-batch", "-", commands="\n".join(commands))


def _ip(*arguments: str, commands: str = "") -> str:
    done = subprocess.run(["ip", *arguments], input=commands, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}\n{commands}")
    return done.stdout


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "cannot enter a network namespace")
