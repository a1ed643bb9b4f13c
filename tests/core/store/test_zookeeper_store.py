"""What the store on ZooKeeper does beyond the suite of all stores: ensembles, credentials, servers that go away."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys

import pytest
from interrupted_zookeeper import PATIENT, ZookeeperServer
from kazoo.exceptions import NoAuthError
from ports import free_port
from zookeeper_process import PASSWORD, USER
from zookeeper_proxy import ZookeeperProxy

from millstream.core.errors import MillstreamError
from millstream.core.jobs.ids import ANY_EPOCH, JobId
from millstream.core.services.leader_lookup import KnownLeader, Role
from millstream.core.store.changes import change
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
from millstream.core.store.zookeeper.opening import open_store
from millstream.core.store.zookeeper.settings import Acl, Credentials, ZookeeperSettings

DISPATCHER = Contest(Role.DISPATCHER)
KEY = Key(Kind.JOB_GRAPH, "a")
process = pytest.mark.process


def settings(zookeeper: ZookeeperServer, port: int | None = None) -> ZookeeperSettings:
    return ZookeeperSettings(f"127.0.0.1:{port or zookeeper.process.port}", zookeeper.root, PATIENT)


# Settings


@pytest.mark.parametrize("root", ["", "/", "millstream", "/a/", "/a//b", "/a/../b"])
def test_a_root_that_is_not_a_path_below_that_of_zookeeper_is_refused(root: str) -> None:
    with pytest.raises(ValueError, match="is no path in ZooKeeper below its root"):
        ZookeeperSettings("host:2181", root)


@pytest.mark.parametrize("quorum", ["", "host:2181/chroot"])
def test_an_invalid_quorum_is_refused(quorum: str) -> None:
    with pytest.raises(ValueError, match="is no quorum of ZooKeeper"):
        ZookeeperSettings(quorum)


def test_an_acl_requires_a_user_name() -> None:
    with pytest.raises(ValueError, match="the ACL 'creator' needs credentials"):
        ZookeeperSettings("host:2181", acl=Acl.CREATOR)


def test_settings_do_not_show_the_password() -> None:
    assert "secret" not in repr(ZookeeperSettings("host:2181", credentials=Credentials("me", "secret")))


def test_without_kazoo_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "millstream.core.store.zookeeper.store", raising=False)
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    with pytest.raises(MillstreamError, match=r"pip install 'millstream\[zookeeper\]'"):
        open_store(ZookeeperSettings("host:2181"))


@process
def test_a_start_without_zookeeper_does_not_load_kazoo() -> None:
    services = ("dispatcher", "resourcemanager", "jobmanager")
    imports = ", ".join(f"millstream.{service}.service" for service in services)
    seen = f"import sys, {imports}, millstream.core.store.zookeeper.opening; print('kazoo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", seen], capture_output=True, check=True).stdout.strip() == b"False"


# Ensembles and servers that go away


@process
async def test_an_unavailable_server_of_the_quorum_is_skipped(zookeeper: ZookeeperServer) -> None:
    away = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    store = open_store(
        ZookeeperSettings(",".join([*away, f"127.0.0.1:{zookeeper.process.port}"]), zookeeper.root, PATIENT)
    )
    lead = await store.campaign(DISPATCHER, "host:1")
    assert await store.write(KEY, b"1", ABSENT, lead) == 1
    await store.close()


@process
async def test_a_leader_continues_when_zookeeper_was_killed_and_is_back(zookeeper: ZookeeperServer) -> None:
    store = open_store(settings(zookeeper))
    lead = await store.campaign(DISPATCHER, "host:1")
    await store.write(KEY, b"1", ABSENT, lead)
    over = asyncio.create_task(store.changed(DISPATCHER, lead.epoch))
    zookeeper.process.stop()
    with pytest.raises(SuspendedError):
        await store.read(KEY)
    await asyncio.to_thread(zookeeper.process.start)
    await change(store, KEY, lead, lambda value: (value or b"") + b"2")
    assert await store.read(KEY) == Entry(b"12", 2)
    assert not over.done()
    await store.close()
    assert await over is None


@process
async def test_a_leader_that_is_cut_off_is_replaced_and_changes_nothing_when_it_is_back(
    zookeeper: ZookeeperServer,
) -> None:
    proxy = ZookeeperProxy(zookeeper.process.port)
    quorum = f"127.0.0.1:{proxy.port}"
    old = open_store(ZookeeperSettings(quorum, zookeeper.root, session_timeout=1.0))
    new = open_store(settings(zookeeper))
    lead = await old.campaign(DISPATCHER, "host:1")
    version = await old.write(KEY, b"old", ABSENT, lead)
    following = asyncio.create_task(new.campaign(DISPATCHER, "host:2"))
    proxy.suspend()
    next_lead = await following
    assert next_lead.epoch > lead.epoch
    with pytest.raises(SuspendedError):
        await old.write(KEY, b"late", version, lead)
    over = asyncio.create_task(old.changed(DISPATCHER, lead.epoch))
    proxy.resume()
    await over
    await old.connected()
    with pytest.raises(FencedError):
        await old.write(KEY, b"late", version, lead)
    assert await old.leader(DISPATCHER) == KnownLeader("host:2", next_lead.epoch)
    assert await new.read(KEY) == Entry(b"old", version)
    await old.close()
    await new.close()
    await asyncio.to_thread(proxy.close)


async def test_a_store_that_never_responded_is_closed_nevertheless() -> None:
    store = open_store(ZookeeperSettings(f"127.0.0.1:{free_port()}"))
    waiting = asyncio.create_task(store.campaign(DISPATCHER, "host:1"))
    known = asyncio.create_task(store.changed(DISPATCHER, ANY_EPOCH))
    with pytest.raises(SuspendedError):
        await store.read(KEY)
    await store.close()
    with pytest.raises(SessionLostError):
        await waiting
    known.cancel()


@process
async def test_a_server_that_does_not_respond_blocks_neither_the_loop_nor_the_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the system accepts, and nothing is read
        store = open_store(ZookeeperSettings(f"127.0.0.1:{silent.getsockname()[1]}", session_timeout=300.0))
        with pytest.raises(SuspendedError):
            await store.read(KEY)
        async with asyncio.timeout(60):
            await store.close()
        with pytest.raises(SessionLostError):
            await store.connected()


# Credentials


@process
async def test_nodes_created_under_the_acl_of_creators_are_not_readable_by_others(zookeeper: ZookeeperServer) -> None:
    quorum = f"127.0.0.1:{zookeeper.process.port}"
    store = open_store(
        ZookeeperSettings(quorum, zookeeper.root, PATIENT, acl=Acl.CREATOR, credentials=Credentials(USER, PASSWORD))
    )
    lead = await store.campaign(DISPATCHER, "host:1")
    await store.write(KEY, b"mine", ABSENT, lead)
    for path in (zookeeper.layout.entry(KEY), zookeeper.root):
        with pytest.raises(NoAuthError):
            await asyncio.to_thread(zookeeper.observer.get, path)
    with pytest.raises(NoAuthError):
        await asyncio.to_thread(zookeeper.observer.get_children, zookeeper.layout.line(DISPATCHER))
    await store.close()


@process
async def test_wrong_credentials_are_logged_and_retried(
    zookeeper: ZookeeperServer, caplog: pytest.LogCaptureFixture
) -> None:
    logged = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "it refuses the user 'millstream', or the password" in record.getMessage():
                loop.call_soon_threadsafe(logged.set)

    listener = Listener()
    logging.getLogger("millstream").addHandler(listener)
    caplog.set_level(logging.DEBUG)
    quorum = f"127.0.0.1:{zookeeper.process.port}"
    store = open_store(ZookeeperSettings(quorum, zookeeper.root, 1.0, credentials=Credentials(USER, "wr0ng-one")))
    for _ in range(2):
        await logged.wait()
        logged.clear()
        with pytest.raises(SessionLostError):
            await store.read(KEY)
    await store.close()
    logging.getLogger("millstream").removeHandler(listener)
    assert "wr0ng-one" not in caplog.text


# Leftovers


@process
async def test_nothing_is_left_of_a_contest_without_a_leader(zookeeper: ZookeeperServer) -> None:
    contest = Contest(Role.JOB_MANAGER, JobId("job/1"))
    stores = [open_store(settings(zookeeper)) for _ in range(2)]
    lead = await stores[0].campaign(contest, "host:1")
    line = zookeeper.layout.line(contest)
    assert await asyncio.to_thread(zookeeper.observer.exists, line) is not None
    await stores[0].resign(lead)
    assert await asyncio.to_thread(zookeeper.observer.exists, line) is None
    watching = asyncio.create_task(stores[1].changed(contest, ANY_EPOCH))
    again = await stores[0].campaign(contest, "host:1")
    assert again.epoch > lead.epoch
    assert await watching == KnownLeader("host:1", again.epoch)
    for store in stores:
        await store.close()
