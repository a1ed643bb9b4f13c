from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.batches import Barrier
from millstream.taskmanager.checkpointing.alignment import (
    COORDINATOR,
    Abandon,
    BarrierAligner,
    Block,
    TakeSnapshot,
    Unblock,
)


def barrier(number: int) -> Barrier:
    return Barrier(number, number * 1000)


def loose(number: int) -> Barrier:
    return Barrier(number, number * 1000, aligned=False)


def test_channels_that_delivered_are_blocked_until_the_last_one_did() -> None:
    aligner = BarrierAligner([1, 2, 3])
    assert aligner.received(1, barrier(1)) == [Block(1)]
    assert aligner.received(3, barrier(1)) == [Block(3)]
    assert aligner.is_aligning
    assert aligner.received(2, barrier(1)) == [Unblock(), TakeSnapshot(barrier(1))]
    assert not aligner.is_aligning


def test_a_single_channel_is_never_blocked() -> None:
    assert BarrierAligner([1]).received(1, barrier(1)) == [Unblock(), TakeSnapshot(barrier(1))]


def test_at_least_once_blocks_nothing_and_keeps_several_under_way() -> None:
    aligner = BarrierAligner([1, 2])
    assert aligner.received(1, loose(1)) == []
    assert aligner.received(1, loose(2)) == []
    assert aligner.received(2, loose(1)) == [TakeSnapshot(loose(1))]
    assert aligner.received(2, loose(2)) == [TakeSnapshot(loose(2))]


def test_an_aligned_savepoint_among_checkpoints_that_are_not() -> None:
    aligner = BarrierAligner([1, 2])
    assert aligner.received(1, loose(1)) == []
    assert aligner.received(1, barrier(2)) == [Block(1)]
    assert aligner.received(2, loose(1)) == [TakeSnapshot(loose(1))]
    assert aligner.received(2, barrier(2)) == [Unblock(), TakeSnapshot(barrier(2))]


def test_a_checkpoint_that_a_newer_one_came_before_never_blocks() -> None:
    aligner = BarrierAligner([1, 2])
    assert aligner.received(1, barrier(2)) == [Block(1)]
    assert aligner.received(2, barrier(1)) == []
    assert aligner.received(2, barrier(2)) == [Unblock(), TakeSnapshot(barrier(2))]


def test_the_coordinator_asks_a_task_whose_channels_are_about_to_end() -> None:
    aligner = BarrierAligner([1, 2])
    assert aligner.received(COORDINATOR, barrier(1)) == []
    assert aligner.ended(1) == []
    assert aligner.ended(2) == [Unblock(), TakeSnapshot(barrier(1))]
    assert aligner.received(COORDINATOR, barrier(2)) == [Unblock(), TakeSnapshot(barrier(2))]


def test_aborting_a_checkpoint_leaves_the_others_under_way() -> None:
    aligner = BarrierAligner([1, 2])
    assert aligner.received(1, loose(1)) == []
    assert aligner.aborted(2) == []
    assert aligner.received(1, loose(2)) == []
    assert aligner.received(2, loose(1)) == [TakeSnapshot(loose(1))]
    assert aligner.received(2, loose(2)) == []


def test_a_newer_barrier_abandons_the_older_checkpoint() -> None:
    aligner = BarrierAligner([1, 2])
    aligner.received(1, barrier(1))
    actions = aligner.received(2, barrier(2))
    assert actions == [Unblock(), Abandon(1, "overtaken by checkpoint 2"), Block(2)]
    assert aligner.received(1, barrier(1)) == []
    assert aligner.received(1, barrier(2)) == [Unblock(), TakeSnapshot(barrier(2))]


def test_an_ended_channel_owes_nothing() -> None:
    aligner = BarrierAligner([1, 2])
    aligner.received(1, barrier(1))
    assert aligner.ended(2) == [Unblock(), TakeSnapshot(barrier(1))]
    assert aligner.received(1, barrier(2)) == [Unblock(), TakeSnapshot(barrier(2))]


def test_an_aborted_checkpoint_frees_the_channels_and_its_late_barriers_count_no_more() -> None:
    aligner = BarrierAligner([1, 2])
    aligner.received(1, barrier(1))
    assert aligner.aborted(1) == [Unblock(), Abandon(1, "aborted")]
    assert aligner.received(2, barrier(1)) == []
    assert aligner.aborted(1) == []


@settings(max_examples=200)
@given(st.data())
def test_whatever_the_order_each_snapshot_divides_every_channel_at_its_barrier(data: st.DataObject) -> None:
    """Exactly-once: no record behind a channel's barrier is taken before the snapshot, none before it after."""
    channels = data.draw(st.integers(1, 4))
    streams = []
    for _ in range(channels):
        items: list[int | Barrier] = []
        for number in range(1, 4):
            items += list(range(data.draw(st.integers(0, 3))))
            items.append(barrier(number))
        streams.append(items)
    aligner = BarrierAligner(range(channels))
    blocked: set[int] = set()
    passed = [0] * channels  # barriers behind which the channel's records are taken now
    snapshots: list[int] = []
    while any(streams):
        ready = [c for c in range(channels) if streams[c] and c not in blocked]
        assert ready, "deadlock: every channel that has something is blocked"
        channel = data.draw(st.sampled_from(ready))
        item = streams[channel].pop(0)
        if isinstance(item, int):
            assert passed[channel] == len(snapshots), "a record was taken on the wrong side of a snapshot"
            continue
        passed[channel] += 1
        for action in aligner.received(channel, item):
            match action:
                case Block(c):
                    blocked.add(c)
                case Unblock():
                    blocked.clear()
                case TakeSnapshot(taken):
                    snapshots.append(taken.checkpoint_id)
    assert snapshots == [1, 2, 3]
