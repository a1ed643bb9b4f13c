"""Every implementation of the store, and a session of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from store_implementations import IMPLEMENTATIONS, Led, StoreServer
from waiting import run
from zookeeper_process import ZookeeperProcess, running_zookeeper, why_not

from millstream.core.services.leader_lookup import Role
from millstream.core.store.store import Contest

if TYPE_CHECKING:
    from interrupted_zookeeper import ZookeeperServer


@pytest.fixture(params=[*IMPLEMENTATIONS, pytest.param("zookeeper", marks=pytest.mark.process)])
def server(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    if request.param == "zookeeper":
        yield request.getfixturevalue("zookeeper")
        return
    made: StoreServer = IMPLEMENTATIONS[request.param]()
    yield made
    run(made.close)


@pytest.fixture(scope="session")
def zookeeper_process() -> Iterator[ZookeeperProcess]:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with running_zookeeper() as process:
        yield process


@pytest.fixture
def zookeeper(zookeeper_process: ZookeeperProcess) -> Iterator[ZookeeperServer]:
    from interrupted_zookeeper import ZookeeperServer
    from kazoo.client import KazooClient

    observer = KazooClient(f"127.0.0.1:{zookeeper_process.port}")
    observer.start()
    made = ZookeeperServer(zookeeper_process, observer)
    yield made
    run(made.close)
    observer.stop()
    observer.close()


@pytest.fixture
def led(server: StoreServer) -> AbstractAsyncContextManager[Led]:
    @asynccontextmanager
    async def leading() -> AsyncIterator[Led]:
        store = server.connect()
        yield store, await store.campaign(Contest(Role.DISPATCHER), "host:1")
        await store.close()

    return leading()
