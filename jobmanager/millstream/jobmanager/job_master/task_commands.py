"""Deploys and cancels tasks in the slots of a job: changes their executions and returns the commands to workers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from millstream.core.jobs.states import ExecutionState
from millstream.jobmanager.failover.topology import Subtask
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.execution_graph import Execution, ExecutionGraph, Slot, SlotKey, TaskRestore


def deploy(
    graph: ExecutionGraph,
    slots: Mapping[SlotKey, Slot],
    subtasks: Collection[Subtask],
    restores: Mapping[Subtask, TaskRestore],
    now_ms: int,
) -> list[ev.Effect]:
    """Deploys scheduled subtasks in their slots, whose workers are ready."""
    effects: list[ev.Effect] = []
    for key, tasks in graph.deployments(slots, subtasks, restores).items():
        slot = slots[key]
        for execution in graph.in_slice(key):
            if execution.place in subtasks:
                execution.move_to(ExecutionState.DEPLOYING, now_ms)
                execution.task_manager, execution.host = slot.task_manager, slot.host
        effects.append(ev.Deploy(slot.allocation_id, slot.task_manager, tuple(tasks)))
    return effects


def cancel(executions: Iterable[Execution], slots: Mapping[SlotKey, Slot], now_ms: int) -> list[ev.Effect]:
    """Cancels executions: deployed ones by a command to their workers, the others at once."""
    deployed: dict[SlotKey, list[Execution]] = {}
    for execution in executions:
        if execution.state in (ExecutionState.CREATED, ExecutionState.SCHEDULED):
            execution.move_to(ExecutionState.CANCELED, now_ms)
        elif not execution.state.is_terminal and execution.state is not ExecutionState.CANCELING:
            execution.move_to(ExecutionState.CANCELING, now_ms)
            deployed.setdefault(execution.slot_key, []).append(execution)
    return [
        ev.CancelTasks(slot.allocation_id, slot.task_manager, tuple(e.attempt_id for e in deployed[key]))
        for key, slot in slots.items()
        if key in deployed
    ]
