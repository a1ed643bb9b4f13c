"""The store in a directory, used by real processes, which are killed at random and frozen."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from processes import fresh_environment, frozen
from store_implementations import still_waits
from waiting import DEADLINE, run, wait_until

from millstream.core.jobs.ids import ANY_EPOCH
from millstream.core.services.leader_lookup import KnownLeader, Role
from millstream.core.store.directory.store import DirectoryStore
from millstream.core.store.store import Contest, Key, Kind

pytestmark = pytest.mark.process

DISPATCHER = Contest(Role.DISPATCHER)
KEY = Key(Kind.CHECKPOINTS, "counter")

CANDIDATE = """
import asyncio, json, os, random, sys
from pathlib import Path
from millstream.core.services.leader_lookup import Role
from millstream.core.store.directory.store import DirectoryStore
from millstream.core.store.store import ABSENT, ConflictError, Contest, Key, Kind

folder, log, name, most, patience = sys.argv[1:]
chance = random.Random(name)
log = os.open(log, os.O_WRONLY | os.O_APPEND)
contest, key = Contest(Role.DISPATCHER), Key(Kind.CHECKPOINTS, "counter")


def report(*what):
    os.write(log, json.dumps([*what, name]).encode() + b"\\n")


async def count(store, lead, times):
    while times:
        entry = await store.read(key)
        counted = json.loads(entry.value) if entry else []
        try:
            new = json.dumps([*counted, [lead.epoch, name]]).encode()
            await store.write(key, new, entry.version if entry else ABSENT, lead)
        except ConflictError:
            continue
        report("counted", len(counted) + 1)
        times -= 1


async def main():
    store = DirectoryStore(Path(folder), patience=float(patience)).connect()
    while True:
        lead = await store.campaign(contest, name)
        report("leads", lead.epoch)
        await asyncio.gather(*(count(store, lead, chance.randint(0, int(most))) for _ in range(2)))
        if most == "0":
            await asyncio.Event().wait()
        report("resigns", lead.epoch)
        await store.resign(lead)


