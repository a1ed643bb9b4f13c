"""Unaligned barriers in the pure machine: case by case, and compared with a model that tracks every record."""

from __future__ import annotations

from itertools import takewhile

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from thoroughness import cases

from millstream.core.jobs.barriers import Alignment
from millstream.core.records.batches import Barrier
from millstream.taskmanager.worker.checkpointing.alignment import (
    COORDINATOR,
    Abandon,
    Action,
    AllDelivered,
    BarrierAligner,
    Block,
    TakeSnapshot,
    Unblock,
)

ALL = frozenset({1, 2, 3})


def overtaking(number: int) -> Barrier:
    return Barrier(number, number * 1000, alignment=Alignment.UNALIGNED)


def timed(number: int, timeout: int = 100) -> Barrier:
    return Barrier(number, number * 1000, aligned_timeout_ms=timeout)


def taken(barrier: Barrier, *recorded: int) -> list[Action]:
    return [Unblock(), TakeSnapshot(barrier, frozenset(recorded))]


def test_the_snapshot_is_taken_with_the_first_barrier_and_the_others_are_awaited() -> None:
    aligner = BarrierAligner(ALL, ALL)
    assert aligner.announced(overtaking(1)) == taken(overtaking(1), 1, 2, 3)
    assert not aligner.is_aligning
    assert aligner.delivered(1, 1) == []
    assert aligner.delivered(3, 1) == []
    assert aligner.received(1, overtaking(1)) == [], "its turn came later, and means nothing any more"
    assert aligner.delivered(2, 1) == [AllDelivered(1)]
    assert aligner.delivered(2, 1) == []


def test_a_barrier_that_is_taken_in_order_suffices_too() -> None:
    aligner = BarrierAligner(ALL, ALL)
    assert aligner.received(2, overtaking(1)) == [Block(2), *taken(overtaking(1), 1, 3)]


def test_channels_that_must_not_be_recorded_are_awaited() -> None:
    aligner = BarrierAligner(ALL, {1, 2})
    assert aligner.announced(overtaking(1)) == []
    assert aligner.received(1, overtaking(1)) == [Block(1)]
    assert aligner.received(3, overtaking(1)) == [Block(3), *taken(overtaking(1), 2)]
    assert aligner.delivered(2, 1) == [AllDelivered(1)]


def test_an_aligned_checkpoint_becomes_unaligned_when_its_timeout_expires() -> None:
    aligner = BarrierAligner(ALL, ALL)
    assert aligner.announced(timed(1)) == []
    assert aligner.next_timeout == 1100
    assert aligner.received(1, timed(1)) == [Block(1)]
    assert aligner.tick(1099) == []
    assert aligner.tick(1100) == taken(replace(timed(1), alignment=Alignment.UNALIGNED), 2, 3)
    assert aligner.next_timeout is None


def test_an_aligned_checkpoint_in_time_records_nothing() -> None:
    aligner = BarrierAligner({1, 2}, {1, 2})
    assert aligner.received(1, timed(1)) == [Block(1)]
    assert aligner.received(2, timed(1)) == taken(timed(1))
    assert aligner.tick(10_000) == []


def test_one_producer_that_became_unaligned_makes_the_task_unaligned() -> None:
    aligner = BarrierAligner({1, 2}, {1, 2})
    assert aligner.received(1, timed(1)) == [Block(1)]
    turned = replace(timed(1), alignment=Alignment.UNALIGNED)
    assert aligner.announced(turned) == taken(turned, 2)


def test_announced_aligned_barriers_have_no_effect() -> None:
    aligner = BarrierAligner({1, 2}, {1, 2})
    assert aligner.announced(Barrier(1, 1000)) == []
    assert not aligner.is_aligning


def test_an_end_counts_as_the_barrier() -> None:
    aligner = BarrierAligner({1, 2}, {1, 2})
    assert aligner.announced(overtaking(1)) == taken(overtaking(1), 1, 2)
    assert aligner.delivered(1, 1) == []
    assert aligner.ended(2) == [], "its recording determines when it is complete, which it is not after a newer barrier"
    assert aligner.delivered(2, 1) == [AllDelivered(1)]


def test_ends_are_recorded_when_the_coordinator_triggers() -> None:
    aligner = BarrierAligner({1, 2}, {1, 2})
    assert aligner.received(COORDINATOR, overtaking(1)) == taken(overtaking(1), 1, 2)


def test_an_aborted_checkpoint_records_nothing_any_more() -> None:
    aligner = BarrierAligner({1, 2}, {1, 2})
    aligner.announced(overtaking(1))
    assert aligner.aborted(1) == [Abandon(1, "aborted")]
    assert aligner.delivered(1, 1) == []
    assert aligner.delivered(2, 1) == []
    waiting = BarrierAligner({1, 2}, {1})
    waiting.received(1, overtaking(1))
    assert waiting.aborted(1) == [Unblock(), Abandon(1, "aborted")]
    assert waiting.received(2, overtaking(1)) == []


