"""Heartbeats to a peer that is silent: it is lost unless it responds in the other way."""

from __future__ import annotations

import asyncio
import itertools
import socket

import pytest
from waiting import run

from millstream.core.services.liveness import Liveness
from millstream.core.services.rpc import serve
from millstream.core.services.silence import accepts_connections, until_silent
from millstream.core.settings.configuration import Configuration

HASTY = Configuration({"heartbeat.interval": "10 ms", "heartbeat.timeout": "100 ms"})


def liveness() -> Liveness:
    return Liveness(HASTY, asyncio.get_running_loop().time())


def test_a_peer_that_does_not_respond_is_lost() -> None:
    async def scenario() -> None:
        beats = itertools.count()

        async def responds() -> bool:
            return False

        peer = liveness()
        await until_silent("peer", peer, lambda: next(beats) and None, responds)
        assert next(beats) >= 10
        assert peer.silence > peer.timeout

    run(scenario)


def test_a_peer_that_returns_heartbeats_is_not_checked_otherwise() -> None:
    async def scenario() -> None:
        beats = asyncio.Semaphore(0)
        peer = liveness()

        def beat() -> None:
            peer.heard(asyncio.get_running_loop().time())
            beats.release()

        async def responds() -> bool:
            raise AssertionError("it was heard")

        watch = asyncio.create_task(until_silent("peer", peer, beat, responds))
        for _ in range(30):
            await beats.acquire()
        assert not watch.done()
        watch.cancel()

    run(scenario)


def test_a_silent_peer_that_responds_otherwise_is_lost_only_when_it_stops(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "millstream")

    async def scenario() -> None:
        checks = itertools.count(1)
        number = 0

        async def responds() -> bool:
            nonlocal number
            number = next(checks)
            return number < 20

        peer = liveness()
        await until_silent("slot worker 7", peer, lambda: None, responds)
        assert number >= 20, "it would be lost after 10 beats"

    run(scenario)
    assert "slot worker 7 is silent, but its process responds" in caplog.text


def test_a_check_that_takes_its_time_does_not_put_the_loss_off() -> None:
    async def scenario() -> None:
        async def responds() -> bool:
            await asyncio.Event().wait()
            return True

        await until_silent("peer", liveness(), lambda: None, responds)

    run(scenario)


def test_a_process_that_listens_without_accepting_is_no_response() -> None:
    async def scenario() -> None:
        server, port = await serve("127.0.0.1", 0, [], Configuration(), "taskmanager.host")
        assert await accepts_connections(f"127.0.0.1:{port}", Configuration(), 60.0)
        await server.stop(None)
        with socket.create_server(("127.0.0.1", 0)) as frozen:
            address = f"127.0.0.1:{frozen.getsockname()[1]}"
            assert not await accepts_connections(address, Configuration(), 0.1)

    run(scenario)