asyncio.run(main())
"""


class Candidates:
    """Processes that are candidates for leadership, and what they reported, in order."""

    def __init__(self, root: Path, most: int) -> None:
        self.folder = root / "store"
        self._log = root / "log"
        self._log.touch()
        self._most = most
        self._started = 0
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> str:
        self._started += 1
        name = f"candidate-{self._started}"
        arguments = [str(self.folder), str(self._log), name, str(self._most), str(DEADLINE)]
        command = [sys.executable, "-c", CANDIDATE, *arguments]
        self.running[name] = subprocess.Popen(command, env=fresh_environment())
        return name

    def kill(self, name: str) -> None:
        with self._log.open("ab", buffering=0) as log:
            # before it is killed: no other may lead earlier
            log.write(json.dumps(["killed", 0, name]).encode() + b"\n")
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def reports(self) -> list[tuple[str, int, str]]:
        whole, _, _half = self._log.read_text().rpartition("\n")
        return [(what, number, name) for what, number, name in map(json.loads, whole.splitlines())]

    def leader(self, beyond: int = 0) -> str:
        """Waits for one with a higher epoch, which is still running."""

        def found() -> str | None:
            assert all(process.poll() is None for process in self.running.values())
            last = [(epoch, name) for what, epoch, name in self.reports() if what == "leads"][-1:]
            return next((name for epoch, name in last if epoch > beyond and name in self.running), None)

        leader: str = wait_until(found, "a leader")
        return leader


@contextmanager
def candidates(root: Path, most: int) -> Iterator[Candidates]:
    made = Candidates(root, most)
    try:
        yield made
    finally:
        for name in list(made.running):
            made.kill(name)


def check_that_one_led_at_a_time(reports: list[tuple[str, int, str]]) -> list[int]:
    """Returns the epochs."""
    leading: str | None = None
    epochs, doomed = [], set()
    for what, number, name in reports:
        if what == "killed":
            doomed.add(name)  # when exactly is not known: it may still act
        if what == "leads":
            assert leading is None, f"{name} leads as {leading} does"
            epochs.append(number)
            leading = name
        elif what == "resigns" and leading == name:
            leading = None
        if leading in doomed:
            leading = None
    assert epochs == sorted(set(epochs))
    return epochs


@pytest.mark.parametrize("seed", [1, 2])
def test_with_leaders_being_killed_one_leads_at_a_time_and_every_count_is_kept_once(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    kills = 8
    with candidates(tmp_path, most=6) as members:
        for _ in range(3):
            members.start()
        for _ in range(kills):
            before = len(members.reports())
            some_more = chance.randint(1, 12)
            wait_until(lambda: len(members.reports()) >= before + some_more, "candidates that count")  # noqa: B023
            members.kill(members.leader())
            members.start()
    reports = members.reports()
    epochs = check_that_one_led_at_a_time(reports)
    assert len(epochs) >= kills

    async def all_is_over() -> None:
        store = DirectoryStore(members.folder, patience=DEADLINE).connect()
        assert await store.leader(DISPATCHER) is None
        entry = await store.read(KEY)
        assert entry is not None
        counted = json.loads(entry.value)
        assert entry.version == len(counted)
        by = [epoch for epoch, _ in counted]
        assert by == sorted(by)  # nothing came from a leader after the next one
        assert len({(epoch, name) for epoch, name in counted}) == len(set(by))
        reported = [(number, name) for what, number, name in reports if what == "counted"]
        assert len({number for number, _ in reported}) == len(reported)
        assert all(counted[number - 1][1] == name for number, name in reported)
        deaths = sum(what == "killed" for what, _, _ in reports)
        assert len(counted) - len(reported) <= 2 * deaths  # the two that each was about to report
        lead = await store.campaign(DISPATCHER, "after all")
        assert lead.epoch > max(epochs)
        await store.close()

    run(all_is_over)


def test_a_frozen_leader_keeps_leading_until_it_is_killed(tmp_path: Path) -> None:
    with candidates(tmp_path, most=0) as members:
        members.start()
        leader = members.leader()

        async def freeze_and_kill() -> None:
            store = DirectoryStore(members.folder, patience=DEADLINE).connect()
            known = await store.changed(DISPATCHER, ANY_EPOCH)
            assert known is not None
            next_one = asyncio.create_task(store.campaign(DISPATCHER, "next"))
            with frozen(members.running[leader].pid):
                await still_waits(next_one)
                assert await store.leader(DISPATCHER) == KnownLeader(leader, known.epoch)
                members.kill(leader)
                assert (await next_one).epoch > known.epoch
            await store.close()

        run(freeze_and_kill)


def test_a_child_forked_by_a_leader_does_not_continue_its_leadership(tmp_path: Path) -> None:
    forking = f"""
import asyncio, os, signal
from pathlib import Path
from millstream.core.services.leader_lookup import Role
from millstream.core.store.directory.store import DirectoryStore
from millstream.core.store.store import Contest

store = DirectoryStore(Path({str(tmp_path / "store")!r})).connect()
asyncio.run(store.campaign(Contest(Role.DISPATCHER), "host:1"))
if os.fork() == 0:
    os.write(1, b"%d\\n" % os.getpid())
    os.read(0, 1)
    os._exit(0)
signal.pause()
"""
    command = [sys.executable, "-W", "ignore", "-c", forking]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=fresh_environment()) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())

        async def is_free_without_the_parent() -> None:
            store = DirectoryStore(tmp_path / "store", patience=DEADLINE).connect()
            known = await store.leader(DISPATCHER)
            assert known is not None
            parent.kill()
            parent.wait()
            assert (await store.campaign(DISPATCHER, "host:2")).epoch > known.epoch
            os.kill(child, 0)  # it still exists
            await store.close()

        try:
            run(is_free_without_the_parent)
        finally:
            parent.kill()
