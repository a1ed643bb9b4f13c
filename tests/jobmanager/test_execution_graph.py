"""What is deployed to slots: every channel has two ends that agree, whatever the graph."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from job_graphs import edge, job, pipeline, vertex
from msgspec.structs import replace
from thoroughness import cases

from millstream.core.jobs.earlier_attempts import AttemptHistory, earlier_attempts
from millstream.core.jobs.graph import Artifact, ArtifactKind, JobGraph, edge_name
from millstream.core.jobs.ids import AllocationId, TaskManagerId
from millstream.core.jobs.plan_json import plan_nodes
from millstream.core.jobs.states import ExecutionState, IllegalTransitionError
from millstream.core.jobs.wiring import consumers_of
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.messages.dispatcher import StartJob
from millstream.core.wire.contracts import JOB_MANAGER_AT_DISPATCHER
from millstream.jobmanager.job_master.execution_graph import ExecutionGraph, Slot, SlotKey

STRATEGIES = ["FORWARD", "REBALANCE", "RESCALE", "SHUFFLE", "BROADCAST", "GLOBAL", "HASH", "CUSTOM"]


def deployed(graph: JobGraph) -> dict[SlotKey, list[TaskDeployment]]:
    executions = ExecutionGraph(graph, 0)
    slots = {
        key: Slot(AllocationId(f"{key}"), TaskManagerId("tm"), "host", f"address of {key}")
        for key in executions.slot_keys()
    }
    return executions.deployments(slots)


def tasks_of(graph: JobGraph) -> dict[str, TaskDeployment]:
    return {task.task_name: task for tasks in deployed(graph).values() for task in tasks}


@st.composite
def graphs(draw: st.DrawFn) -> JobGraph:
    """Directed acyclic graphs, with unions, several outputs, several groups."""
    number = draw(st.integers(1, 5))
    vertices = [
        vertex(f"v{i}", draw(st.integers(1, 5)), draw(st.sampled_from(["default", "other"]))) for i in range(number)
    ]
    outputs: Counter[int] = Counter()
    edges = []
    for target in range(1, number):
        for source in draw(st.lists(st.integers(0, target - 1), max_size=3)):
            edges.append(edge(f"v{source}", f"v{target}", draw(st.sampled_from(STRATEGIES)), outputs[source]))
            outputs[source] += 1
    return job(vertices, draw(st.permutations(edges)))


@settings(max_examples=cases(200))
@given(graphs())
def test_every_channel_has_two_ends_that_agree(graph: JobGraph) -> None:
    by_slot = deployed(graph)
    address = {task.task_name: f"address of {key}" for key, tasks in by_slot.items() for task in tasks}
    outgoing: dict[int, tuple[str, str, str, str]] = {}
    incoming: dict[int, tuple[str, str, str, str]] = {}
    for tasks in by_slot.values():
        for task in tasks:
            for output in task.outputs:
                for channel in output.channels:
                    assert channel.channel_id not in outgoing
                    assert channel.consumer_address == address[channel.consumer_name]
                    ends = (task.task_name, channel.consumer_name)
                    outgoing[channel.channel_id] = (*ends, output.spec.decode(), output.edge)
            for gate in task.inputs:
                for channel_in in gate.channels:
                    assert channel_in.channel_id not in incoming
                    assert channel_in.producer_address == address[channel_in.producer_name]
                    ends = (channel_in.producer_name, task.task_name)
                    incoming[channel_in.channel_id] = (*ends, gate.spec.decode(), gate.edge)
            assert [gate.edge for gate in task.inputs] == [
                edge_name(task.vertex_id, number) for number in range(len(task.inputs))
            ]
    assert outgoing == incoming


@settings(max_examples=cases(100))
@given(graphs())
def test_every_task_is_deployed_once_in_its_slice_with_all_its_inputs_and_outputs(graph: JobGraph) -> None:
    by_slot = deployed(graph)
    names = [task.task_name for tasks in by_slot.values() for task in tasks]
    expected = [f"{v.name} ({i + 1}/{v.parallelism})" for v in graph.vertices for i in range(v.parallelism)]
    assert sorted(names) == sorted(expected)
    assert len(by_slot) == graph.slots_required()
    widths = {v.id: v.parallelism for v in graph.vertices}
    for key, tasks in by_slot.items():
        for task in tasks:
            (own,) = [v for v in graph.vertices if v.id == task.vertex_id]
            assert (own.slot_sharing_group, task.subtask) == (key.group, key.index)
            assert [o.output for o in task.outputs] == list(range(len(task.outputs)))
            assert Counter(o.spec for o in task.outputs) == Counter(e.spec for e in graph.edges if e.source == own.id)
            assert Counter(g.spec for g in task.inputs) == Counter(e.spec for e in graph.edges if e.target == own.id)
            assert all(g.channels for g in task.inputs), "an input without a producer"
            for partition in task.outputs:
                (out,) = [e for e in graph.edges if (e.source, e.output) == (own.id, partition.output)]
                subtasks = consumers_of(out.strategy, task.subtask, own.parallelism, widths[out.target])
                assert len(partition.channels) == len(subtasks)


def test_channels_of_an_output_are_in_the_order_of_the_consumers() -> None:
    """A hash partitioner picks the channel by its number, so the order is part of the contract."""
    graph = pipeline(2, 12)
    for task in tasks_of(graph).values():
        for output in task.outputs:
            assert [c.consumer_name for c in output.channels] == [f"v1 ({i}/12)" for i in range(1, 13)]


def test_a_union_gives_its_target_one_gate_for_each_edge() -> None:
    graph = job(
        [vertex("a", 2), vertex("b", 1), vertex("c", 2)], [edge("a", "c", "FORWARD"), edge("b", "c", "BROADCAST")]
    )
    task = tasks_of(graph)["c (2/2)"]
    assert [[c.producer_name for c in gate.channels] for gate in task.inputs] == [["a (2/2)"], ["b (1/1)"]]
    (planned,) = [node for node in plan_nodes(graph) if node.id == "c"]
    assert [source.id for source in planned.inputs] == ["a", "b"], "edges are counted as in the plan"


def test_a_deployment_identifies_its_task() -> None:
    graph = pipeline(2)
    second = tasks_of(graph)["v0 (2/2)"]
    assert (second.job_id, second.job_name, second.vertex_id) == ("job", "the job", "v0")
    assert (second.subtask, second.parallelism, second.max_parallelism, second.attempt) == (1, 2, 128, 0)
    assert second.chain == b"chain of v0"


def test_attempts_are_unique_and_executions_step_legally() -> None:
    first, second = ExecutionGraph(pipeline(3, 3), 5), ExecutionGraph(pipeline(3, 3), 5)
    attempts = [e.attempt_id for e in (*first.executions, *second.executions)]
    assert len(set(attempts)) == 12
    execution = first.executions[0]
    assert first.by_attempt(execution.attempt_id) is execution
    assert first.at("v0", 0) is execution
    with pytest.raises(IllegalTransitionError, match="CREATED -> RUNNING"):
        execution.move_to(ExecutionState.RUNNING, 6)
    assert execution.state_times == {"CREATED": 5}


def test_a_job_graph_survives_the_wire() -> None:
    graph = job([vertex("a", 2, source=True), vertex("b", 3, "other")], [edge("a", "b", "HASH", 1, 2)])
    artifacts = tuple(Artifact(f"{kind.value}", kind.name, kind) for kind in ArtifactKind)
    start = StartJob(replace(graph, artifacts=artifacts, python_path=("/a", "/b")))
    wire = JOB_MANAGER_AT_DISPATCHER.down
    assert wire.from_bytes(wire.to_bytes(start)) == start


def test_the_last_attempts_of_each_subtask_are_remembered() -> None:
    graph, now = ExecutionGraph(pipeline(2, 2), 0), 0
    graph.earlier = AttemptHistory(3)
    assert graph.earlier.encoded == b""
    steps = (ExecutionState.SCHEDULED, ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.FAILED)
    for number in range(5):
        for execution in graph.executions:
            execution.host = f"host {number}"
            for state in steps[number > 0 :]:
                now += 1
                execution.move_to(state, now)
        graph.try_again([execution.place for execution in graph.executions], now)
    kept = earlier_attempts(graph.earlier.encoded)
    place = graph.executions[0].place
    mine = [one.status for one in kept if (one.vertex_id, one.subtask) == (place.vertex_id, place.index)]
    assert [(one.attempt, one.state, one.host) for one in mine] == [
        (number, ExecutionState.FAILED, f"host {number}") for number in (2, 3, 4)
    ]
    assert all(0 < one.start_time < one.end_time == one.state_times["FAILED"] for one in mine)
    assert len(kept) == 3 * len(graph.executions)
