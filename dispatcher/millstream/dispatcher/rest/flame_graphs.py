"""Flame graphs of running tasks, sampled on request, and kept for a while, as in Flink.

A request returns at once: what was sampled last, or that sampling is in progress. Sampling begins when there are no
samples, when they are older than `rest.flamegraph.refresh-interval`, or when the request has `refresh`.

Owned by the dispatcher's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct

from millstream.core.clock import Clock
from millstream.core.errors import UnreachableError
from millstream.core.inspection.flame_graph import FlameGraphType, flame_graph
from millstream.core.messages.inspection import SampledStack, SampleRequest, StackSamples
from millstream.core.processes.background import BackgroundTasks
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import (
    REST_FLAMEGRAPH_CLEANUP_INTERVAL,
    REST_FLAMEGRAPH_DELAY_BETWEEN_SAMPLES,
    REST_FLAMEGRAPH_ENABLED,
    REST_FLAMEGRAPH_NUM_SAMPLES,
    REST_FLAMEGRAPH_REFRESH_INTERVAL,
    REST_FLAMEGRAPH_STACK_DEPTH,
)
from millstream.dispatcher.rest.job_json import Json

TERMINATED, DISABLED, WAITING = -1, -2, -3
"""In place of a timestamp, as in Flink."""
_PATIENCE = 5.0
_KEPT = 64
_AT_ONCE = 8

Sample = Callable[[str, SampleRequest, float], Awaitable[StackSamples]]
"""Samples on the task manager at an address, within so many seconds. Raises UnreachableError."""


class SamplingPlan(Struct, frozen=True):
    """How samples are taken."""

    samples: int
    interval_ms: int

    @staticmethod
    def of(configuration: Configuration) -> SamplingPlan:
        """From the options."""
        interval = round(1000 * configuration.get(REST_FLAMEGRAPH_DELAY_BETWEEN_SAMPLES))
        return SamplingPlan(configuration.get(REST_FLAMEGRAPH_NUM_SAMPLES), max(1, interval))


class Sampled(Struct, frozen=True):
    """What was seen, when, and on whose account nothing more was."""

    stacks: tuple[SampledStack, ...]
    problems: tuple[str, ...]
    samplers: tuple[str, ...]
    ended_ms: int

    def as_json(self, kind: FlameGraphType) -> Json:
        """In Flink's shape, with `problems` and `samplers`."""
        return {
            "endTimestamp": self.ended_ms,
            "data": flame_graph(self.stacks, kind),
            "problems": list(self.problems),
            "samplers": list(self.samplers),
        }


def nothing(why: int) -> Json:
    """In place of a graph."""
    return {"endTimestamp": why, "data": None, "problems": [], "samplers": []}


class _Entry(Struct):
    requested_at: float
    sampled: Sampled | None = None
    is_under_way: bool = False


class FlameGraphs:
    """Those that were requested lately."""

    def __init__(self, configuration: Configuration, clock: Clock, sample: Sample) -> None:
        self.enabled = configuration.get(REST_FLAMEGRAPH_ENABLED)
        self.plan = SamplingPlan.of(configuration)
        self.depth = configuration.get(REST_FLAMEGRAPH_STACK_DEPTH)
        self._refresh = configuration.get(REST_FLAMEGRAPH_REFRESH_INTERVAL)
        self._forget = configuration.get(REST_FLAMEGRAPH_CLEANUP_INTERVAL)
        self._clock = clock
        self._sample = sample
        self._entries: dict[tuple[SampleRequest, str], _Entry] = {}
        self._background = BackgroundTasks()
        self._free = asyncio.Semaphore(_AT_ONCE)

    def latest(
        self, request: SampleRequest, addresses: Mapping[str, str], again: bool, lost: Sequence[str] = ()
    ) -> Sampled | None:
        """What was sampled last, or None while sampling is in progress.

        `addresses` are those of the task managers by id; `lost` are the ids without a known address, for `problems`.
        """
        now = self._clock.monotonic()
        key = (request, " ".join(sorted(addresses)) if not request.vertex_id else "")
        self._tidy(now)
        entry = self._entries.pop(key, None) or _Entry(now)
        self._entries[key] = entry  # the last one that was requested
        entry.requested_at = now
        age = self._clock.now_ms() - entry.sampled.ended_ms if entry.sampled is not None else None
        if not entry.is_under_way and (again or age is None or age > 1000 * self._refresh):
            if again:
                entry.sampled = None
            entry.is_under_way = True
            self._background.spawn(self._take(entry, request, dict(addresses), tuple(lost)))
        return entry.sampled

    def _tidy(self, now: float) -> None:
        old = [key for key, e in self._entries.items() if now - e.requested_at > self._forget and not e.is_under_way]
        surplus = [key for key, e in self._entries.items() if not e.is_under_way][: max(0, len(self._entries) - _KEPT)]
        for key in {*old, *surplus}:
            del self._entries[key]

    async def _take(
        self, entry: _Entry, request: SampleRequest, addresses: dict[str, str], lost: tuple[str, ...]
    ) -> None:
        try:
            timeout = request.samples * request.interval_ms / 1000 * 2 + 2 * _PATIENCE
            async with self._free:
                responses = await asyncio.gather(
                    *(self._sample(address, request, timeout) for address in addresses.values()), return_exceptions=True
                )
            stacks: list[SampledStack] = []
            samplers: set[str] = set()
            problems = [f"task manager {one} is not registered" for one in lost]
            for manager, response in zip(addresses, responses, strict=True):
                match response:
                    case StackSamples():
                        stacks += response.stacks
                        samplers.update(response.samplers)
                        problems += [f"task manager {manager}, {problem}" for problem in response.problems]
                    case UnreachableError():
                        problems.append(f"task manager {manager}: {response}")
                    case BaseException():
                        raise response
            entry.sampled = Sampled(tuple(stacks), tuple(problems), tuple(sorted(samplers)), self._clock.now_ms())
        finally:
            entry.is_under_way = False

    async def close(self) -> None:
        """Ends what is in progress."""
        await self._background.cancel()
