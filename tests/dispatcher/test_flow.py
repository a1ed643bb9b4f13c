"""The data of a job's graph: edges are distinct, also between the same vertices."""

from __future__ import annotations

from millstream.core.jobs.details import JobDetails, PlanInput, PlanNode, SubtaskStatus, TaskMetrics, VertexStatus
from millstream.core.jobs.ids import JobId, VertexId
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.dispatcher.rest.flow_json import flow

RUNNING = ExecutionState.RUNNING
EVEN = TaskMetrics(records_in=50, output_watermark=7)
UNEVEN = TaskMetrics(records_in=150, output_watermark=5)
MEASURED = {
    "a": [
        {"edge.b-0.numRecordsOutPerSecond": 2.5, "edge.b-0.outputQueueLength": 3, "edge.b-0.outputCredit": 0},
        {"edge.b-0.numRecordsOutPerSecond": 1.5, "edge.b-0.outputQueueLength": 1, "edge.b-0.outputCredit": 4},
        {"edge.b-1.numRecordsOutPerSecond": 0.0, "edge.b-1.outputQueueLength": 0},
    ],
    "b": [{"edge.b-0.inputQueueLength": 6, "edge.b-1.inputQueueLength": 0}],
}  # fmt: skip


def test_what_flows() -> None:
    subtasks = (SubtaskStatus(0, RUNNING, metrics=EVEN), SubtaskStatus(1, RUNNING, metrics=UNEVEN))
    vertices = (
        VertexStatus(VertexId("a"), "A", 1, 9, subtasks=(SubtaskStatus(0, RUNNING),)),
        VertexStatus(VertexId("b"), "B", 2, 9, subtasks=subtasks),
    )
    plan = (
        PlanNode("a", "A", 1),
        PlanNode("b", "B", 2, (PlanInput("a", "HASH"), PlanInput("a", "FORWARD"), PlanInput("gone", "HASH"))),
    )
    details = JobDetails(JobId("j"), "job", JobStatus.RUNNING, vertices=vertices, plan=plan)
    found = flow(details, lambda vertex: MEASURED.get(vertex, ()))
    assert found["vertices"] == [
        {"id": "a", "watermark": None, "skew": None},
        {"id": "b", "watermark": 5, "skew": 50.0},
    ]
    unknown = {"rate": None, "queued-out": None, "queued-in": None, "credit": None}
    assert found["edges"] == [
        {"source": "a", "target": "b", "input": 0, "rate": 4.0, "queued-out": 4, "queued-in": 6, "credit": 4},
        {"source": "a", "target": "b", "input": 1, "rate": 0.0, "queued-out": 0, "queued-in": 0, "credit": None},
        {"source": "gone", "target": "b", "input": 2, **unknown},
    ]
