"""What of a job still runs when another job manager comes to lead it, as task managers tell. Pure.

Task managers offer the slots that they hold for the job with what is in them. The job continues with these tasks only
if all of it is found: of every subtask the latest attempt, as the store has it, which runs or has finished. Anything
less would be a mixture of attempts that have not exchanged the same records. A slot with other attempts holds what an
earlier leader has given up, and is not taken. One in which nothing was started is kept for the case that the job has to
start again. When no task is found for a while, or the resource manager gives the job all its slots again, there is
nothing to wait for: the whole cluster was restarted, or the job had not come so far.

The machine is owned by the JobMaster, which gives up the slots that are found when the takeover is off.
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

_GOES_ON = frozenset({ExecutionState.RUNNING, ExecutionState.FINISHED})
_FIRST = 0.3  # of the wait, for the first task
_MAY_GO_ON = _GOES_ON | {ExecutionState.DEPLOYING, ExecutionState.INITIALIZING}


class Takeover:
    """Until the job runs on what was found, or `off` has the reason against it. `graph` has the latest attempts.

    Slots with tasks are put into `slots`; `spare` are those without.
    """

    def __init__(self, graph: ExecutionGraph, slots: JobSlots, now_ms: int, wait: float) -> None:
        self.deadlines_ms = now_ms + round(_FIRST * wait * 1000), now_ms + round(wait * 1000)
        """For the first task, and for all of them."""
        self.off = ""
        self.is_prepared = False
        """Whether the job's restore point is known, and fits what was found."""
        self.asked = False
        """Whether everything was found, and the rest has begun."""
        self._graph = graph
        self._slots = slots
        self._tasks: dict[AttemptId, FoundTask] = {}
        self._spare: dict[str, ev.SlotOffered] = {}

    @property
    def tasks(self) -> Mapping[AttemptId, FoundTask]:
        """What was found."""
        return MappingProxyType(self._tasks)

    @property
    def spare(self) -> tuple[ev.SlotOffered, ...]:
        """Slots in which nothing runs."""
        return tuple(self._spare.values())

    @property
    def is_complete(self) -> bool:
        """Whether every task of the job was found, and continues."""
        return len(self._tasks) == len(self._graph.executions) and all(
            task.state in _GOES_ON for task in self._tasks.values()
        )

    def look(self, now_ms: int) -> None:
        """Whether there is anything to wait for."""
        first, last = self.deadlines_ms
        nothing = not self._tasks and (now_ms >= first or len(self._spare) == self._slots.required)
        if not self.asked and (nothing or now_ms >= last):
            self.off = self.off or self.missing()

    def missing(self) -> str:
        """What was not found, for people."""
        going_on = sum(task.state in _GOES_ON for task in self._tasks.values())
        return f"{going_on} of {len(self._graph.executions)} tasks were found running"

    def offered(self, offer: ev.SlotOffered) -> bool:
        """A task manager has a slot for the job; answers whether it is taken."""
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
        """The slice that the tasks are of, if they are of one, and of this job as it is now."""
        keys = set()
        for task in found.tasks:
            execution = self._graph.at(task.vertex_id, task.subtask)
            if execution is None or execution.vertex.parallelism != task.parallelism:
                return None
            keys.add(execution.slot_key)
        return keys.pop() if len(keys) == 1 else None

    def _is_given_up(self, found: FoundSlot) -> bool:
        """Whether any task is of an attempt that another has followed."""
        executions = [(self._graph.at(task.vertex_id, task.subtask), task.attempt) for task in found.tasks]
        return any(execution is None or execution.attempt != attempt for execution, attempt in executions)

    def _why_not(self, key: SlotKey, found: FoundSlot) -> str:
        places = [Subtask(task.vertex_id, task.subtask) for task in found.tasks]
        if sorted(places) != sorted(execution.place for execution in self._graph.in_slice(key)):
            return f"not all tasks of slot {key.index} of '{key.group}' were deployed"
        for task in found.tasks:
            if task.state not in _MAY_GO_ON:
                return f"{self._name(task)} is {task.state}"
            if task.drains:
                return f"a savepoint was draining the job, and {self._name(task)} has come to the end of event time"
        return "" if found.data_address else f"the worker of slot {key.index} of '{key.group}' was not ready"

    def _name(self, task: FoundTask) -> str:
        execution = self._graph.at(task.vertex_id, task.subtask)
        return execution.name if execution is not None else task.attempt_id

    def changed(self, update: TaskUpdate) -> None:
        """A task that was found reports."""
        task = self._tasks.get(update.attempt_id)
        if task is None or update.state not in TASK_TRANSITIONS[task.state]:
            return
        self._tasks[task.attempt_id] = replace(
            task, state=update.state, accumulators=update.accumulators, metrics=update.metrics
        )
        if update.state not in _MAY_GO_ON:
            reason = f": {update.failure.exception}" if update.failure is not None else ""
            self.off = f"{self._name(task)} is {update.state}{reason}"

    def heard(self, message: ReaderEvent | InputsEnded) -> None:
        """What a task says that its new leader has to know, and cannot do anything about yet."""
        task = self._tasks.get(message.attempt_id)
        if task is None:
            return
        match message:
            case InputsEnded():
                task = replace(task, inputs_ended=True)
            case ReaderEvent(kind=Custom()):
                task = replace(task, reader=replace(task.reader or FoundReader(), has_events=True))
                if self.asked:
                    self.off = f"{self._name(task)} sent an event to an enumerator that is not there yet"
            case ReaderEvent():
                return  # requests are made again
        self._tasks[task.attempt_id] = task

    def lost(self, keys: list[SlotKey], reason: str, for_good: bool) -> None:
        """These slots are out of reach, or their workers are gone; a task manager may come back with what it has."""
        if keys and (for_good or self.asked):
            self.off = reason
            return
        for key in keys:
            for execution in self._graph.in_slice(key):
                self._forget(execution.place)
        self._slots.release(keys)

    def spare_lost(self, task_manager: str) -> None:
        """Slots in which nothing runs are offered again, if at all."""
        self._spare = {a: offer for a, offer in self._spare.items() if offer.task_manager != task_manager}

    def _forget(self, place: Subtask) -> None:
        gone = [t.attempt_id for t in self._tasks.values() if Subtask(t.vertex_id, t.subtask) == place]
        for attempt in gone:
            del self._tasks[attempt]