def test_a_savepoint_is_aligned_while_a_checkpoint_is_still_recorded() -> None:
    aligner = BarrierAligner({1, 2}, {1, 2})
    aligner.announced(overtaking(1))
    assert aligner.delivered(1, 1) == []
    savepoint = Barrier(2, 2000, is_savepoint=True)
    assert aligner.received(1, savepoint) == [Block(1)]
    assert aligner.delivered(2, 1) == [AllDelivered(1)]
    assert aligner.received(2, savepoint) == taken(savepoint)


def test_the_next_unaligned_checkpoint_ends_recordings() -> None:
    aligner = BarrierAligner({1, 2}, {1, 2})
    aligner.announced(overtaking(1))
    assert aligner.announced(overtaking(2)) == [Abandon(1, "overtaken by checkpoint 2"), *taken(overtaking(2), 1, 2)]
    assert aligner.announced(overtaking(1)) == []


def test_a_checkpoint_whose_recordings_are_complete_is_not_abandoned() -> None:
    aligner = BarrierAligner({1, 2}, {1, 2})
    aligner.announced(overtaking(1))
    aligner.delivered(1, 1)
    assert aligner.delivered(2, 1) == [AllDelivered(1)]
    assert aligner.announced(overtaking(2)) == taken(overtaking(2), 1, 2)
    assert aligner.aborted(1) == []


def test_an_unaligned_checkpoint_abandons_an_older_aligned_one() -> None:
    aligner = BarrierAligner({1, 2}, {1, 2})
    aligner.received(1, Barrier(1, 1000))
    reason = "overtaken by checkpoint 2"
    assert aligner.announced(overtaking(2)) == [Unblock(), Abandon(1, reason), *taken(overtaking(2), 1, 2)]


Item = int | Barrier | None
"""An element of a channel: a record, a barrier, or the end."""

END = None


