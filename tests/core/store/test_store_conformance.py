"""What every store does: the guarantees at the head of `millstream.core.store.store`, one by one."""

from __future__ import annotations

import asyncio

import pytest
from store_implementations import Led, StoreServer, still_waits
from waiting import DEADLINE

from millstream.core.errors import UnreachableError
from millstream.core.jobs.ids import ANY_EPOCH, JobId
from millstream.core.services.leader_lookup import KnownLeader, Role
from millstream.core.store.leaders import StoredLeaders
from millstream.core.store.store import (
    ABSENT,
    MAX_VALUE,
    ConflictError,
    Contest,
    Entry,
    FencedError,
    Key,
    Kind,
    Leadership,
    SessionLostError,
    SuspendedError,
)

DISPATCHER = Contest(Role.DISPATCHER)
KEY = Key(Kind.JOB_GRAPH, "a")
OTHER = Key(Kind.JOB_GRAPH, "b")


# Entries


async def test_an_entry_is_created_replaced_and_removed_by_its_version(led: Led) -> None:
    store, lead = led
    assert await store.read(KEY) is None
    first = await store.write(KEY, b"1", ABSENT, lead)
    second = await store.write(KEY, b"", first, lead)
    assert second > first > ABSENT
    assert await store.read(KEY) == Entry(b"", second)
    await store.remove(KEY, second, lead)
    assert await store.read(KEY) is None
    await store.write(KEY, b"again", ABSENT, lead)


async def test_a_write_to_another_version_than_the_current_one_is_refused_and_changes_nothing(led: Led) -> None:
    store, lead = led
    with pytest.raises(ConflictError, match="job-graphs/a has another version than 1"):
        await store.write(KEY, b"new", 1, lead)
    with pytest.raises(ConflictError):
        await store.remove(KEY, 1, lead)
    old = await store.write(KEY, b"1", ABSENT, lead)
    now = await store.write(KEY, b"2", old, lead)
    for expected in (ABSENT, old):
        with pytest.raises(ConflictError):
            await store.write(KEY, b"3", expected, lead)
        with pytest.raises(ConflictError):
            await store.remove(KEY, expected, lead)
    assert await store.read(KEY) == Entry(b"2", now)


async def test_names_are_those_of_one_kind_sorted(led: Led) -> None:
    store, lead = led
    assert await store.names(Kind.JOB_GRAPH) == []
    for name in ("b", "a.B-1_2", "a"):
        await store.write(Key(Kind.JOB_GRAPH, name), b"", ABSENT, lead)
    await store.write(Key(Kind.CHECKPOINTS, "c"), b"", ABSENT, lead)
    assert await store.names(Kind.JOB_GRAPH) == ["a", "a.B-1_2", "b"]
    assert await store.names(Kind.CHECKPOINTS) == ["c"]


async def test_values_are_any_bytes_up_to_a_limit(led: Led) -> None:
    store, lead = led
    value = bytes(range(256)) * (MAX_VALUE // 256)
    version = await store.write(KEY, value, ABSENT, lead)
    assert await store.read(KEY) == Entry(value, version)
    with pytest.raises(ValueError, match="job-graphs/b: 262145 bytes are more than 262144"):
        await store.write(OTHER, value + b"!", ABSENT, lead)
    assert await store.read(OTHER) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "a" * 121, "a\n"])
def test_a_name_that_is_not_a_portable_part_of_a_path_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no name in the store"):
        Key(Kind.JOB_GRAPH, name)


async def test_writes_of_one_session_are_read_by_the_others(server: StoreServer, led: Led) -> None:
    store, lead = led
    await store.write(KEY, b"1", ABSENT, lead)
    reader = server.connect()
    successor = asyncio.create_task(reader.campaign(DISPATCHER, "host:2"))
    await still_waits(successor)
    await store.resign(lead)
    await successor  # from here on, it sees all earlier writes
    assert await reader.read(KEY) == await store.read(KEY)
    assert await reader.names(Kind.JOB_GRAPH) == ["a"]


