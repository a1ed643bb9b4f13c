"""The responses to health probes over REST."""

from __future__ import annotations

from pathlib import Path

from dispatcher_fixtures import FakeJobManager, Http, configuration, eventually, running

from millstream.resourcemanager.service import ResourceManagerService


async def test_it_is_healthy_at_once_and_ready_when_jobs_can_run(tmp_path: Path) -> None:
    options = configuration(tmp_path, resourcemanager__rpc__port="0")
    resource_manager = ResourceManagerService(options)
    await resource_manager.start()
    found = options.merged({"resourcemanager.rpc.port": resource_manager.address.rpartition(":")[2]})
    try:
        async with running(found) as service:
            http = Http(service.rest_address)
            assert (await http("GET", "/healthz", status=200)).json == {"status": "healthy"}
            assert (await http("GET", "/readyz", status=503)).json == {"errors": ["no job manager is registered"]}
            manager = FakeJobManager(options)
            await manager.connect(service.address)
            await eventually(lambda: _is_ready(http))
            assert (await http("GET", "/readyz", status=200)).json == {"status": "ready"}
            assert await service.lacks() == ""
            await resource_manager.stop()
            body = (await http("GET", "/readyz", status=503)).json
            assert body == {"errors": ["the resource manager does not respond"]}
            assert (await http("GET", "/healthz", status=200)).json == {"status": "healthy"}
            await manager.disconnect()
    finally:
        await resource_manager.stop()


async def _is_ready(http: Http) -> bool:
    return (await http("GET", "/readyz")).status == 200


async def test_one_that_stands_by_is_ready_when_there_is_one_that_leads(tmp_path: Path) -> None:
    options = configuration(
        tmp_path, **{"high-availability.type": "file", "high-availability.storageDir": str(tmp_path / "shared")}
    )
    manager = FakeJobManager(options)
    async with running(options) as first:
        await eventually(lambda: first.leads)
        async with running(options) as second:
            http = Http(second.rest_address)
            await eventually(lambda: _is_ready(http))
            assert not second.leads
            assert (await Http(first.rest_address)("GET", "/readyz", status=503)).json == {
                "errors": ["no job manager is registered"]
            }
            await first.stop()
            await eventually(lambda: second.leads)
            await manager.connect(second.address)
            message = "the resource manager does not respond"
            await eventually(lambda: _is_reported(http, message))
            await manager.disconnect()


async def _is_reported(http: Http, reason: str) -> bool:
    return (await http("GET", "/readyz")).json == {"errors": [reason]}
