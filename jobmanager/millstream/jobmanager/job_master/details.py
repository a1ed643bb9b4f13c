"""The state of a job as it is reported to the dispatcher and shown to users."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from millstream.core.jobs.details import Accumulator, JobDetails, SubtaskStatus, VertexStatus
from millstream.core.jobs.ids import VertexId
from millstream.core.jobs.plan_json import plan_nodes
from millstream.jobmanager.job_master.execution_graph import Execution
from millstream.jobmanager.job_master.job_master import JobMaster


def job_details(master: JobMaster) -> JobDetails:
    """Collects everything that the REST API and the client show of a job."""
    graph, bounds = master.graph, master.requirements
    ended = master.status.is_terminal
    supply = None if ended else master.slot_supply
    subtasks: dict[VertexId, list[SubtaskStatus]] = {vertex.id: [] for vertex in graph.vertices}
    for execution in master.execution_graph.executions:
        subtasks[execution.vertex.id].append(execution.status)
    return JobDetails(
        job_id=graph.job_id,
        name=graph.name,
        state=master.status,
        start_time=min(master.state_times.values()),
        end_time=master.state_times[master.status] if ended else 0,
        state_times=dict(master.state_times),
        vertices=tuple(
            VertexStatus(
                id=vertex.id,
                name=vertex.name,
                parallelism=vertex.parallelism,
                max_parallelism=vertex.max_parallelism,
                slot_sharing_group=vertex.slot_sharing_group,
                subtasks=tuple(subtasks[vertex.id]),
                lower_bound=bounds[vertex.id].lower if vertex.id in bounds else 0,
                upper_bound=bounds[vertex.id].upper if vertex.id in bounds else 0,
            )
            for vertex in graph.vertices
        ),
        plan=plan_nodes(graph),
        failures=master.failures,
        failures_truncated=master.history.truncated,
        restart_strategy=str(master.restart_strategy),
        message=master.message,
        accumulators=_accumulators(master.execution_graph.executions) if ended else (),
        configuration=graph.configuration,
        slots_required=master.slots_required,
        slots_held=len(master.slots),
        artifacts=tuple(artifact.sha256 for artifact in graph.artifacts),
        slots_free=supply.free if supply is not None else 0,
        slots_total=supply.total if supply is not None else 0,
        slots_startable=supply.startable if supply is not None else 0,
        restarts=master.restarts_decided,
        events=master.events,
        earlier_attempts=master.execution_graph.earlier.encoded,
        rescales=master.rescales.encoded,
    )


def _accumulators(executions: Iterable[Execution]) -> tuple[Accumulator, ...]:
    """Collects the accumulators of all subtasks with their owners; the job shows them merged."""
    return tuple(replace(a, vertex_id=e.vertex.id, subtask=e.subtask) for e in executions for a in e.accumulators)
