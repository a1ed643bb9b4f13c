"""Every implementation of the store, and a session of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from store_implementations import IMPLEMENTATIONS, Led, StoreServer

from millstream.core.services.leader_lookup import Role
from millstream.core.store.store import Contest


@pytest.fixture(params=IMPLEMENTATIONS)
def server(request: pytest.FixtureRequest) -> StoreServer:
    made: StoreServer = IMPLEMENTATIONS[request.param]()
    return made


@pytest.fixture
def led(server: StoreServer) -> AbstractAsyncContextManager[Led]:
    @asynccontextmanager
    async def leading() -> AsyncIterator[Led]:
        store = server.connect()
        yield store, await store.campaign(Contest(Role.DISPATCHER), "host:1")
        await store.close()

    return leading()
