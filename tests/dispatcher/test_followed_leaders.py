"""A command of the command line through the end of the leading dispatcher: it continues with the next one by itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from dispatcher_fixtures import configuration, eventually, graph, running
from msgspec.structs import replace
from ports import free_port

from millstream.cli.rest import RestClient, RestError
from millstream.core.errors import UnreachableError
from millstream.core.messages.dispatcher import SubmitJobRequest
from millstream.core.services.rpc import Stub, open_channel
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contracts import DISPATCHER
from millstream.dispatcher.service import DispatcherService


def stored(tmp_path: Path) -> dict[str, str]:
    return {"high-availability.type": "file", "high-availability.storageDir": str(tmp_path / "ha")}


def client(tmp_path: Path, port: int, **options: str) -> RestClient:
    """Of a user whose configuration names this port, and no other."""
    return RestClient(configuration(tmp_path, **stored(tmp_path), **options).merged({"rest.port": port}))


async def leads(service: DispatcherService) -> None:
    await eventually(lambda: service.leads)


async def test_the_leader_is_found_where_no_option_names_it_and_the_next_one_when_it_ends(tmp_path: Path) -> None:
    options = configuration(tmp_path, **stored(tmp_path))
    job = replace(graph(), artifacts=())
    async with running(options) as first:
        await leads(first)
        async with open_channel(first.address, options) as channel:
            await Stub(channel, DISPATCHER).submit_job(SubmitJobRequest(job))
        command = client(tmp_path, free_port())
        assert (await asyncio.to_thread(command.get, "/jobs"))["jobs"]
        assert command.address == first.rest_address
        async with running(options) as second:
            await first.stop()
            await asyncio.to_thread(command.patch, f"/jobs/{job.job_id}?mode=cancel")
            assert command.address == second.rest_address
            with pytest.raises(RestError, match="no savepoint"):
                await asyncio.to_thread(command.get, f"/jobs/{job.job_id}/savepoints/{'0' * 32}")


async def test_without_a_leader_the_first_request_explains_what_to_do_and_a_later_one_waits(tmp_path: Path) -> None:
    options = configuration(tmp_path, **stored(tmp_path))
    with pytest.raises(UnreachableError, match="`millstream cluster start` starts one"):
        await asyncio.to_thread(client(tmp_path, free_port()).get, "/jobs")
    async with running(options) as service:
        await leads(service)
        command = client(tmp_path, free_port(), **{"heartbeat.timeout": "200 ms", "heartbeat.interval": "100 ms",
                         "high-availability.zookeeper.client.session-timeout": "200 ms"})  # fmt: skip
        await asyncio.to_thread(command.get, "/jobs")
    with pytest.raises(UnreachableError, match="cannot reach"):
        await asyncio.to_thread(command.get, "/jobs")


async def test_an_address_that_the_user_named_is_the_only_one(tmp_path: Path) -> None:
    async with running(configuration(tmp_path, **stored(tmp_path))) as service:
        await leads(service)
        named = RestClient(Configuration({"rest.port": free_port()}))
        with pytest.raises(UnreachableError):
            await asyncio.to_thread(named.get, "/jobs")