async def test_of_concurrent_compare_and_sets_each_takes_effect_once(server: StoreServer, led: Led) -> None:
    store, lead = led

    async def count(times: int) -> int:
        session, refused = server.connect(), 0
        while times:
            entry = await session.read(KEY)
            await asyncio.sleep(0)
            number = int(entry.value) if entry is not None else 0
            try:
                await session.write(KEY, b"%d" % (number + 1), entry.version if entry else ABSENT, lead)
                times -= 1
            except ConflictError:
                refused += 1
        return refused

    refused = await asyncio.gather(*(count(10) for _ in range(4)))
    assert sum(refused) > 0
    assert (await store.read(KEY)).value == b"40"


# Elections


async def test_one_candidate_leads_and_the_others_wait_in_line(server: StoreServer) -> None:
    sessions = [server.connect() for _ in range(3)]
    first = await sessions[0].campaign(DISPATCHER, "host:0")
    waiting = []
    for number, session in enumerate(sessions[1:], 1):
        waiting.append(asyncio.create_task(session.campaign(DISPATCHER, f"host:{number}")))
        await still_waits(waiting[-1])
    assert await sessions[2].leader(DISPATCHER) == KnownLeader("host:0", first.epoch)
    await sessions[0].resign(first)
    second = await waiting[0]
    await still_waits(waiting[1])
    await sessions[1].close()
    third = await waiting[1]
    assert ANY_EPOCH < first.epoch < second.epoch < third.epoch
    assert await sessions[0].leader(DISPATCHER) == KnownLeader("host:2", third.epoch)
    await sessions[2].resign(third)
    await sessions[2].resign(third)
    assert await sessions[0].leader(DISPATCHER) is None


async def test_contests_are_independent_but_no_epoch_occurs_twice(server: StoreServer) -> None:
    one, other = server.connect(), server.connect()
    jobs = [Contest(Role.JOB_MANAGER, JobId(name)) for name in ("j1", "j2")]
    led = [await one.campaign(contest, "host:1") for contest in (*jobs, Contest(Role.JOB_MANAGER))]
    led.append(await other.campaign(DISPATCHER, "host:2"))
    await one.resign(led[0])
    assert await other.leader(jobs[1]) == KnownLeader("host:1", led[1].epoch)
    led.append(await other.campaign(jobs[0], "host:2"))
    assert len({lead.epoch for lead in led}) == 5
    assert led[-1].epoch == max(lead.epoch for lead in led)


async def test_a_candidate_that_stands_down_is_skipped(server: StoreServer) -> None:
    first, second, third = (server.connect() for _ in range(3))
    lead = await first.campaign(DISPATCHER, "host:1")
    standing_down = asyncio.create_task(second.campaign(DISPATCHER, "host:2"))
    await still_waits(standing_down)
    waiting = asyncio.create_task(third.campaign(DISPATCHER, "host:3"))
    await still_waits(waiting)
    standing_down.cancel()
    await asyncio.gather(standing_down, return_exceptions=True)
    await first.resign(lead)
    assert (await waiting).epoch > lead.epoch


async def test_one_session_may_stand_in_line_behind_itself(server: StoreServer) -> None:
    session = server.connect()
    first = await session.campaign(DISPATCHER, "host:1")
    second = asyncio.create_task(session.campaign(DISPATCHER, "host:2"))
    await still_waits(second)
    await session.resign(first)
    assert (await second).epoch > first.epoch


# Fencing


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("followed", [False, True])
async def test_nothing_is_written_for_a_leadership_that_has_ended(
    server: StoreServer, led: Led, lost: bool, followed: bool
) -> None:
    store, lead = led
    version = await store.write(KEY, b"mine", ABSENT, lead)
    if lost:
        store.lose()
        store.resume()
    else:
        await store.resign(lead)
    successor = server.connect()
    if followed:
        await successor.campaign(DISPATCHER, "host:2")
    for session in (store, successor):
        with pytest.raises(FencedError, match=f"epoch {lead.epoch} of dispatcher is over"):
            await session.write(KEY, b"late", version, lead)
        for call in (
            session.write(OTHER, b"late", ABSENT, lead),
            session.remove(KEY, version, lead),
            session.write(KEY, b"late", version + 7, lead),  # before any other check
        ):
            with pytest.raises(FencedError):
                await call
    assert await successor.read(KEY) == Entry(b"mine", version)
    assert await successor.read(OTHER) is None


