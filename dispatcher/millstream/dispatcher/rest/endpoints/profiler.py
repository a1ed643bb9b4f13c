"""REST endpoints that profile a task manager with its slot workers, or the dispatcher, as Flink's pages do."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from millstream.core.inspection.own_stacks import sample_own_stacks
from millstream.core.messages.inspection import SampleRequest, StackSamples
from millstream.core.messages.resource_manager import TaskManagerInfo
from millstream.dispatcher.callers import Role
from millstream.dispatcher.cluster_view import ClusterView
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.profiles import INTERVAL_MS, Profile, Profiles, ProfilesError, ProfilingMode, Sample
from millstream.dispatcher.rest.requests import json_object, text, whole_number
from millstream.dispatcher.rest.schemas import INTEGER, STRING, array, nullable, record, request_body
from millstream.dispatcher.rest.table import RestError, RestRoute

_DEPTH = 100
_PATIENCE = 10.0
_OWN = "JobManager"
_MODE = {"type": "string", "enum": [*ProfilingMode]}
PROFILE = record({
    "status": {"type": "string", "enum": ["RUNNING", "FINISHED", "FAILED"]}, "mode": _MODE, "triggerTime": INTEGER,
    "finishedTime": nullable(INTEGER), "duration": INTEGER, "message": nullable(STRING),
    "outputFile": nullable(STRING),
})  # fmt: skip
PROFILES = record({"profilingList": array(PROFILE)})
_WHICH = {**_MODE, "description": "CPU and ITIMER: what takes processor time; LOCK: what waits; WALL: both."}


class ProfilerEndpoints:
    """Takes and shows profiles."""

    def __init__(self, cluster: ClusterView, profiles: Profiles) -> None:
        self._cluster = cluster
        self._profiles = profiles
        duration = {"type": "integer", "minimum": 1, "maximum": profiles.longest, "description": "In seconds."}
        self._body = request_body({"mode": _WHICH, "duration": duration}, required=("mode", "duration"))

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        own, one = "/jobmanager/profiler", "/taskmanagers/{taskmanagerid}/profiler"
        return [
            RestRoute("GET", own, self.own, "Profiles of the dispatcher.", PROFILES),
            RestRoute(
                "POST", own, self.take_own, "Profiles the dispatcher.", PROFILE, body=self._body, errors=(404, 409),
                needs=Role.OPERATE, action="profile",
            ),
            RestRoute("GET", f"{own}/{{file}}", self.own_file, "One of them: a page with a flame graph.", None),
            RestRoute("GET", one, self.task_manager, "Profiles of a task manager with its slot workers.", PROFILES),
            RestRoute(
                "POST", one, self.take_task_manager, "Profiles the slot workers of a task manager.", PROFILE,
                body=self._body, errors=(409,), needs=Role.OPERATE, action="profile",
            ),
            RestRoute("GET", f"{one}/{{file}}", self.file, "One of them: a page with a flame graph.", None),
        ]  # fmt: skip

    async def own(self, request: Request) -> Json:
        """`GET /jobmanager/profiler`."""
        return self._listed(_OWN)

    async def take_own(self, request: Request) -> Json:
        """`POST /jobmanager/profiler`."""

        async def sample(samples: int) -> StackSamples:
            return StackSamples(await asyncio.to_thread(sample_own_stacks, samples, INTERVAL_MS, _DEPTH))

        return await self._take(request, _OWN, sample)

    async def own_file(self, request: Request) -> Response:
        """`GET /jobmanager/profiler/:file`."""
        return self._page(request, _OWN)

    async def task_manager(self, request: Request) -> Json:
        """`GET /taskmanagers/:taskmanagerid/profiler`."""
        return self._listed((await self._manager(request)).task_manager_id)

    async def take_task_manager(self, request: Request) -> Json:
        """`POST /taskmanagers/:taskmanagerid/profiler`."""
        manager = await self._manager(request)
        return await self._take(request, manager.task_manager_id, self._sampler(manager))

    async def file(self, request: Request) -> Response:
        """`GET /taskmanagers/:taskmanagerid/profiler/:file`: also of a task manager that is gone."""
        return self._page(request, request.path_params["taskmanagerid"])

    def _sampler(self, manager: TaskManagerInfo) -> Sample:
        held = [slot for slot in manager.slots if slot.job_id]

        async def sample(samples: int) -> StackSamples:
            timeout = 2 * samples * INTERVAL_MS / 1000 + _PATIENCE
            requests = [
                SampleRequest(slot.job_id, "", None, samples, INTERVAL_MS, True, _DEPTH, slot=slot.index)
                for slot in held
            ]
            seen = await asyncio.gather(
                *(self._cluster.sample_stacks(manager.address, one, timeout) for one in requests)
            )
            return StackSamples(
                tuple(
                    replace(stack, frames=(f"slot {slot.index}", *stack.frames))
                    for slot, one in zip(held, seen, strict=True)
                    for stack in one.stacks
                ),
                tuple(problem for one in seen for problem in one.problems),
            )

        return sample

    async def _take(self, request: Request, process: str, sample: Sample) -> Json:
        self._check_enabled()
        body = await json_object(request, self._body)
        seconds = whole_number("duration", body.get("duration"), 1, self._profiles.longest)
        mode = (text(body, "mode") or "").upper()
        if mode not in ProfilingMode.__members__:
            known = ", ".join(ProfilingMode)
            raise RestError(400, f"mode: '{mode[:100]}' is not one of {known}; allocations are not sampled")
        try:
            return self._profiles.start(process, ProfilingMode(mode), seconds, sample).as_json()
        except ProfilesError as error:
            raise RestError(409, str(error)) from error

    def _listed(self, process: str) -> Json:
        self._check_enabled()
        return {"profilingList": [profile.as_json() for profile in self._profiles.all(process)]}

    def _page(self, request: Request, process: str) -> Response:
        self._check_enabled()
        wanted = request.path_params["file"]
        found: Profile | None = next((one for one in self._profiles.all(process) if one.file == wanted), None)
        if found is None:
            raise RestError(404, f"{process[:100]} has no profile {wanted[:200]}, or no longer")
        headers = {"Content-Disposition": f'attachment; filename="{wanted}"'}
        return Response(found.page, media_type="text/plain", headers=headers)

    def _check_enabled(self) -> None:
        if not self._profiles.enabled:
            raise RestError(404, "profiles are disabled by the dispatcher's option 'rest.profiling.enabled'")

    async def _manager(self, request: Request) -> TaskManagerInfo:
        wanted = request.path_params["taskmanagerid"]
        for manager in (await self._cluster.overview()).task_managers:
            if manager.task_manager_id == wanted:
                return manager
        raise RestError(404, f"no task manager {wanted} is registered")