class EveryRecordOnce(RuleBasedStateMachine):
    """A task of several channels. Each record is in exactly one place for each checkpoint that completes: in the effect
    of the snapshot, recorded at the receiver, overtaken at the sender, or behind the barrier."""

    @initialize(overtakable=st.lists(st.booleans(), min_size=1, max_size=3))
    def start(self, overtakable: list[bool]) -> None:
        self.channels = range(len(overtakable))
        self.overtakable = overtakable
        self.aligner = BarrierAligner(self.channels, [c for c in self.channels if overtakable[c]])
        self.sending: list[list[Item]] = [[] for _ in self.channels]
        self.waiting: list[list[Item]] = [[] for _ in self.channels]
        self.emitted: list[list[int]] = [[] for _ in self.channels]
        self.effect: list[list[int]] = [[] for _ in self.channels]
        self.blocked: set[int] = set()
        self.closed: set[int] = set()
        self.records = 0
        self.now = 0
        # of the checkpoint in progress
        self.number = 0
        self.running = False
        self.before: dict[int, list[int]] = {}  # emitted before the barrier
        self.overtaken: dict[int, list[int]] = {}
        self.snapshot: list[list[int]] | None = None
        self.recorded: dict[int, list[int]] = {}
        self.recording: set[int] = set()

    @rule(data=st.data())
    def emit(self, data: st.DataObject) -> None:
        channel = data.draw(st.sampled_from(list(self.channels)))
        if channel not in self.closed:
            self.records += 1
            self.emitted[channel].append(self.records)
            self.sending[channel].append(self.records)

    @precondition(lambda self: not self.running and self.number < 6)
    @rule(kind=st.sampled_from(["unaligned", "timed", "aligned"]))
    def trigger(self, kind: str) -> None:
        self.number += 1
        self.running = True
        self.kind = kind
        self.started = self.now
        self.before, self.overtaken, self.recorded, self.snapshot = {}, {}, {}, None

    def barrier(self, unaligned: bool) -> Barrier:
        return Barrier(
            self.number,
            self.started,
            alignment=Alignment.UNALIGNED if unaligned else Alignment.ALIGNED,
            aligned_timeout_ms=50 if self.kind == "timed" else None,
        )

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def send_barrier(self, data: st.DataObject) -> None:
        """A producer takes its snapshot, each at a time of its own."""
        channel = data.draw(st.sampled_from(list(self.channels)))
        if channel not in self.before and channel not in self.closed:
            self._send_barrier(channel)
            if self.kind == "unaligned":
                self._overtake(channel)

    def _send_barrier(self, channel: int) -> None:
        self.before[channel] = list(self.emitted[channel])
        self.sending[channel].append(self.barrier(self.kind == "unaligned"))

    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        channel = data.draw(st.sampled_from(list(self.channels)))
        if channel not in self.closed:
            self.closed.add(channel)
            self.sending[channel].append(END)

    @rule(data=st.data(), count=st.integers(1, 3))
    def carry(self, data: st.DataObject, count: int) -> None:
        channel = data.draw(st.sampled_from(list(self.channels)))
        for _ in range(min(count, len(self.sending[channel]))):
            self._arrive(channel, self.sending[channel].pop(0))

    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        if ready := self._ready():
            self._take(data.draw(st.sampled_from(ready)))

    def _ready(self) -> list[int]:
        return [c for c in self.channels if self.waiting[c] and c not in self.blocked]

    def _take(self, channel: int) -> None:
        match self.waiting[channel].pop(0):
            case Barrier() as barrier:
                self._apply(self.aligner.received(channel, barrier))
            case None:
                self._apply(self.aligner.ended(channel))
            case record:
                self.effect[channel].append(record)

    @rule(passed=st.integers(1, 60))
    def wait(self, passed: int) -> None:
        self.now += passed
        if self.running and self.kind == "timed" and self.now - self.started >= 50:
            for channel in self.before:
                self._overtake(channel)
        self._apply(self.aligner.tick(self.now))

    @precondition(lambda self: self.running)
    @rule()
    def abort(self) -> None:
        self.running = False
        self.recording.clear()
        self._apply(self.aligner.aborted(self.number))

    def _overtake(self, channel: int) -> None:
        queue = self.sending[channel]
        ahead = list(takewhile(lambda item: not self._is_barrier(item), queue))
        if not self.overtakable[channel] or len(ahead) == len(queue):
            return
        self.overtaken[channel] = [item for item in ahead if isinstance(item, int)]
        self.sending[channel] = [self.barrier(True), *ahead, *queue[len(ahead) + 1 :]]
        self._arrive(channel, self.sending[channel].pop(0))

    def _is_barrier(self, item: Item) -> bool:
        return isinstance(item, Barrier) and item.checkpoint_id == self.number

    def _arrive(self, channel: int, item: Item) -> None:
        self.waiting[channel].append(item)
        self._record(channel, item)
        if isinstance(item, Barrier):
            self._apply(self.aligner.announced(item))

    def _record(self, channel: int, item: Item) -> None:
        if channel not in self.recording:
            return
        if isinstance(item, int):
            self.recorded[channel].append(item)
        elif item is END or self._is_barrier(item):
            self.recording.remove(channel)
            self._apply(self.aligner.delivered(channel, self.number))

    def _apply(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Block(channel):
                    self.blocked.add(channel)
                case Unblock():
                    self.blocked.clear()
                case TakeSnapshot(barrier, recorded):
                    assert barrier.checkpoint_id == self.number
                    assert all(self.overtakable[channel] for channel in recorded)
                    self.snapshot = [list(effect) for effect in self.effect]
                    self.recorded = {channel: [] for channel in recorded}
                    self.recording = set(recorded)
                    for channel in recorded:
                        for item in self.waiting[channel]:
                            self._record(channel, item)
                    if not recorded:
                        self._check()
                case AllDelivered():
                    self._check()
                case Abandon(_, reason):
                    assert reason == "aborted"

    def _check(self) -> None:
        """The checkpoint is complete here."""
        assert self.snapshot is not None
        self.running = False
        for channel in self.channels:
            before = self.before.get(channel, self.emitted[channel])  # an end counts as the barrier
            held = self.snapshot[channel] + self.recorded.get(channel, []) + self.overtaken.get(channel, [])
            assert held == before

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        if hasattr(self, "channels") and not self.running and self.blocked:
            raise AssertionError(f"blocked with no checkpoint in progress: {self.blocked}")

    def teardown(self) -> None:
        """The checkpoint in progress completes when everything is delivered and taken."""
        if not hasattr(self, "channels"):
            return
        for channel in self.channels:
            if self.running and channel not in self.before and channel not in self.closed:
                self._send_barrier(channel)
            for item in self.sending[channel]:
                self._arrive(channel, item)
            self.sending[channel].clear()
        while ready := self._ready():
            self._take(ready[0])
        assert not any(self.waiting), "deadlock"
        if self.running and not self.before:
            self._apply(self.aligner.received(COORDINATOR, self.barrier(False)))  # all producers had finished
        assert not self.running, "the checkpoint never ended"
        assert self.effect == self.emitted


EveryRecordOnce.TestCase.settings = settings(max_examples=cases(150), stateful_step_count=40)
TestEveryRecordOnce = EveryRecordOnce.TestCase
