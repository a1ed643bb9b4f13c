"""The in-flight records that the unaligned checkpoints of one task include, from the snapshot to the last barrier.

Owned by the worker's loop. With the snapshot, recordings start on the input channels that have not delivered their
barrier, and barriers overtake what is queued at the outputs. The acknowledgement waits until every recording is
complete and no barrier that may still overtake records waits in an output. Then the recorded data is written, on the
writers' thread; if there is none, the checkpoint is treated as an aligned one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from millstream.core.records.batches import Barrier
from millstream.taskmanager.worker.checkpointing.capture import CapturedOperator, CapturedTask
from millstream.taskmanager.worker.checkpointing.in_flight import CapturedChannel, CapturedInFlight, Side, state_name
from millstream.taskmanager.worker.network.inputs import InputChannel, InputGate
from millstream.taskmanager.worker.network.overtaking import Passage
from millstream.taskmanager.worker.network.recording import Recording, buffer_of

if TYPE_CHECKING:
    from millstream.taskmanager.worker.tasks.task import Task


class _Catch(Struct):
    """The recorded data of one checkpoint."""

    barrier: Barrier
    awaits_inputs: bool = False
    recordings: list[tuple[InputGate, InputChannel, Recording]] = field(default_factory=list)
    passages: list[tuple[tuple[str, str], Passage]] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        return self.awaits_inputs or self.turns_at is not None

    @property
    def turns_at(self) -> int | None:
        timeout = self.barrier.aligned_timeout_ms
        if timeout is None or not any(passage.is_open for _, passage in self.passages):
            return None
        return self.barrier.timestamp + timeout


class InFlightRecords:
    """The recorded data of the checkpoints of one task."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._catches: dict[int, _Catch] = {}

    def __contains__(self, checkpoint_id: int) -> bool:
        """Whether the checkpoint includes in-flight records, or may still do so."""
        return checkpoint_id in self._catches

    @property
    def is_under_way(self) -> bool:
        """Whether any checkpoint does."""
        return bool(self._catches)

    @property
    def next_timeout(self) -> int | None:
        """When `tick` has to be called."""
        return min((at for catch in self._catches.values() if (at := catch.turns_at) is not None), default=None)

    def record(self, barrier: Barrier, channels: Collection[int]) -> None:
        """Called with the capture of the state, before the barrier is emitted."""
        if not barrier.may_overtake:
            return
        catch = self._catches[barrier.checkpoint_id] = _Catch(barrier, bool(channels))
        begun_on, rest = self._task.steps.input.begun() or (None, None)
        for gate in self._task.gates:
            for channel in gate.channels:
                if channel.channel_id in channels:
                    begun = rest if channel is begun_on else None
                    catch.recordings.append((gate, channel, gate.record(channel, barrier.checkpoint_id, begun)))

    def sent_on(self, checkpoint_id: int, passages: list[tuple[tuple[str, str], Passage]]) -> None:
        """The barrier was emitted to the outputs."""
        if checkpoint_id in self._catches:
            self._catches[checkpoint_id].passages = passages

    def delivered(self) -> list[tuple[int, int]]:
        """The channels whose recordings are complete, each with its checkpoint."""
        return [
            (channel.channel_id, number)
            for number, catch in self._catches.items()
            for _, channel, recording in catch.recordings
            if recording.is_complete
        ]

    def in_vain(self) -> list[int]:
        """The checkpoints that a newer one has overtaken on a channel: they can never complete."""
        return [
            number
            for number, catch in self._catches.items()
            if any(recording.is_in_vain for _, _, recording in catch.recordings)
        ]

    def inputs_delivered(self, checkpoint_id: int) -> None:
        """All its recordings are complete."""
        if checkpoint_id in self._catches:
            self._catches[checkpoint_id].awaits_inputs = False

    def tick(self, now_ms: int) -> None:
        """Barriers that have waited in the outputs past their timeout overtake the buffers ahead of them."""
        for catch in self._catches.values():
            if (at := catch.turns_at) is not None and at <= now_ms:
                for _, passage in catch.passages:
                    passage.hurry(catch.barrier)

    def settled(self) -> set[int]:
        """The checkpoints whose recordings are complete."""
        return {number for number, catch in self._catches.items() if not catch.is_open}

    def take(self, checkpoint_id: int) -> CapturedTask:
        """Removes and returns all recorded data of a complete checkpoint, by operator."""
        catch = self._catches[checkpoint_id]
        self.drop(checkpoint_id)
        subtask = self._task.deployment.subtask
        found: dict[tuple[str, str], list[CapturedChannel]] = {}
        for gate, channel, recording in catch.recordings:
            operator_id, edge = gate.edge
            captured = CapturedChannel(channel.producer_subtask, subtask, tuple(recording.buffers), recording.error)
            if captured.buffers or captured.error is not None:
                found.setdefault((operator_id, state_name(edge, Side.RECEIVED)), []).append(captured)
        for (operator_id, edge), passage in catch.passages:
            captured = CapturedChannel(subtask, passage.consumer, tuple(map(buffer_of, passage.overtaken)))
            if captured.buffers:
                found.setdefault((operator_id, state_name(edge, Side.QUEUED)), []).append(captured)
        operators: dict[str, CapturedOperator] = {}
        for (operator_id, name), channels in found.items():
            known = operators.get(operator_id, CapturedOperator(operator_id, operator_id, operator_id))
            state = CapturedInFlight(name, tuple(channels))
            operators[operator_id] = replace(known, in_flight=(*known.in_flight, state))
        return CapturedTask(tuple(operators.values()))

    def drop(self, checkpoint_id: int) -> None:
        """Stops recording for the checkpoint, and drops its data."""
        catch = self._catches.pop(checkpoint_id, None)
        for _, channel, recording in catch.recordings if catch is not None else ():
            if channel.recording is recording:
                channel.recording = None
