"""The store on ZooKeeper compared with the model of a store, with real interruptions.

The effects of a session reach ZooKeeper later than the call: after every step, the model is compared with the final
state.
"""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import settings
from hypothesis.stateful import rule, run_state_machine_as_test
from interrupted_zookeeper import ZookeeperServer
from test_store_stateful import Candidate, StoreMachine, contests, session_numbers
from thoroughness import cases
from waiting import wait_until

from millstream.core.jobs.ids import ANY_EPOCH
from millstream.core.store.store import Contest

pytestmark = pytest.mark.process


class ZookeeperMachine(StoreMachine):
    zookeeper: ZookeeperServer

    def new_server(self) -> ZookeeperServer:
        self.zookeeper.use_another_root()
        return self.zookeeper

    def leads(self, line: list[Candidate]) -> bool:
        """A candidate that does not respond claims nothing: there is no leader until it is back, or its session has
        expired.
        """
        return bool(line) and (line[0].epoch != ANY_EPOCH or self.model.state[line[0].session] == "connected")

    @rule(session=session_numbers, contest=contests)
    def stand_down(self, session: int, contest: Contest) -> None:
        """One that does not respond stays in line until it does."""
        if self.model.state[session] != "suspended":
            super().stand_down(session, contest)

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.run(self.end())
        super().teardown()

    async def end(self) -> None:
        """Ends here, as sessions are closed on the loop that owns them."""
        everybody = [candidate.campaign for line in (*self.model.lines.values(), self.waiting) for candidate in line]
        for campaign in everybody:
            campaign.cancel()
        await asyncio.gather(*everybody, return_exceptions=True)
        await self.server.close()

    async def settle(self) -> None:
        await super().settle()
        for contest, line in self.model.lines.items():
            addresses = [candidate.address for candidate in line]
            await asyncio.to_thread(
                wait_until, lambda c=contest, a=addresses: self.zookeeper.candidates(c) == a, f"{addresses} in line"
            )
            if line and self.model.state[line[0].session] == "connected":
                await asyncio.wait([line[0].campaign])


def test_zookeeper_agrees_with_the_model_after_every_step(zookeeper: ZookeeperServer) -> None:
    machine = type("Machine", (ZookeeperMachine,), {"zookeeper": zookeeper})
    run_state_machine_as_test(machine, settings=settings(max_examples=cases(20), stateful_step_count=30))