async def test_a_leader_that_succeeds_itself_writes_only_under_its_new_epoch(led: Led) -> None:
    store, lead = led
    store.lose()
    store.resume()
    again = await store.campaign(DISPATCHER, "host:1")
    assert again.epoch > lead.epoch
    with pytest.raises(FencedError):
        await store.write(KEY, b"old", ABSENT, lead)
    await store.write(KEY, b"new", ABSENT, again)


async def test_the_leader_of_one_job_does_not_lead_another(server: StoreServer) -> None:
    session = server.connect()
    lead = await session.campaign(Contest(Role.JOB_MANAGER, JobId("j1")), "host:1")
    await session.campaign(Contest(Role.JOB_MANAGER, JobId("j2")), "host:1")
    made_up = Leadership(Contest(Role.JOB_MANAGER, JobId("j2")), lead.epoch)
    with pytest.raises(FencedError, match="jobmanager of job j2"):
        await session.write(KEY, b"", ABSENT, made_up)


# Connections


async def test_a_suspended_session_gets_no_responses_and_still_leads(server: StoreServer, led: Led) -> None:
    store, lead = led
    other = server.connect()
    store.suspend()
    for call in (store.read(KEY), store.names(Kind.JOB_GRAPH), store.leader(DISPATCHER), store.resign(lead)):
        with pytest.raises(SuspendedError):
            await call
    with pytest.raises(SuspendedError):
        await store.write(KEY, b"", ABSENT, lead)
    assert await other.leader(DISPATCHER) == KnownLeader("host:1", lead.epoch)
    back = asyncio.create_task(store.connected())
    await still_waits(back)
    store.resume()
    await back
    await store.write(OTHER, b"continues", ABSENT, lead)


@pytest.mark.parametrize("takes_effect", [False, True])
async def test_a_write_without_a_response_may_have_taken_effect_which_a_read_shows(
    led: Led, takes_effect: bool
) -> None:
    store, lead = led
    store.suspend_within_write(takes_effect)
    with pytest.raises(SuspendedError):
        await store.write(KEY, b"?", ABSENT, lead)
    store.resume()
    assert (await store.read(KEY) is not None) is takes_effect


async def test_a_lost_session_stops_leading_and_a_new_one_begins(server: StoreServer, led: Led) -> None:
    store, lead = led
    other = server.connect()
    next_one = asyncio.create_task(other.campaign(DISPATCHER, "host:2"))
    await still_waits(next_one)
    store.suspend()
    await still_waits(next_one)
    store.lose()
    assert (await next_one).epoch > lead.epoch
    with pytest.raises(SessionLostError):
        await store.read(KEY)
    with pytest.raises(SessionLostError):
        await store.write(KEY, b"", ABSENT, lead)
    store.resume()
    await store.connected()
    assert await store.leader(DISPATCHER) == KnownLeader("host:2", (await next_one).epoch)


async def test_a_candidacy_outlives_lost_sessions(server: StoreServer, led: Led) -> None:
    store, lead = led
    candidate = server.connect()
    waiting = asyncio.create_task(candidate.campaign(DISPATCHER, "host:2"))
    await still_waits(waiting)
    candidate.lose()
    await still_waits(waiting)
    await store.resign(lead)
    assert await store.leader(DISPATCHER) is None  # it is in line again when it has a session
    await still_waits(waiting)
    candidate.resume()
    again = await waiting
    assert await store.leader(DISPATCHER) == KnownLeader("host:2", again.epoch)


async def test_a_candidate_that_is_suspended_when_its_turn_comes_leads_when_it_is_back(
    server: StoreServer, led: Led
) -> None:
    store, lead = led
    candidate = server.connect()
    waiting = asyncio.create_task(candidate.campaign(DISPATCHER, "host:2"))
    await still_waits(waiting)
    candidate.suspend()
    await store.resign(lead)
    await still_waits(waiting)
    candidate.resume()
    await candidate.write(KEY, b"", ABSENT, await waiting)


