"""The faults of a hosted cluster: a plan that depends only on a seed, and its execution.

A plan names its victims by their roles at that time, such as the job manager that leads: so the same seed hits the same
roles, whichever member has them.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from enum import StrEnum
from typing import assert_never

from failover_system import SESSION_TIMEOUT
from hosted_cluster import ENSEMBLE, MEMBERS, USERS, HostedCluster
from msgspec import Struct

HEARTBEAT_TIMEOUT = 10.0
EVERYONE = (*ENSEMBLE, *MEMBERS, USERS)


class Kind(StrEnum):
    """What happens to a victim; or, to two of them, the cut between them."""

    KILLED = "is killed"
    FROZEN = "is frozen"
    CUT_OFF = "is cut off from all others"
    DEAF = "receives nothing"
    MUTE = "sends nothing"
    WITHOUT_STORE = "is cut off from ZooKeeper"
    APART = "are cut off from each other"
    ONE_WAY = "receives nothing from the other"


class Fault(Struct, frozen=True):
    """Lasts for `seconds`. A victim is a role with `leads`, `stands by` or nothing before it, or a slot worker."""

    kind: Kind
    victims: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        return f"{' and '.join(self.victims)} {self.kind} for {self.seconds:.1f} s"


class Action(StrEnum):
    """The actions of users meanwhile."""

    SUBMIT = "submit a job"
    CANCEL = "cancel a job"
    STOP = "stop a job with a savepoint"
    SAVEPOINT = "take a savepoint"


class Step(Struct, frozen=True):
    """Faults at the same time, what users do then, and whether the job has to recover before the next step."""

    faults: tuple[Fault, ...]
    action: Action | None
    recovers: bool


LEADERS = ("leading dispatcher", "leading resourcemanager", "leading jobmanager")
STANDBYS = ("other dispatcher", "other resourcemanager", "other jobmanager")
WORKING = ("taskmanager-1", "taskmanager-2", "taskmanager-3")
PAIRS = (
    ("leading jobmanager", "leading dispatcher"),
    ("leading jobmanager", "leading resourcemanager"),
    ("leading jobmanager", "taskmanager-1"),
    ("leading resourcemanager", "taskmanager-2"),
    ("leading dispatcher", "leading resourcemanager"),
    ("taskmanager-1", "taskmanager-2"),
    ("taskmanager-2", "taskmanager-3"),
)


def plan(chance: random.Random) -> Iterator[Step]:
    """Infinite."""
    while True:
        faults = tuple(_fault(chance) for _ in range(chance.choice((1, 1, 2, 2, 3))))
        yield Step(faults, chance.choice((None, *Action)), chance.random() < 0.5)


def _fault(chance: random.Random) -> Fault:
    seconds = chance.choice((1.0, 1.0, SESSION_TIMEOUT, SESSION_TIMEOUT, 1.3 * HEARTBEAT_TIMEOUT))
    seconds *= chance.uniform(0.6, 1.4)
    if chance.random() < 0.15:
        return Fault(chance.choice((Kind.KILLED, Kind.FROZEN)), ("slot worker",), seconds)
    if chance.random() < 0.2:
        pair = chance.choice(PAIRS)
        return Fault(chance.choice((Kind.APART, Kind.ONE_WAY)), pair if chance.random() < 0.5 else pair[::-1], seconds)
    if chance.random() < 0.15:
        return Fault(Kind.WITHOUT_STORE, (chance.choice((*LEADERS, *STANDBYS)),), seconds)
    alone = (Kind.KILLED, Kind.FROZEN, Kind.CUT_OFF, Kind.DEAF, Kind.MUTE)
    victim = chance.choice((*LEADERS, *LEADERS, *STANDBYS, *WORKING, "one zookeeper", "two zookeepers"))
    if victim == "two zookeepers":
        seconds = min(seconds, 2 * SESSION_TIMEOUT)
    return Fault(chance.choice(alone), (victim,), seconds)


class Havoc:
    """Carries out faults, and undoes each after its time."""

    def __init__(self, cluster: HostedCluster, chance: random.Random, job_id: str, log: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._chance = chance
        self._job_id = job_id
        self._log = log

    def strike(self, faults: tuple[Fault, ...]) -> None:
        """Returns when all of them are undone."""
        begun = time.monotonic()
        with ExitStack() as undoing:
            under_way = []
            for fault in sorted(faults, key=lambda fault: fault.seconds):
                under_way.append((fault.seconds, self._begin(fault)))
                undoing.callback(under_way[-1][1])
            for seconds, undo in under_way:
                time.sleep(max(0.0, begun + seconds - time.monotonic()))  # the fault is that it lasts
                undo()
        self._log("all faults are undone")

    def _begin(self, fault: Fault) -> Callable[[], None]:
        """Returns a function that undoes it and may be called twice."""
        victims = [name for victim in fault.victims for name in self._names(victim)]
        self._log(f"{fault} ({', '.join(victims)})")
        match fault.kind:
            case Kind.KILLED:
                return self._kill(victims)
            case Kind.FROZEN:
                return self._freeze(victims)
            case Kind.CUT_OFF | Kind.DEAF | Kind.MUTE:
                return self._cut(victims, EVERYONE, fault.kind is not Kind.MUTE, fault.kind is not Kind.DEAF)
            case Kind.WITHOUT_STORE:
                return self._cut(victims, ENSEMBLE)
            case Kind.APART | Kind.ONE_WAY:
                return self._cut(victims[:1], victims[1:], sends=fault.kind is Kind.APART)
            case _:
                assert_never(fault.kind)

    def _cut(
        self, victims: list[str], others: Sequence[str], receives: bool = True, sends: bool = True
    ) -> Callable[[], None]:
        """Cuts the victims off: packets from the others, or to them, or both, are dropped."""
        undoing = ExitStack()
        if receives:
            undoing.callback(self._cluster.hosts.drop(others, victims))
        if sends:
            undoing.callback(self._cluster.hosts.drop(victims, others))
        return undoing.close

    def _names(self, victim: str) -> list[str]:
        """The current names of a victim."""
        word, _, kind = victim.partition(" ")
        if victim == "slot worker":
            return [str(pid) for pid in self._chance.sample(workers, 1)] if (workers := self._cluster.workers()) else []
        if word in ("one", "two"):
            return list(self._chance.sample(ENSEMBLE, 1 if word == "one" else 2))
        if not kind:
            return [victim]
        leader = self._cluster.leader_now(kind, self._job_id if kind == "jobmanager" else "") or f"{kind}-1"
        return [name for name in MEMBERS if name.startswith(kind) and (name == leader) == (word == "leading")]

    def _pids(self, victims: list[str]) -> list[int]:
        """The pids of those that run: another fault may have killed one."""
        ensemble = self._cluster.ensemble
        members = [name for name in victims if not name.isdigit() and name not in ENSEMBLE]
        return [
            *(int(name) for name in victims if name.isdigit()),
            *(ensemble.pid_of(name) for name in victims if name in ENSEMBLE and ensemble.runs(name)),
            *(self._cluster.pid_of(name) for name in members if self._cluster.lives(name)),
        ]

    def _kill(self, victims: list[str]) -> Callable[[], None]:
        for name in victims:
            if name.isdigit():
                with suppress(ProcessLookupError):
                    os.kill(int(name), signal.SIGKILL)
            elif name in ENSEMBLE:
                self._cluster.ensemble.stop(name)
            else:
                self._cluster.kill_member(name)

        def start_again() -> None:
            for name in victims:
                if name in ENSEMBLE:
                    if not self._cluster.ensemble.runs(name):
                        self._cluster.ensemble.start(name)
                elif not name.isdigit() and not self._cluster.lives(name):
                    self._cluster.start_member(name)

        return start_again

    def _freeze(self, victims: list[str]) -> Callable[[], None]:
        pids = self._pids(victims)

        def send(number: signal.Signals) -> None:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)

        send(signal.SIGSTOP)
        return lambda: send(signal.SIGCONT)
