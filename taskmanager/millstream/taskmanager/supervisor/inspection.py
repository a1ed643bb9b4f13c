"""What a task manager reports about itself and its slot workers: metrics, threads, log files, and where time goes.

A worker that does not respond in time is named in the response, which does not wait for it: its threads are then read
from outside. Runs on the supervisor's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import grpc
from msgspec import Struct
from msgspec.structs import replace

from millstream.core.inspection.outside import dump_from_outside
from millstream.core.jobs.ids import JobId
from millstream.core.messages.inspection import (
    ProcessThreads,
    SampleRequest,
    StackSamples,
    ThreadDump,
    ThreadStack,
    WorkerInspected,
)
from millstream.core.messages.session import Empty
from millstream.core.metrics.registry import MetricRegistry
from millstream.core.services.inspection import ProcessInspection, own_threads
from millstream.core.services.rpc import service_handler
from millstream.core.wire.contracts import INSPECTION, PROFILING
from millstream.taskmanager.supervisor.py_spy import LookError, PySpy, Target
from millstream.taskmanager.supervisor.supervised_worker import SupervisedWorker
from millstream.taskmanager.supervisor.worker_logs import WorkerLogs

_PATIENCE = 3.0
LONGEST_SAMPLING = 120.0
"""Seconds that one request may have workers sampled for."""
_MOST_SAMPLES = 100_000
_DEPTHS = range(1, 10_001)


class HeldWorker(Struct, frozen=True):
    """A slot worker and the slot that it is in."""

    slot: int
    job_id: JobId
    worker: SupervisedWorker

    @property
    def name(self) -> str:
        """As messages and logs name it."""
        return f"slot {self.slot}, job {self.job_id}"

    def not_sampled(self, problem: str) -> StackSamples:
        """The samples of a worker that could not be sampled: none, and why."""
        return StackSamples(problems=(f"{self.name}: {problem}",))


class TaskManagerInspection(ProcessInspection):
    """Serves the contracts `Inspection` and `Profiling`."""

    def __init__(
        self, logs: WorkerLogs, metrics: MetricRegistry, workers: Callable[[], Sequence[HeldWorker]], py_spy: PySpy
    ) -> None:
        super().__init__(logs, metrics)
        self._workers = workers
        self._py_spy = py_spy

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        """For the task manager's server."""
        return [service_handler(INSPECTION, self), service_handler(PROFILING, self)]

    async def dump_threads(self, request: Empty, context: Any) -> ThreadDump:
        """Of the supervisor and of all slot workers."""
        return ThreadDump(tuple(await asyncio.gather(own_threads(), *map(_threads_of, self._workers()))))

    async def sample_stacks(self, request: SampleRequest, context: Any) -> StackSamples:
        """Of the workers of a job, all at once."""
        refused = _refusal(request)
        if refused:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, refused)
        held = [one for one in self._workers() if one.job_id == request.job_id and request.slot in (None, one.slot)]
        outside = await self._seen_from_outside(request, held)
        timeout = request.samples * request.interval_ms / 1000 * 2 + _PATIENCE  # a busy machine takes its time
        others = [one for one in held if one not in outside]
        inspected = await asyncio.gather(*(one.worker.inspect(request, timeout) for one in others))
        inside = [
            one.not_sampled(i.problem) if i.problem else StackSamples(i.stacks, samplers=("worker",))
            for one, i in zip(others, inspected, strict=True)
        ]
        return _joined([*outside.values(), *inside])

    async def _seen_from_outside(
        self, request: SampleRequest, held: list[HeldWorker]
    ) -> dict[HeldWorker, StackSamples]:
        """Of the workers that py-spy could sample; of all of them when nothing else may be used."""
        spy, found = self._py_spy, dict[HeldWorker, StackSamples]()
        targets = {
            one: Target(one.worker.pid, one.worker.places.tasks(), one.worker.places.waits())
            for one in held
            if spy.is_used and one.worker.pid is not None and one.worker.is_ready
        }
        sampled = await asyncio.to_thread(spy.sample, request, list(targets.values())) if targets else []
        for one, stacks in zip(targets, sampled, strict=True):
            if not isinstance(stacks, LookError):
                found[one] = StackSamples(stacks, samplers=("py-spy",))
            elif spy.is_required:
                found[one] = one.not_sampled(str(stacks))
        if spy.is_required:
            for one in held:
                problem = spy.problem or "py-spy samples processes only, and the process of this worker has not started"
                found.setdefault(one, one.not_sampled(problem))
        return found


def _joined(parts: Sequence[StackSamples]) -> StackSamples:
    return StackSamples(
        tuple(stack for part in parts for stack in part.stacks),
        tuple(problem for part in parts for problem in part.problems),
        tuple(sorted({sampler for part in parts for sampler in part.samplers})),
    )


def _refusal(request: SampleRequest) -> str:
    """Why the request is refused; empty when it is not."""
    if not 0 < request.samples <= _MOST_SAMPLES or not 0 < request.interval_ms <= 1000 * LONGEST_SAMPLING:
        return f"the number of samples has to be from 1 to {_MOST_SAMPLES}, and their interval at least 1 ms"
    if request.samples * request.interval_ms > 1000 * LONGEST_SAMPLING:
        return f"sampling takes at most {LONGEST_SAMPLING:g} s: request fewer samples, or a shorter interval"
    return "" if request.depth in _DEPTHS else f"the depth of stacks has to be from {_DEPTHS[0]} to {_DEPTHS[-1]}"


async def _threads_of(one: HeldWorker) -> ProcessThreads:
    pid = one.worker.pid
    inspected: WorkerInspected = await one.worker.inspect(None, _PATIENCE)
    threads = ProcessThreads(one.name, pid or 0, inspected.threads, inspected.problem)
    if not inspected.problem or pid is None or not one.worker.is_ready:
        return threads
    seen = await asyncio.to_thread(dump_from_outside, pid)
    return replace(threads, threads=(ThreadStack("all threads, seen from outside", seen),)) if seen else threads