async def test_a_closed_session_has_ended_permanently(server: StoreServer, led: Led) -> None:
    store, _ = led
    waiting = asyncio.create_task(store.campaign(DISPATCHER, "host:2"))
    await still_waits(waiting)
    await store.close()
    await store.close()
    store.resume()
    for call in (store.read(KEY), store.connected(), store.campaign(DISPATCHER, "host:3"), waiting):
        with pytest.raises(SessionLostError):
            await call
    assert await server.connect().leader(DISPATCHER) is None


# Looking for leaders


async def test_waiting_for_another_leader_reports_the_next_and_the_absence_of_one(server: StoreServer) -> None:
    watcher, first, second = (server.connect() for _ in range(3))
    coming = asyncio.create_task(watcher.changed(DISPATCHER, ANY_EPOCH))
    await still_waits(coming)
    lead = await first.campaign(DISPATCHER, "host:1")
    assert await coming == KnownLeader("host:1", lead.epoch)
    going = asyncio.create_task(watcher.changed(DISPATCHER, lead.epoch))
    await still_waits(going)
    await first.resign(lead)
    assert await going is None
    again = await second.campaign(DISPATCHER, "host:2")
    assert await watcher.changed(DISPATCHER, lead.epoch) == KnownLeader("host:2", again.epoch)


async def test_a_leader_is_notified_when_its_session_is_lost_but_not_when_it_is_suspended(led: Led) -> None:
    store, lead = led
    over = asyncio.create_task(store.changed(DISPATCHER, lead.epoch))
    store.suspend()
    await still_waits(over)
    store.resume()
    await still_waits(over)
    store.lose()
    assert await over is None


async def test_the_look_up_finds_the_leader_of_the_store(server: StoreServer) -> None:
    reader, first, second = (server.connect() for _ in range(3))
    leaders = StoredLeaders(reader)
    with pytest.raises(UnreachableError, match="there is no leading dispatcher now"):
        await leaders.leader_of(Role.DISPATCHER)
    lead = await first.campaign(DISPATCHER, "host:1")
    known = await leaders.leader_of(Role.DISPATCHER)
    assert known == KnownLeader("host:1", lead.epoch)
    waiting = asyncio.create_task(second.campaign(DISPATCHER, "host:3"))
    await still_waits(waiting)
    assert await reader.candidates(DISPATCHER) == ["host:1", "host:3"]
    assert await leaders.standing_by(Role.DISPATCHER) == ["host:3"]
    waiting.cancel()
    await asyncio.wait([waiting])
    async with asyncio.timeout(DEADLINE):  # a waiter that gives up leaves the line soon
        while await leaders.standing_by(Role.DISPATCHER):  # noqa: ASYNC110  # the store reports only leaders
            await asyncio.sleep(0)
    assert await leaders.standing_by(Role.RESOURCE_MANAGER) == []
    change = asyncio.create_task(leaders.changed(Role.DISPATCHER, known))
    await still_waits(change)
    await first.resign(lead)
    await still_waits(change)  # no leader is not another leader
    again = await second.campaign(DISPATCHER, "host:2")
    assert await change == KnownLeader("host:2", again.epoch)
    assert await leaders.changed(Role.DISPATCHER, KnownLeader("host:1")) == KnownLeader("host:2", again.epoch)
    reader.suspend()
    with pytest.raises(UnreachableError, match="the leading dispatcher is unknown: the store does not respond"):
        await leaders.leader_of(Role.DISPATCHER)
    assert await leaders.standing_by(Role.DISPATCHER) == []


async def test_the_look_up_after_a_lost_session_finds_the_same_leader_unchanged(server: StoreServer, led: Led) -> None:
    store, _ = led
    reader = server.connect()
    leaders = StoredLeaders(reader)
    change = asyncio.create_task(leaders.changed(Role.DISPATCHER, await leaders.leader_of(Role.DISPATCHER)))
    await still_waits(change)
    reader.lose()
    await still_waits(change)
    reader.resume()
    await still_waits(change)
    await store.close()
    again = await reader.campaign(DISPATCHER, "host:2")
    assert await change == KnownLeader("host:2", again.epoch)
