"""A dispatcher with a job of 500 vertices and 1,000 subtasks whose figures change every second.

A job manager of the test reports them. Both run on a loop of their own in a thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dispatcher_fixtures import FakeJobManager, configuration, running
from msgspec.structs import replace

from millstream.core.jobs.details import JobDetails, TaskMetrics
from millstream.core.jobs.graph import JobEdge, JobGraph, JobVertex, OperatorInfo
from millstream.core.jobs.ids import JobId, OperatorId, VertexId
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.dispatcher.details import submitted_details

JOB = JobId("f" * 32)
_CHAINS, _LENGTH = 25, 20
_START = 1_700_000_000_000


def _vertex(chain: int, step: int) -> VertexId:
    return VertexId(f"{chain:016x}{step:016x}")


def wide_graph() -> JobGraph:
    """25 chains of 20 vertices with parallelism 2; every fifth vertex also feeds its neighbour's chain."""
    vertices, edges = [], []
    for chain in range(_CHAINS):
        for step in range(_LENGTH):
            this = _vertex(chain, step)
            operator = OperatorInfo(OperatorId(this), "", f"Step {step} of chain {chain}")
            vertices.append(JobVertex(this, f"Step {step} of chain {chain}", 2, 128, "default", (operator,), b""))
            if step:
                edges.append(JobEdge(_vertex(chain, step - 1), this, 0, 0, "HASH" if step % 3 else "FORWARD", b""))
            if step and step % 5 == 0 and chain:
                edges.append(JobEdge(_vertex(chain - 1, step - 1), this, 1, 0, "REBALANCE", b""))
    return JobGraph(JOB, "wide", tuple(vertices), tuple(edges), {"parallelism.default": "2"})


def after(details: JobDetails, seconds: int) -> JobDetails:
    """The job when it has run for so long."""

    def metrics(vertex: int, subtask: int) -> TaskMetrics:
        busy = (vertex * 37 + subtask * 11) % 101 * 10
        return TaskMetrics(
            records_in=(1000 + vertex) * seconds * (subtask + 1),
            records_out=(1000 + vertex) * seconds * (subtask + 1),
            bytes_in=100_000 * seconds,
            bytes_out=100_000 * seconds,
            busy_ms=busy * seconds,
            idle_ms=(1000 - busy) * seconds,
            input_watermark=_START + seconds * 1000,
            output_watermark=_START + seconds * 1000,
        )

    return replace(
        details,
        state=JobStatus.RUNNING,
        vertices=tuple(
            replace(
                vertex,
                subtasks=tuple(
                    replace(s, state=ExecutionState.RUNNING, start_time=_START, metrics=metrics(number, s.index))
                    for s in vertex.subtasks
                ),
            )
            for number, vertex in enumerate(details.vertices)
        ),
    )


@contextmanager
def showing_a_wide_job(folder: Path) -> Iterator[str]:
    """The REST address."""
    address: list[str] = []
    ready, ended = threading.Event(), threading.Event()

    async def serve() -> None:
        options = configuration(folder)
        async with running(options) as service:
            manager = FakeJobManager(options)
            details = submitted_details(wide_graph(), _START)
            manager.jobs[JOB] = after(details, 1)
            await manager.connect(service.address)
            address.append(service.rest_address)
            ready.set()
            seconds = 1
            while not ended.is_set():
                seconds += 1
                manager.report(after(details, seconds))
                await asyncio.sleep(1)
            await manager.disconnect()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(60)
        yield address[0]
    finally:
        ended.set()
        thread.join()
