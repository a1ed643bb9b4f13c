"""Profiles of processes over REST, as the pages of Flink's dashboard take them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from dispatcher_fixtures import Http, RunningDispatcher, eventually, rest

from millstream.core.clock import ManualClock
from millstream.core.errors import UnreachableError
from millstream.core.messages.inspection import SampledStack, StackSamples
from millstream.core.settings.configuration import Configuration
from millstream.dispatcher.rest.profiles import Profile, Profiles, ProfilesError, ProfilingMode

STACKS = (SampledStack(("loop", "busy"), True, 3), SampledStack(("loop", "waits"), False, 5))


async def sampled(samples: int) -> StackSamples:
    return StackSamples(STACKS, ("slot 1: gone",))


async def ended(profile: Profile) -> None:
    async def is_over() -> bool:
        return profile.status != "RUNNING"

    await eventually(is_over)


async def test_the_dispatcher_profiles_itself(dispatcher: RunningDispatcher) -> None:
    get, root = await dispatcher.checked(), "/jobmanager/profiler"
    assert await get("GET", root) == {"profilingList": []}
    began = (await dispatcher.http("POST", root, {"mode": "WALL", "duration": 1}, status=200)).json
    assert (began["status"], began["mode"], began["duration"]) == ("RUNNING", "WALL", 1)
    again = await dispatcher.http("POST", root, {"mode": "CPU", "duration": 1}, status=409)
    assert "is being profiled" in again.json["errors"][0]

    async def is_over() -> bool:
        return bool((await dispatcher.http("GET", root)).json["profilingList"][0]["status"] != "RUNNING")

    await eventually(is_over)
    (one,) = (await get("GET", root))["profilingList"]
    assert one["status"] == "FINISHED", one["message"]
    assert one["outputFile"].startswith("JobManager_WALL_")
    page = await dispatcher.http("GET", f"{root}/{one['outputFile']}", status=200)
    assert b"<svg" in page.body
    assert b"MainThread" in page.body
    assert page.headers["content-disposition"] == f'attachment; filename="{one["outputFile"]}"'
    await dispatcher.http("GET", f"{root}/other.html", status=404)


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ({"mode": "ALLOC", "duration": 1}, 400, "allocations are not sampled"),
        ({"mode": "CPU"}, 400, "duration"),
        ({"mode": "CPU", "duration": 301}, 400, "from 1 to 300"),
        ({"mode": "CPU", "duration": 0}, 400, "from 1 to 300"),
        ({"mode": 1, "duration": 1}, 400, "mode: expected a string"),
    ],
)
async def test_wrong_requests(http: Http, body: dict[str, Any], status: int, reason: str) -> None:
    assert reason in (await http("POST", "/jobmanager/profiler", body, status=status)).json["errors"][0]
    assert "no task manager nobody" in (await http("POST", "/taskmanagers/nobody/profiler", body)).json["errors"][0]


async def test_the_pages_are_off_when_they_are_disabled(tmp_path: Path) -> None:
    async with rest(tmp_path, **{"rest.profiling.enabled": "false"}) as http:
        assert "rest.profiling.enabled" in (await http("GET", "/jobmanager/profiler", status=404)).json["errors"][0]


async def test_a_mode_selects_the_samples_and_old_profiles_are_forgotten() -> None:
    clock = ManualClock(1_000)
    profiles = Profiles(Configuration({"rest.profiling.history-size": 2}), clock)
    for mode, count in ((ProfilingMode.CPU, 3), (ProfilingMode.LOCK, 5), (ProfilingMode.WALL, 8)):
        profile = profiles.start("tm:1", mode, 1, sampled)
        with pytest.raises(ProfilesError, match="is being profiled"):
            profiles.start("tm:1", mode, 1, sampled)
        await ended(profile)
        assert f"{count} samples" in profile.page
        assert profile.file == f"tm_1_{mode}_1970-01-01_00_00_01.html"
        assert profile.message == "Profiling Successful; slot 1: gone"
    assert [one.mode for one in profiles.all("tm:1")] == ["WALL", "LOCK"]
    await profiles.close()


async def test_a_process_that_cannot_be_sampled() -> None:
    profiles = Profiles(Configuration({}), ManualClock())

    async def lost(samples: int) -> StackSamples:
        raise UnreachableError("it is gone")

    async def idle(samples: int) -> StackSamples:
        return StackSamples()

    for sample, why in ((lost, "it is gone"), (idle, "nothing runs on tm that could be sampled")):
        profile = profiles.start("tm", ProfilingMode.WALL, 1, sample)
        await ended(profile)
        assert (profile.status, profile.message, profile.file) == ("FAILED", why, "")
    never = profiles.start("other", ProfilingMode.WALL, 1, lambda samples: asyncio.Future())
    await profiles.close()
    assert never.status == "RUNNING"
