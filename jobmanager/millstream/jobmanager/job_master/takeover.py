"""Collects the running tasks of a job after a change of its leader, as task managers report them. Pure.

Task managers offer the slots that they hold for the job, with the tasks in them. The job continues with these tasks
only if all are found: for every subtask the latest attempt recorded in the store, running or finished. Anything less
would mix attempts that have not exchanged the same records. A slot with other attempts holds tasks that an earlier
leader has given up, and is rejected. A slot without tasks is kept for the case that the job has to restart. When no
task is found for a while, or the resource manager allocates all slots of the job again, the wait ends: the whole
cluster was restarted, or the job had not been deployed.

Owned by the JobMaster, which releases the found slots if the takeover is given up.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import replace

from millstream.core.jobs.ids import AttemptId
from millstream.core.jobs.states import TASK_TRANSITIONS, ExecutionState
from millstream.core.messages.checkpoints import InputsEnded
from millstream.core.messages.sources import Custom, ReaderEvent
from millstream.core.messages.takeover import FoundReader, FoundSlot, FoundTask
from millstream.core.messages.task_manager import TaskUpdate
from millstream.jobmanager.failover.topology import Subtask
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.execution_graph import ExecutionGraph, Slot, SlotKey
from millstream.jobmanager.job_master.job_slots import JobSlots

_CONTINUES = frozenset({ExecutionState.RUNNING, ExecutionState.FINISHED})
_FIRST = 0.3  # of the wait, for the first task
_MAY_CONTINUE = _CONTINUES | {ExecutionState.DEPLOYING, ExecutionState.INITIALIZING}


class Takeover:
    """Lives until the job continues with the found tasks, or `off` holds the reason why it does not.

    `graph` has the latest attempts. Slots with tasks are put into `slots`; `spare` are those without.
    """

    def __init__(self, graph: ExecutionGraph, slots: JobSlots, now_ms: int, wait: float) -> None:
        self.deadlines_ms = now_ms + round(_FIRST * wait * 1000), now_ms + round(wait * 1000)
        """The deadlines for the first task and for all tasks."""
        self.off = ""
        self.is_prepared = False
        """Whether the job's restore point is known and fits the found tasks."""
        self.requested = False
        """Whether all tasks were found, and `TakeOver` was requested."""
        self._graph = graph
        self._slots = slots
        self._tasks: dict[AttemptId, FoundTask] = {}
        self._spare: dict[str, ev.SlotOffered] = {}

    @property
    def tasks(self) -> Mapping[AttemptId, FoundTask]:
        """The tasks that were found."""
        return MappingProxyType(self._tasks)

    @property
    def spare(self) -> tuple[ev.SlotOffered, ...]:
        """The slots in which no task runs."""
        return tuple(self._spare.values())

    @property
    def is_complete(self) -> bool:
        """Whether every task of the job was found and can continue."""
        return len(self._tasks) == len(self._graph.executions) and all(
            task.state in _CONTINUES for task in self._tasks.values()
        )

    def look(self, now_ms: int) -> None:
        """Checks the deadlines, and gives up when there is nothing to wait for."""
        first, last = self.deadlines_ms
        nothing = not self._tasks and (now_ms >= first or len(self._spare) == self._slots.required)
        if not self.requested and (nothing or now_ms >= last):
            self.off = self.off or self.missing()

    def missing(self) -> str:
        """Describes how many tasks were found."""
        running = sum(task.state in _CONTINUES for task in self._tasks.values())
        return f"{running} of {len(self._graph.executions)} tasks were found running"

    def offered(self, offer: ev.SlotOffered) -> bool:
        """Handles an offered slot; returns whether it is accepted."""
        found = offer.found
        if found is None or not found.tasks:
            if len(self._spare) < self._slots.required:
                self._spare.setdefault(offer.allocation_id, offer)
            return offer.allocation_id in self._spare
        key = self._key(found)
        if key is None or self._is_given_up(found):
            return False
        held = self._slots.held.get(key)
        if held is not None and held.allocation_id != offer.allocation_id:
            return False
        address = found.data_address
        self._slots.hold(key, Slot(offer.allocation_id, offer.task_manager, offer.host, address, worker_started=True))
        self._tasks.update((task.attempt_id, task) for task in found.tasks)
        self.off = self.off or self._why_not(key, found)
        return True

    def _key(self, found: FoundSlot) -> SlotKey | None:
        """Returns the slice that the tasks belong to, if they belong to a single one of the current graph."""
        keys = set()
        for task in found.tasks:
            execution = self._graph.at(task.vertex_id, task.subtask)
            if execution is None or execution.vertex.parallelism != task.parallelism:
                return None
            keys.add(execution.slot_key)
        return keys.pop() if len(keys) == 1 else None

    def _is_given_up(self, found: FoundSlot) -> bool:
        """Whether any task belongs to an attempt that was replaced by a later one."""
        executions = [(self._graph.at(task.vertex_id, task.subtask), task.attempt) for task in found.tasks]
        return any(execution is None or execution.attempt != attempt for execution, attempt in executions)

    def _why_not(self, key: SlotKey, found: FoundSlot) -> str:
        places = [Subtask(task.vertex_id, task.subtask) for task in found.tasks]
        if sorted(places) != sorted(execution.place for execution in self._graph.in_slice(key)):
            return f"not all tasks of slot {key.index} of '{key.group}' were deployed"
        for task in found.tasks:
            if task.state not in _MAY_CONTINUE:
                return f"{self._name(task)} is {task.state}"
            if task.drains:
                return f"a savepoint was draining the job, and {self._name(task)} has reached the end of event time"
        return "" if found.data_address else f"the worker of slot {key.index} of '{key.group}' was not ready"

    def _name(self, task: FoundTask) -> str:
        execution = self._graph.at(task.vertex_id, task.subtask)
        return execution.name if execution is not None else task.attempt_id

    def changed(self, update: TaskUpdate) -> None:
        """Handles a state report of a found task."""
        task = self._tasks.get(update.attempt_id)
        if task is None or update.state not in TASK_TRANSITIONS[task.state]:
            return
        self._tasks[task.attempt_id] = replace(
            task, state=update.state, accumulators=update.accumulators, metrics=update.metrics
        )
        if update.state not in _MAY_CONTINUE:
            reason = f": {update.failure.exception}" if update.failure is not None else ""
            self.off = f"{self._name(task)} is {update.state}{reason}"

    def received(self, message: ReaderEvent | InputsEnded) -> None:
        """Remembers a message of a found task until the takeover is complete."""
        task = self._tasks.get(message.attempt_id)
        if task is None:
            return
        match message:
            case InputsEnded():
                task = replace(task, inputs_ended=True)
            case ReaderEvent(kind=Custom()):
                task = replace(task, reader=replace(task.reader or FoundReader(), has_events=True))
                if self.requested:
                    self.off = f"{self._name(task)} sent an event to an enumerator that has not been started yet"
            case ReaderEvent():
                return  # requests are repeated
        self._tasks[task.attempt_id] = task

    def lost(self, keys: list[SlotKey], reason: str, for_good: bool) -> None:
        """Removes slots whose task manager or worker was lost; unless `for_good`, they may be offered again."""
        if keys and (for_good or self.requested):
            self.off = reason
            return
        for key in keys:
            for execution in self._graph.in_slice(key):
                self._forget(execution.place)
        self._slots.release(keys)

    def spare_lost(self, task_manager: str) -> None:
        """Removes the spare slots of a lost task manager; it offers them again if it reconnects."""
        self._spare = {a: offer for a, offer in self._spare.items() if offer.task_manager != task_manager}

    def _forget(self, place: Subtask) -> None:
        gone = [t.attempt_id for t in self._tasks.values() if Subtask(t.vertex_id, t.subtask) == place]
        for attempt in gone:
            del self._tasks[attempt]
