"""The store in a directory beyond the suite: other processes, leftovers of crashes, a disk that does not respond."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest
from store_implementations import still_waits
from waiting import DEADLINE, wait_until

from millstream.core.jobs.ids import ANY_EPOCH
from millstream.core.services.leader_lookup import KnownLeader, Role
from millstream.core.store import changes
from millstream.core.store.directory.connection import Connection
from millstream.core.store.directory.lock_files import release_lock, take_lock
from millstream.core.store.directory.sealed_files import DamagedError
from millstream.core.store.directory.session import DirectorySession
from millstream.core.store.directory.shared import SharedFolder
from millstream.core.store.directory.store import DirectoryStore
from millstream.core.store.store import (
    ABSENT,
    Contest,
    Entry,
    FencedError,
    Key,
    Kind,
    SessionLostError,
    SuspendedError,
)

DISPATCHER = Contest(Role.DISPATCHER)
KEY = Key(Kind.JOB_GRAPH, "a")


class Connect(Protocol):
    """A session of a separate `DirectoryStore`: like that of another process, it learns from the folder alone."""

    def __call__(self, patience: float = DEADLINE) -> DirectorySession: ...


@pytest.fixture
def connect(tmp_path: Path) -> AbstractAsyncContextManager[Connect]:
    @asynccontextmanager
    async def connecting() -> AsyncIterator[Connect]:
        sessions: list[DirectorySession] = []

        def one_more(patience: float = DEADLINE) -> DirectorySession:
            sessions.append(DirectoryStore(tmp_path / "store", look_every=0.001, patience=patience).connect())
            return sessions[-1]

        yield one_more
        for session in sessions:
            await session.close()

    return connecting()


async def until_in_line(root: Path, address: str) -> None:
    elections = root / "store/elections"
    await asyncio.to_thread(wait_until, lambda: address.encode() in elections.read_bytes(), f"{address} in line")


# Other processes


async def test_waiting_sessions_learn_from_the_folder_what_others_did(connect: Connect) -> None:
    first, second, watcher = connect(), connect(), connect()
    coming = asyncio.create_task(watcher.changed(DISPATCHER, ANY_EPOCH))
    lead = await first.campaign(DISPATCHER, "host:1")
    assert await coming == KnownLeader("host:1", lead.epoch)
    waiting = asyncio.create_task(second.campaign(DISPATCHER, "host:2"))
    await still_waits(waiting)
    await first.close()
    again = await waiting
    assert again.epoch > lead.epoch
    assert await watcher.changed(DISPATCHER, lead.epoch) == KnownLeader("host:2", again.epoch)


async def test_entries_and_epochs_outlive_all_sessions(connect: Connect) -> None:
    epochs = []
    for number in range(3):
        session = connect()
        lead = await session.campaign(DISPATCHER, "host:1")
        epochs.append(lead.epoch)
        entry = await session.read(KEY)
        assert (entry is None) is (number == 0)
        await session.write(KEY, b"%d" % number, entry.version if entry else ABSENT, lead)
        await session.close()
    assert epochs == sorted(set(epochs))
    assert await connect().read(KEY) == Entry(b"2", 3)
    assert await connect().leader(DISPATCHER) is None


async def test_names_differ_even_if_the_file_system_ignores_case(connect: Connect, tmp_path: Path) -> None:
    session = connect()
    lead = await session.campaign(DISPATCHER, "host:1")
    names = ["A", "AB", "Ab", "a", "aB", "a" * 120, "A" * 120]
    for name in names:
        await session.write(Key(Kind.JOB_GRAPH, name), name.encode(), ABSENT, lead)
    assert await session.names(Kind.JOB_GRAPH) == sorted(names)
    for name in names:
        entry = await session.read(Key(Kind.JOB_GRAPH, name))
        assert entry is not None
        assert entry.value == name.encode()
    files = os.listdir(tmp_path / "store/entries/job-graphs")
    assert len({file.casefold() for file in files}) == len(names)


async def test_everything_in_the_folder_is_private_to_its_user(connect: Connect, tmp_path: Path) -> None:
    session = connect()
    await session.write(KEY, b"", ABSENT, await session.campaign(DISPATCHER, "host:1"))
    for parent, folders, files in os.walk(tmp_path / "store"):
        for name in (*folders, *files):
            mode = os.stat(os.path.join(parent, name)).st_mode
            assert not mode & (stat.S_IRWXG | stat.S_IRWXO), name


async def test_waiting_sessions_are_not_woken_while_nothing_changes(tmp_path: Path) -> None:
    shared = SharedFolder(tmp_path / "store", look_every=0.001, patience=DEADLINE)
    session = DirectorySession(Connection(shared))
    lead = await session.campaign(DISPATCHER, "host:1")
    over = asyncio.create_task(session.changed(DISPATCHER, lead.epoch))
    await shared.next_move().wait()  # by the first check, which cannot know what is new
    await still_waits(asyncio.create_task(shared.next_move().wait()))
    await session.close()
    assert await over is None


# Leftovers of crashes


async def test_a_file_half_written_by_a_crashed_writer_is_ignored(connect: Connect, tmp_path: Path) -> None:
    first = connect()
    lead = await first.campaign(DISPATCHER, "host:1")
    version = await first.write(KEY, b"whole", ABSENT, lead)
    await asyncio.to_thread((tmp_path / "store/new").write_bytes, b"00000000\nhal")
    second = connect()
    assert await second.read(KEY) == Entry(b"whole", version)
    assert await second.names(Kind.JOB_GRAPH) == ["a"]
    assert await second.leader(DISPATCHER) == KnownLeader("host:1", lead.epoch)
    assert await first.write(KEY, b"next", version, lead) > version


async def test_a_crashed_session_stops_leading_and_its_file_is_removed(connect: Connect, tmp_path: Path) -> None:
    sessions = tmp_path / "store/sessions"
    first = connect()
    lead = await first.campaign(DISPATCHER, "host:1")
    left_over = sessions / os.listdir(sessions)[0]
    await first.close()
    await asyncio.to_thread(left_over.touch)  # as the kernel leaves it: present, and not locked
    second = connect()
    assert await second.leader(DISPATCHER) is None
    assert left_over.name not in os.listdir(sessions)
    assert (await second.campaign(DISPATCHER, "host:2")).epoch > lead.epoch


@pytest.mark.parametrize("damage", [b"", b"0000", b"00000000\n1\nother"])
async def test_a_damaged_entry_is_an_error_that_names_its_file_and_affects_no_other(
    connect: Connect, tmp_path: Path, damage: bytes
) -> None:
    session = connect()
    lead = await session.campaign(DISPATCHER, "host:1")
    version = await session.write(KEY, b"1", ABSENT, lead)
    await asyncio.to_thread((tmp_path / "store/entries/job-graphs/a.entry").write_bytes, damage)
    with pytest.raises(DamagedError, match=r"job-graphs/a\.entry is damaged"):
        await session.read(KEY)
    with pytest.raises(DamagedError):
        await session.write(KEY, b"2", version, lead)
    await session.write(Key(Kind.JOB_GRAPH, "b"), b"", ABSENT, lead)


async def test_damaged_elections_never_repeat_an_epoch(connect: Connect, tmp_path: Path) -> None:
    session = connect()
    lead = await session.campaign(DISPATCHER, "host:1")
    elections = tmp_path / "store/elections"
    whole = await asyncio.to_thread(elections.read_bytes)
    await asyncio.to_thread(elections.write_bytes, whole[:-1])
    for call in (session.campaign(DISPATCHER, "host:2"), session.write(KEY, b"", ABSENT, lead)):
        with pytest.raises(DamagedError, match="elections is damaged"):
            await call
    over = asyncio.create_task(session.changed(DISPATCHER, lead.epoch))
    await still_waits(over)
    await asyncio.to_thread(elections.write_bytes, whole)
    await session.resign(lead)
    assert await over is None


# Connections


async def test_a_session_whose_file_was_deleted_is_lost_and_the_next_call_begins_another(
    connect: Connect, tmp_path: Path
) -> None:
    session = connect()
    lead = await session.campaign(DISPATCHER, "host:1")
    over = asyncio.create_task(session.changed(DISPATCHER, lead.epoch))
    await still_waits(over)
    sessions = tmp_path / "store/sessions"
    os.unlink(sessions / os.listdir(sessions)[0])
    assert await over is None
    with pytest.raises(FencedError):
        await changes.change(session, KEY, lead, lambda _: b"late")
    assert (await session.campaign(DISPATCHER, "host:1")).epoch > lead.epoch


async def test_calls_in_progress_are_notified_when_the_session_is_lost(connect: Connect, tmp_path: Path) -> None:
    session = connect()
    await session.connected()
    sessions = tmp_path / "store/sessions"
    os.unlink(sessions / os.listdir(sessions)[0])
    with pytest.raises(SessionLostError):
        await session.read(KEY)
    assert await session.read(KEY) is None


async def test_a_store_whose_lock_is_held_does_not_respond_and_the_outcome_of_writes_is_known_afterwards(
    connect: Connect, tmp_path: Path
) -> None:
    leader, session = connect(), connect(patience=0.01)
    lead = await leader.campaign(DISPATCHER, "host:1")
    over = asyncio.create_task(session.changed(DISPATCHER, lead.epoch))
    held = await asyncio.to_thread(take_lock, tmp_path / "store/lock")
    for _ in range(2):
        with pytest.raises(SuspendedError):
            await session.write(KEY, b"?", ABSENT, lead)
    back = asyncio.create_task(session.connected())
    await still_waits(back)
    release_lock(held)
    await back
    found = await leader.read(KEY)
    assert found in (None, Entry(b"?", 1))
    await leader.write(KEY, b"known", found.version if found else ABSENT, lead)
    await still_waits(over)


async def test_a_disk_that_refuses_writes_is_a_store_that_does_not_respond(connect: Connect, tmp_path: Path) -> None:
    session = connect()
    lead = await session.campaign(DISPATCHER, "host:1")
    entries, aside = tmp_path / "store/entries/job-graphs", tmp_path / "aside"
    os.rename(entries, aside)
    with pytest.raises(SuspendedError):
        await session.write(KEY, b"1", ABSENT, lead)
    writing = asyncio.create_task(changes.change(session, KEY, lead, lambda _: b"1"))
    await still_waits(writing)
    os.rename(aside, entries)
    await writing
    assert await changes.read(session, KEY) == b"1"


async def test_a_candidate_that_stood_down_while_the_disk_refused_writes_does_not_lead_afterwards(
    connect: Connect, tmp_path: Path
) -> None:
    first, second = connect(), connect()
    lead = await first.campaign(DISPATCHER, "host:1")
    standing_down = asyncio.create_task(second.campaign(DISPATCHER, "host:2"))
    in_the_way = tmp_path / "store/new"
    await until_in_line(tmp_path, "host:2")
    os.mkdir(in_the_way)
    standing_down.cancel()
    await asyncio.gather(standing_down, return_exceptions=True)
    with pytest.raises(SuspendedError):
        await first.resign(lead)
    os.rmdir(in_the_way)
    await changes.resign(first, lead)
    third = connect()
    assert (await third.campaign(DISPATCHER, "host:3")).epoch > lead.epoch
