"""Profiles of whole processes: stacks, sampled for as long as requested, and kept as pages with a flame graph.

A process is profiled once at a time, and its last profiles are kept. Owned by the dispatcher's loop.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from enum import StrEnum

from msgspec import Struct

from millstream.core.clock import Clock
from millstream.core.errors import MillstreamError
from millstream.core.inspection.flame_graph import FlameGraphType, flame_graph
from millstream.core.inspection.flame_graph_page import page
from millstream.core.messages.inspection import SampledStack, StackSamples
from millstream.core.processes.background import BackgroundTasks
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import (
    REST_PROFILING_DURATION_MAX,
    REST_PROFILING_ENABLED,
    REST_PROFILING_HISTORY_SIZE,
)
from millstream.dispatcher.rest.job_json import Json

log = logging.getLogger(__name__)
INTERVAL_MS = 20
_PIECE = 2.0  # seconds that are sampled at once: for as long, a dispatcher that stops may wait
_MOST_PROCESSES = 64

Sample = Callable[[int], Awaitable[StackSamples]]
"""Takes so many samples of the process. Raises MillstreamError when it cannot be sampled."""


class ProfilingMode(StrEnum):
    """By Flink's names. Allocations are not sampled."""

    CPU = "CPU"
    ITIMER = "ITIMER"
    WALL = "WALL"
    LOCK = "LOCK"

    @property
    def kind(self) -> FlameGraphType:
        """Which samples count."""
        match self:
            case ProfilingMode.CPU | ProfilingMode.ITIMER:
                return FlameGraphType.ON_CPU
            case ProfilingMode.LOCK:
                return FlameGraphType.OFF_CPU
            case _:
                return FlameGraphType.FULL


class Profile(Struct):
    """One of them; `file` is empty until it is there."""

    mode: ProfilingMode
    seconds: int
    triggered_ms: int
    status: str = "RUNNING"
    finished_ms: int = 0
    message: str = ""
    file: str = ""
    page: str = ""

    def as_json(self) -> Json:
        """In Flink's shape."""
        return {
            "status": self.status,
            "mode": self.mode,
            "triggerTime": self.triggered_ms,
            "finishedTime": self.finished_ms or None,
            "duration": self.seconds,
            "message": self.message or None,
            "outputFile": self.file or None,
        }


class ProfilesError(MillstreamError):
    """A process is profiled already."""


class Profiles:
    """Those of one dispatcher."""

    def __init__(self, configuration: Configuration, clock: Clock) -> None:
        self.enabled = configuration.get(REST_PROFILING_ENABLED)
        self.longest = int(configuration.get(REST_PROFILING_DURATION_MAX))
        self._kept = configuration.get(REST_PROFILING_HISTORY_SIZE)
        self._clock = clock
        self._of: dict[str, list[Profile]] = {}
        self._background = BackgroundTasks()

    def all(self, process: str) -> list[Profile]:
        """Of a process, the latest first."""
        return self._of.get(process, [])

    def start(self, process: str, mode: ProfilingMode, seconds: int, sample: Sample) -> Profile:
        """Begins to profile it. Raises ProfilesError when that is in progress."""
        known = self._of.pop(process, [])
        self._of[process] = known  # the last one that was requested
        if known and known[0].status == "RUNNING":
            raise ProfilesError(f"{process} is being profiled; try again when that has ended")
        profile = Profile(mode, seconds, self._clock.now_ms())
        known.insert(0, profile)
        del known[self._kept :]
        for idle in [name for name, held in self._of.items() if held[0].status != "RUNNING"]:
            if len(self._of) > _MOST_PROCESSES:
                del self._of[idle]
        self._background.spawn(self._take(process, profile, sample))
        return profile

    async def _take(self, process: str, profile: Profile, sample: Sample) -> None:
        stacks: list[SampledStack] = []
        problems: dict[str, None] = {}
        left = max(1, round(1000 * profile.seconds / INTERVAL_MS))
        try:
            while left > 0:
                samples = min(left, round(1000 * _PIECE / INTERVAL_MS))
                seen = await sample(samples)
                stacks += seen.stacks
                problems |= dict.fromkeys(seen.problems)
                left -= samples
            if not stacks:
                raise MillstreamError("; ".join(problems) or f"nothing runs on {process} that could be sampled")
            title = f"{process}: {profile.mode}, {profile.seconds} s"
            graph = flame_graph(stacks, profile.mode.kind)
            profile.page = await asyncio.to_thread(page, graph, title)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # whatever happens, the profile is over
            if not isinstance(error, MillstreamError):
                log.exception("failed to profile %s", process)
            profile.status = "FAILED"
            profile.message = str(error) or type(error).__name__
        else:
            profile.status = "FINISHED"
            profile.message = "; ".join(["Profiling Successful", *problems])
            when = datetime.fromtimestamp(profile.triggered_ms / 1000, UTC).strftime("%Y-%m-%d_%H_%M_%S")
            profile.file = f"{re.sub(r'[^A-Za-z0-9.-]', '_', process)}_{profile.mode}_{when}.html"
        profile.finished_ms = self._clock.now_ms()

    async def close(self) -> None:
        """Ends what is in progress."""
        await self._background.cancel()
