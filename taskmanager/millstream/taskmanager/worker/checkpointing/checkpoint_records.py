"""What one task knows of each checkpoint, from its first barrier until nothing refers to it any more. Pure.

One record for each checkpoint, with a stage. A record outlives the notice of its outcome as long as later checkpoints
may refer to the files of its snapshot, and one that could not be taken is kept until its notice if it forbids
references meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from millstream.taskmanager.worker.checkpointing.capture import CapturedTask
    from millstream.taskmanager.worker.checkpointing.layout import TaskLayout
    from millstream.taskmanager.worker.checkpointing.writer_thread import SnapshotWritten
    from millstream.taskmanager.worker.checkpointing.writing import SnapshotTarget

_REMEMBERED = 64  # acknowledged checkpoints without a notice


class Stage(Enum):
    """The stage of a checkpoint in one task."""

    ARRIVED = "arrived"
    """Its first barrier has arrived."""
    WRITING = "writing"
    """The snapshot was taken, and is being written."""
    HELD = "held"
    """The states are written, and records in flight are still being recorded."""
    GIVEN_UP = "given up"
    """It is still being written, and what was written is deleted then."""
    ACKNOWLEDGED = "acknowledged"
    """The snapshot is complete, and the notice of the checkpoint's outcome is awaited."""
    SETTLED = "settled"
    """Nothing remains to be done."""


TRANSITIONS: dict[Stage, frozenset[Stage]] = {
    Stage.ARRIVED: frozenset({Stage.WRITING, Stage.SETTLED}),
    Stage.WRITING: frozenset({Stage.HELD, Stage.GIVEN_UP, Stage.ACKNOWLEDGED, Stage.SETTLED}),
    Stage.HELD: frozenset({Stage.WRITING, Stage.GIVEN_UP}),
    Stage.GIVEN_UP: frozenset({Stage.SETTLED}),
    Stage.ACKNOWLEDGED: frozenset({Stage.SETTLED}),
    Stage.SETTLED: frozenset(),
}


class Arrival(Struct, frozen=True):
    """The first barrier of a checkpoint: its arrival, the delay since the trigger, and the records taken before."""

    at: float
    start_delay_ms: int
    bytes_in: int


class CheckpointRecord(Struct):
    """What a task knows of one checkpoint."""

    number: int
    arrival: Arrival
    stage: Stage = Stage.ARRIVED
    captured: CapturedTask | None = None
    """While it is being written."""
    target: SnapshotTarget | None = None
    held: SnapshotWritten | None = None
    """The states that are written, while records in flight are still being recorded."""
    files: tuple[str, tuple[str, ...]] = ("", ())
    """While its outcome is unknown: the folder, and the files in it that the snapshot created."""
    layout: TaskLayout | None = None
    """The files that later checkpoints may refer to."""
    is_full: bool = False
    """Whether later checkpoints must not refer to files of earlier ones while its outcome is unknown.

    Once it completes, the files of its predecessors may be deleted.
    """

    @property
    def is_writing(self) -> bool:
        """Whether its snapshot was taken and is not written completely."""
        return self.stage in (Stage.WRITING, Stage.HELD, Stage.GIVEN_UP)

    def move_to(self, stage: Stage) -> None:
        """Moves to the next stage; raises if the transition is not allowed."""
        if stage not in TRANSITIONS[self.stage]:
            raise AssertionError(f"checkpoint {self.number} is {self.stage.value}, and cannot be {stage.value}")
        self.stage = stage

    def write(self, captured: CapturedTask, target: SnapshotTarget) -> None:
        """The snapshot was taken: writing begins."""
        self.move_to(Stage.WRITING)
        self.captured, self.target = captured, target

    def hold(self, mail: SnapshotWritten) -> None:
        """The states are written: what is in flight is awaited."""
        self.move_to(Stage.HELD)
        self.held = mail

    def go_on(self) -> tuple[SnapshotWritten, SnapshotTarget]:
        """What is in flight is recorded: writing continues with it. Returns what was held, and where to write."""
        self.move_to(Stage.WRITING)
        mail, self.held = self.held, None
        assert mail is not None, "it was held"
        assert self.target is not None, "it was written to"
        return mail, self.target

    def give_up(self) -> SnapshotWritten | None:
        """The result will not be needed. Returns what was held."""
        self.move_to(Stage.GIVEN_UP)
        if self.captured is not None:
            self.captured.release()
        mail, self.held = self.held, None
        return mail


