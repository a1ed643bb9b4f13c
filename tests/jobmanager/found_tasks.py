"""What task managers find of a job that another job manager led."""

from __future__ import annotations

from typing import Any

from job_driver import JobDriver
from msgspec.structs import replace

from millstream.core.jobs.ids import AttemptId
from millstream.core.jobs.states import ExecutionState
from millstream.core.messages.takeover import FoundSlot, FoundTask
from millstream.jobmanager.job_master.execution_graph import Execution, SlotKey

WAIT = 10.0


def attempt_of(execution: Execution, number: int) -> AttemptId:
    """The name of a deployed attempt; another than the one that a JobMaster would deploy next."""
    return AttemptId(f"{execution.vertex.id}-{execution.subtask}-{number}")


def found_task(execution: Execution, attempt: int, state: ExecutionState, **more: Any) -> FoundTask:
    vertex = execution.vertex
    return FoundTask(
        attempt_of(execution, attempt), vertex.id, execution.subtask, vertex.parallelism, vertex.max_parallelism,
        attempt, state, **more,
    )  # fmt: skip


def found_slot(
    driver: JobDriver, key: SlotKey, state: ExecutionState = ExecutionState.RUNNING, behind: int = 0, **more: Any
) -> FoundSlot:
    """All tasks of a slice; with `behind`, of attempts that were followed by so many others."""
    tasks = tuple(
        found_task(e, driver.latest(e.vertex.id, e.subtask) - behind, state, **more)
        for e in driver.master.execution_graph.in_slice(key)
    )
    return FoundSlot(f"address of {key.group} {key.index}", tasks)


def without_last(found: FoundSlot) -> FoundSlot:
    return replace(found, tasks=found.tasks[:-1])
