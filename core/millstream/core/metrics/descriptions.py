"""All built-in metrics: scope, name, kind, meaning. `docs/metrics.md` is generated from this table."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from millstream.core.metrics.model import MetricKind, Scope

_C, _G, _M, _H = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.METER, MetricKind.HISTOGRAM


class Described(Struct, frozen=True):
    """One row of the table. `group` are the groups below the scope, with `<variable>` for what is a variable."""

    scope: Scope
    name: str
    kind: MetricKind
    meaning: str
    group: str = ""


_GC = "Status.JVM.GarbageCollector.All"


def _process(scope: Scope, of: str, group: str = "") -> list[Described]:
    return [
        Described(scope, "Status.JVM.CPU.Load", _G, f"Share of the host's processors that {of} uses, 0 to 1.", group),
        Described(scope, "Status.JVM.CPU.Time", _G, f"Processor time that {of} has used, in nanoseconds.", group),
        Described(scope, "Status.JVM.Memory.Heap.Used", _G, f"Resident memory of {of}, in bytes.", group),
        Described(scope, "Status.JVM.Threads.Count", _G, f"Threads of {of}.", group),
        Described(scope, f"{_GC}.Count", _G, f"Garbage collections in {of} so far.", group),
        Described(scope, f"{_GC}.Time", _G, f"Milliseconds that they took in {of} so far.", group),
        Described(scope, f"{_GC}.TimeMsPerSecond", _G, f"Milliseconds of a second that they take in {of}.", group),
    ]


def _passed(scope: Scope, what: str, direction: str) -> list[Described]:
    return [
        Described(scope, f"num{what}{direction}", _C, f"{what} {_WAYS[direction]}."),
        Described(scope, f"num{what}{direction}PerSecond", _M, f"{what} {_WAYS[direction]}, per second."),
    ]


_WAYS = {"In": "that were received", "Out": "that were emitted", "Send": "that a sink wrote"}
_STATES = ("initializing", "created", "running", "restarting", "failing", "cancelling")
_STATE = "state.<state>"
_TM, _JM, _JOB, _TASK, _OP = Scope.TASK_MANAGER, Scope.JOB_MANAGER, Scope.JOB, Scope.TASK, Scope.OPERATOR
_CO = Scope.JOB_MANAGER_OPERATOR

TABLE: tuple[Described, ...] = (
    Described(_JM, "numRunningJobs", _G, "Jobs that have not ended; reported by the dispatcher."),
    Described(_JM, "numRegisteredTaskManagers", _G, "Task managers; this and the next are the resource manager's."),
    Described(_JM, "taskSlotsTotal", _G, "Slots of all task managers."),
    Described(_JM, "taskSlotsAvailable", _G, "Free slots."),
    Described(_JM, "numPendingTaskSlots", _G, "Slots that jobs request and do not have."),
    *_process(_JM, "the service"),
    Described(_JOB, "numRestarts", _G, "Restarts of the job so far."),
    Described(_JOB, "fullRestarts", _G, "The same: Flink's former name."),
    Described(_JOB, "uptime", _G, "Milliseconds since the job started running; 0: it is not running."),
    Described(_JOB, "downtime", _G, "Milliseconds since the job stopped running, until it runs again; 0: it runs."),
    *(
        row
        for state in _STATES
        for row in (
            Described(_JOB, f"{state}Time", _G, f"Milliseconds since the job is {state.upper()}; 0: it is not."),
            Described(_JOB, f"{state}TimeTotal", _G, f"Milliseconds that the job was {state.upper()} in total."),
        )
    ),
    Described(_JOB, "totalNumberOfCheckpoints", _G, "Checkpoints and savepoints that were triggered."),
    Described(_JOB, "numberOfInProgressCheckpoints", _G, "Those in progress."),
    Described(_JOB, "numberOfCompletedCheckpoints", _G, "Those that completed."),
    Described(_JOB, "numberOfFailedCheckpoints", _G, "Those that failed or were aborted."),
    Described(_JOB, "lastCheckpointDuration", _G, "Milliseconds that the last completed checkpoint took."),
    Described(_JOB, "lastCheckpointSize", _G, "Bytes that it wrote."),
    Described(_JOB, "lastCheckpointFullSize", _G, "Bytes of all state that it contains."),
    Described(_JOB, "lastCheckpointProcessedData", _G, "Bytes processed while tasks waited for its barriers."),
    Described(_JOB, "lastCheckpointPersistedData", _G, "Bytes of records in flight that it contains."),
    Described(_JOB, "lastCheckpointCompletedTimestamp", _G, "When it completed, in milliseconds since 1970."),
    Described(_JOB, "lastCheckpointRestoreTimestamp", _G, "When the job was last restored; -1: never."),
    Described(_CO, "numRegisteredReaders", _G, "Subtasks of the source that run.", "coordinator"),
    Described(_CO, "numEventsIn", _C, "Events that they have sent to its enumerator.", "coordinator"),
    Described(_CO, "numEventsOut", _C, "Events that it has sent to them, such as splits.", "coordinator"),
    Described(_CO, "numSplitsAssigned", _C, "Splits that it has assigned to them.", "coordinator"),
    Described(_CO, "numSplitsReturned", _C, "Splits that were returned because a subtask failed.", "coordinator"),
    Described(_CO, "unassignedSplits", _G, "Known splits that are not assigned.", "coordinator.enumerator"),
    *_process(_TM, "the task manager with its slot workers"),
    Described(_TM, "taskSlotsTotal", _G, "Slots of the task manager."),
    Described(_TM, "taskSlotsUsed", _G, "Slots with a worker."),
    Described(_TM, "Status.Shuffle.Netty.UsedMemorySegments", _G, "Buffers that wait in the queues of its tasks."),
    *_process(_TM, "a slot's worker", "slot.<slot>"),
    *_passed(_TASK, "Records", "In"),
    *_passed(_TASK, "Records", "Out"),
    *_passed(_TASK, "Bytes", "In"),
    *_passed(_TASK, "Bytes", "Out"),
    *_passed(_TASK, "Buffers", "Out"),
    Described(_TASK, "busyTimeMsPerSecond", _G, "Milliseconds of a second in which the task works."),
    Described(_TASK, "idleTimeMsPerSecond", _G, "Milliseconds of a second in which it waits for records."),
    Described(_TASK, "backPressuredTimeMsPerSecond", _G, "Milliseconds of a second in which it is backpressured."),
    Described(_TASK, "accumulateBusyTimeMs", _G, "Milliseconds for which it worked in total."),
    Described(_TASK, "accumulateIdleTimeMs", _G, "Milliseconds for which it waited for records in total."),
    Described(_TASK, "accumulateBackPressuredTimeMs", _G, "Milliseconds for which it was backpressured in total."),
    Described(_TASK, "isBackPressured", _G, "1 while it is backpressured, else 0."),
    Described(_TASK, "currentInputWatermark", _G, "Event time of its inputs together, in milliseconds."),
    Described(_TASK, "currentOutputWatermark", _G, "The last watermark that it emitted."),
    Described(_TASK, "watermarkAlignmentDrift", _G, "Milliseconds that a source is ahead of its alignment group."),
    Described(_TASK, "buffers.inputQueueLength", _G, "Buffers and batches that wait for the task."),
    Described(_TASK, "buffers.outputQueueLength", _G, "Buffers that wait for credit of its consumers."),
    Described(_TASK, "buffers.inPoolUsage", _G, "How full its inputs are, 0 to 1."),
    Described(_TASK, "buffers.outPoolUsage", _G, "How full its outputs are, 0 to 1."),
    Described(_TASK, "buffers.outputCredit", _G, "Buffers that its consumers have room for."),
    Described(_TASK, "checkpointAlignmentTime", _G, "Nanoseconds from the first to the last barrier of a checkpoint."),
    Described(_TASK, "checkpointStartDelayNanos", _G, "Nanoseconds from its trigger to its first barrier."),
    Described(_TASK, "numRecordsOut", _C, "Records that were emitted to an edge.", "edge.<edge>"),
    Described(_TASK, "numRecordsOutPerSecond", _M, "Records per second that are emitted to it.", "edge.<edge>"),
    Described(_TASK, "outputQueueLength", _G, "Buffers that wait at its source for credit.", "edge.<edge>"),
    Described(_TASK, "outputCredit", _G, "Buffers that its target has room for.", "edge.<edge>"),
    Described(_TASK, "inputQueueLength", _G, "Buffers and batches that wait at its target.", "edge.<edge>"),
    Described(_TASK, "currentInputWatermark", _G, "Event time of the edge at its target.", "edge.<edge>"),
    *_passed(_OP, "Records", "In"),
    *_passed(_OP, "Records", "Out"),
    *_passed(_OP, "Records", "Send"),
    Described(_OP, "currentInputWatermark", _G, "The last watermark that the operator received."),
    Described(_OP, "currentOutputWatermark", _G, "The last watermark that it emitted."),
    Described(_OP, "numLateRecordsDropped", _C, "Late records that a window operator dropped."),
    Described(_OP, "hotKeyShare", _G, "Share of the most frequent key in the received records, 0 to 1; sampled."),
    Described(_OP, "numKeysSampled", _G, "The number of sampled records, with decreasing weight of older ones."),
    Described(
        Scope.TASK_MANAGER_JOB,
        "latency",
        _H,
        "Milliseconds that markers took from a source to an operator.",
        "latency.source_id.<source_id>.operator_id.<operator_id>.operator_subtask_index.<operator_subtask_index>",
    ),
    Described(_OP, "numStateEntries", _G, "Entries of all states of the operator at present."),
    Described(_OP, "numEntries", _G, "Entries of a state at present: keys with windows, timers, elements.", _STATE),
    Described(_OP, "lastCheckpointBytes", _G, "Bytes of a state in the last checkpoint.", _STATE),
    Described(_OP, "estimatedBytes", _G, "Estimated current bytes, from its entries.", _STATE),
)


@cache
def meaning_of(name: str) -> str:
    """Returns the meaning of a metric; for a user-defined one, that it is one."""
    return next((row.meaning for row in TABLE if row.name == name), "A metric of a function.")


@cache
def only_grows(name: str) -> bool:
    """Whether it is a counter that never decreases. User-defined counters may."""
    return any(row.name == name and row.kind is MetricKind.COUNTER for row in TABLE)