class CheckpointRecords:
    """The records of one task, by the ids of checkpoints."""

    def __init__(self) -> None:
        self._records: dict[int, CheckpointRecord] = {}

    def __iter__(self) -> Iterator[CheckpointRecord]:
        """In the order of their first barriers."""
        return iter(self._records.values())

    def get(self, number: int) -> CheckpointRecord | None:
        """Returns the record of a checkpoint, if there is one."""
        return self._records.get(number)

    @property
    def is_writing(self) -> bool:
        """Whether any snapshot is being written."""
        return any(record.is_writing for record in self)

    @property
    def may_share(self) -> bool:
        """Whether a new checkpoint may refer to files of earlier ones."""
        return not any(record.is_full for record in self)

    def bases(self, oldest: int) -> dict[int, TaskLayout]:
        """Returns the files of each checkpoint that a new one may refer to."""
        return {r.number: r.layout for r in self if r.layout is not None and r.number >= oldest}

    def arrived(self, number: int, arrival: Arrival) -> None:
        """The first barrier of a checkpoint has arrived."""
        assert number not in self._records, "later barriers are not the first"
        self._records[number] = CheckpointRecord(number, arrival)

    def taken(self, number: int) -> CheckpointRecord:
        """Returns the record of a checkpoint whose snapshot is taken now: older ones will not be taken any more."""
        for older in [r for r in self if r.stage is Stage.ARRIVED and r.number < number]:
            self.settle(older)
        return self._records[number]

    def abandoned(self, number: int) -> None:
        """Its snapshot will not be taken."""
        record = self._records.get(number)
        if record is not None and record.stage is Stage.ARRIVED:
            self.settle(record)

    def acknowledged(
        self, record: CheckpointRecord, location: str, new_files: tuple[str, ...], layout: TaskLayout
    ) -> None:
        """The snapshot is written completely, with these new files in its folder."""
        record.move_to(Stage.ACKNOWLEDGED)
        record.captured = record.target = None
        record.files, record.layout = (location, new_files), layout
        waiting = [r for r in self if r.stage is Stage.ACKNOWLEDGED]
        if len(waiting) > _REMEMBERED:
            self.settle(min(waiting, key=attrgetter("number")))

    def not_written(self, record: CheckpointRecord) -> None:
        """Writing it failed: it completes in no case."""
        record.is_full = False
        self.settle(record)

    def completed(self, number: int) -> None:
        """The checkpoint has completed: those before it are not referred to any more."""
        record = self._records.get(number)
        if record is None:
            return
        record.is_full = False
        if record.layout is not None:
            for older in [r for r in self if r.number < number]:
                older.layout = None
                self._drop_unneeded(older)
        self._noticed(record)

    def aborted(self, number: int) -> tuple[str, tuple[str, ...]]:
        """The checkpoint was aborted: returns the files that its snapshot has created."""
        record = self._records.get(number)
        if record is None:
            return "", ()
        files, record.is_full, record.layout = record.files, False, None
        self._noticed(record)
        return files

    def _noticed(self, record: CheckpointRecord) -> None:
        if record.stage is Stage.ACKNOWLEDGED:
            self.settle(record)
        self._drop_unneeded(record)

    def settle(self, record: CheckpointRecord) -> None:
        """Nothing remains to be done."""
        record.move_to(Stage.SETTLED)
        record.captured = record.target = None
        record.files = "", ()
        self._drop_unneeded(record)

    def _drop_unneeded(self, record: CheckpointRecord) -> None:
        if record.stage is Stage.SETTLED and record.layout is None and not record.is_full:
            self._records.pop(record.number, None)
