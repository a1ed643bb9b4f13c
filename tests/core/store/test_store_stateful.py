"""A store compared with a model of it: any number of candidates, writes and interruptions in any order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from store_implementations import IMPLEMENTATIONS, InterruptedStore, StoreServer
from thoroughness import cases

from millstream.core.jobs.ids import ANY_EPOCH, JobId, LeaderEpoch
from millstream.core.services.leader_lookup import KnownLeader, Role
from millstream.core.store.store import (
    ABSENT,
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

T = TypeVar("T")
CONTESTS = [Contest(Role.DISPATCHER), Contest(Role.JOB_MANAGER, JobId("j"))]
KEYS = [Key(Kind.JOB_GRAPH, "a"), Key(Kind.CHECKPOINTS, "a")]
SESSIONS = range(3)
session_numbers = st.sampled_from(SESSIONS)
contests = st.sampled_from(CONTESTS)
keys = st.sampled_from(KEYS)


@dataclass(eq=False)
class Candidate:
    """One session in a contest, from its campaign to the end of its leadership."""

    contest: Contest
    session: int
    campaign: asyncio.Task[Leadership]
    epoch: LeaderEpoch = ANY_EPOCH

    @property
    def address(self) -> str:
        return f"host:{self.session}"


@dataclass
class Model:
    """The expected store; the first candidate of a line leads."""

    entries: dict[Key, Entry] = field(default_factory=dict)
    lines: dict[Contest, list[Candidate]] = field(default_factory=lambda: {contest: [] for contest in CONTESTS})
    state: list[str] = field(default_factory=lambda: ["connected"] * len(SESSIONS))

    def leads(self, lead: Leadership) -> bool:
        return any(candidate.epoch == lead.epoch for candidate in self.lines[lead.contest][:1])


class StoreMachine(RuleBasedStateMachine):
    implementation = "memory"

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.server = self.new_server()
        self.observer: InterruptedStore = self.server.connect()
        self.sessions = [self.server.connect() for _ in SESSIONS]
        for session in self.sessions:
            self.run(session.connected())
        self.model = Model()
        self.leaderships: list[Leadership] = []
        self.waiting: list[Candidate] = []  # without a session, to be in line again when there is one

    def new_server(self) -> StoreServer:
        return IMPLEMENTATIONS[self.implementation]()

    async def settle(self) -> None:
        await self.server.settle()

    def leads(self, line: list[Candidate]) -> bool:
        """Whether there is a leader."""
        return bool(line)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.get_loop().run_until_complete(work)

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.close()
            asyncio.run(self.server.close())

    def candidate(self, session: int, contest: Contest) -> Candidate | None:
        everybody = (*self.model.lines[contest], *self.waiting)
        return next((c for c in everybody if (c.session, c.contest) == (session, contest)), None)

    def expect(self, session: int, work: Coroutine[Any, Any, T], refusal: type[Exception] | None = None) -> T | None:
        """Runs a call, which raises as the state of its session requires, or with the refusal."""
        state = self.model.state[session]
        raised = {"suspended": SuspendedError, "lost": SessionLostError}.get(state, refusal)
        if raised is None:
            return self.run(work)
        with pytest.raises(raised):
            self.run(work)
        return None

    # Leaders

    @rule(session=session_numbers, contest=contests)
    def campaign(self, session: int, contest: Contest) -> None:
        if self.candidate(session, contest) is not None:
            return

        async def begin() -> asyncio.Task[Leadership]:
            return asyncio.create_task(self.sessions[session].campaign(contest, f"host:{session}"))

        candidate = Candidate(contest, session, self.run(begin()))
        if self.model.state[session] == "connected":
            self.model.lines[contest].append(candidate)
        else:
            self.waiting.append(candidate)

    @precondition(lambda self: self.leaderships)
    @rule(session=session_numbers, data=st.data())
    def resign(self, session: int, data: st.DataObject) -> None:
        lead = data.draw(st.sampled_from(self.leaderships))
        self.expect(session, self.sessions[session].resign(lead))
        if self.model.state[session] == "connected" and self.model.leads(lead):
            del self.model.lines[lead.contest][0]

    @rule(session=session_numbers, contest=contests)
    def stand_down(self, session: int, contest: Contest) -> None:
        candidate = self.candidate(session, contest)
        if candidate is not None and not candidate.campaign.done():
            candidate.campaign.cancel()
            for place in (self.model.lines[contest], self.waiting):
                if candidate in place:
                    place.remove(candidate)

    # Interruptions

    def interrupt(self, call: Callable[[], None]) -> None:
        async def on_the_loop() -> None:
            call()

        self.run(on_the_loop())

    @rule(session=session_numbers)
    def suspend(self, session: int) -> None:
        if self.model.state[session] == "connected":
            self.interrupt(self.sessions[session].suspend)
            self.model.state[session] = "suspended"

    @rule(session=session_numbers)
    def lose(self, session: int) -> None:
        self.interrupt(self.sessions[session].lose)
        self.model.state[session] = "lost"
        for line in self.model.lines.values():
            for candidate in [c for c in line if c.session == session]:
                line.remove(candidate)
                if not candidate.campaign.done():
                    candidate.epoch = ANY_EPOCH
                    self.waiting.append(candidate)

    @rule(session=session_numbers)
    def resume(self, session: int) -> None:
        self.interrupt(self.sessions[session].resume)
        self.model.state[session] = "connected"
        for candidate in [c for c in self.waiting if c.session == session]:
            self.waiting.remove(candidate)
            self.model.lines[candidate.contest].append(candidate)

    # Entries

    @precondition(lambda self: self.leaderships)
    @rule(
        session=session_numbers, key=keys, value=st.none() | st.binary(max_size=3), off=st.integers(-1, 1),
        latest=st.booleans(), data=st.data(),
    )  # fmt: skip
    def write(self, session: int, key: Key, value: bytes | None, off: int, latest: bool, data: st.DataObject) -> None:
        lead = self.leaderships[-1] if latest else data.draw(st.sampled_from(self.leaderships))
        current = self.model.entries.get(key)
        version = current.version if current is not None else ABSENT
        expected = max(version + off, ABSENT)
        refusal: type[Exception] | None = None
        if not self.model.leads(lead):
            refusal = FencedError
        elif expected != version:
            refusal = ConflictError
        store = self.sessions[session]
        takes_effect = refusal is None and self.model.state[session] == "connected"
        if value is None:
            self.expect(session, store.remove(key, expected, lead), refusal)
            if takes_effect:
                self.model.entries.pop(key, None)
        else:
            written = self.expect(session, store.write(key, value, expected, lead), refusal)
            if takes_effect:
                assert written is not None
                assert written > version
                self.model.entries[key] = Entry(value, written)

    @rule(session=session_numbers, key=keys)
    def read(self, session: int, key: Key) -> None:
        found = self.expect(session, self.sessions[session].read(key))
        if self.model.state[session] == "connected":
            assert found == self.model.entries.get(key)

    # What always holds

    @invariant()
    def is_as_the_model_says(self) -> None:
        if not hasattr(self, "runner"):
            return
        self.run(self.settle())
        for contest, line in self.model.lines.items():
            leader = self.run(self.observer.leader(contest))
            if not self.leads(line):
                assert leader is None
                continue
            assert leader is not None
            assert leader.address == line[0].address
            if line[0].epoch == ANY_EPOCH:
                line[0].epoch = leader.epoch
                assert all(leader.epoch > lead.epoch for lead in self.leaderships if lead.contest == contest)
            assert leader == KnownLeader(line[0].address, line[0].epoch)
            if self.model.state[line[0].session] == "connected":
                won = line[0].campaign.result()
                assert won == Leadership(contest, leader.epoch)
                if won not in self.leaderships:
                    assert won.epoch not in [lead.epoch for lead in self.leaderships]
                    self.leaderships.append(won)
            assert not any(candidate.campaign.done() for candidate in line[1:])
        assert not any(candidate.campaign.done() for candidate in self.waiting)
        for kind in Kind:
            assert self.run(self.observer.names(kind)) == sorted(k.name for k in self.model.entries if k.kind is kind)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_store_agrees_with_its_model_after_every_step(implementation: str) -> None:
    machine = type("Machine", (StoreMachine,), {"implementation": implementation})
    run_state_machine_as_test(machine, settings=settings(max_examples=cases(100), stateful_step_count=40))
