from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import cases

from millstream.core.jobs.barriers import Alignment
from millstream.core.records.batches import Barrier
from millstream.taskmanager.worker.checkpointing.alignment import (
    COORDINATOR,
    Abandon,
    Action,
    BarrierAligner,
    Block,
    TakeSnapshot,
    Unblock,
)


def barrier(number: int) -> Barrier:
    return Barrier(number, number * 1000)


def loose(number: int) -> Barrier:
    return Barrier(number, number * 1000, alignment=Alignment.AT_LEAST_ONCE)


def timed(number: int) -> Barrier:
    return Barrier(number, number * 1000, aligned_timeout_ms=100)


def test_channels_that_delivered_are_blocked_until_the_last_one_has() -> None:
    aligner = BarrierAligner([1, 2, 3])
    assert aligner.received(1, barrier(1)) == [Block(1)]
    assert aligner.received(3, barrier(1)) == [Block(3)]
    assert aligner.is_aligning
    assert aligner.received(2, barrier(1)) == [Unblock(), TakeSnapshot(barrier(1))]
    assert not aligner.is_aligning


def test_a_single_channel_is_never_blocked() -> None:
    assert BarrierAligner([1]).received(1, barrier(1)) == [Unblock(), TakeSnapshot(barrier(1))]


def test_at_least_once_blocks_nothing_and_allows_several_checkpoints() -> None:
    aligner = BarrierAligner([1, 2])
    assert aligner.received(1, loose(1)) == []
    assert aligner.received(1, loose(2)) == []
    assert aligner.received(2, loose(1)) == [TakeSnapshot(loose(1))]
    assert aligner.received(2, loose(2)) == [TakeSnapshot(loose(2))]


def test_a_barrier_of_an_aborted_checkpoint_still_excludes_older_ones() -> None:
    aligner = BarrierAligner([1, 2])
    assert aligner.received(1, barrier(1)) == [Block(1)]
    assert aligner.aborted(2) == []
    assert aligner.received(2, barrier(2)) == [Unblock(), Abandon(1, "overtaken by checkpoint 2")]
    assert not aligner.is_aligning


def test_a_barrier_of_an_aborted_checkpoint_excludes_older_ones_that_come_later() -> None:
    aligner = BarrierAligner([1, 2])
    assert aligner.aborted(2) == []
    assert aligner.received(2, barrier(2)) == []
    assert aligner.received(1, barrier(1)) == []
    assert not aligner.is_aligning


def test_a_barrier_of_an_aborted_unaligned_checkpoint_excludes_nothing() -> None:
    aligner = BarrierAligner([1, 2])
    assert aligner.received(1, barrier(1)) == [Block(1)]
    assert aligner.aborted(2) == []
    assert aligner.received(2, loose(2)) == []
    assert aligner.received(2, barrier(1)) == [Unblock(), TakeSnapshot(barrier(1))]


def test_only_an_aligned_barrier_with_a_timeout_has_a_timeout() -> None:
    aligner = BarrierAligner([1, 2])
    assert aligner.received(1, barrier(1)) == [Block(1)]
    assert aligner.next_timeout is None
    assert aligner.tick(10_000) == []
    turned = Barrier(2, 2000, alignment=Alignment.UNALIGNED, aligned_timeout_ms=100)
    aligner = BarrierAligner([1, 2])
    assert aligner.received(1, turned) == [Block(1)]
    assert aligner.next_timeout is None


def test_an_aligned_savepoint_among_checkpoints_that_are_not() -> None:
    aligner = BarrierAligner([1, 2])
    assert aligner.received(1, loose(1)) == []
    assert aligner.received(1, barrier(2)) == [Block(1)]
    assert aligner.received(2, loose(1)) == [TakeSnapshot(loose(1))]
    assert aligner.received(2, barrier(2)) == [Unblock(), TakeSnapshot(barrier(2))]


def test_a_checkpoint_preceded_by_a_newer_one_never_blocks() -> None:
    aligner = BarrierAligner([1, 2])
    assert aligner.received(1, barrier(2)) == [Block(1)]
    assert aligner.received(2, barrier(1)) == []
    assert aligner.received(2, barrier(2)) == [Unblock(), TakeSnapshot(barrier(2))]


def test_the_coordinator_triggers_a_task_whose_channels_are_about_to_end() -> None:
    aligner = BarrierAligner([1, 2])
    assert aligner.received(COORDINATOR, barrier(1)) == []
    assert aligner.ended(1) == []
    assert aligner.ended(2) == [Unblock(), TakeSnapshot(barrier(1))]
    assert aligner.received(COORDINATOR, barrier(2)) == [Unblock(), TakeSnapshot(barrier(2))]


def test_aborting_a_checkpoint_leaves_the_others_in_progress() -> None:
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


def test_an_overtaken_checkpoint_stays_abandoned_when_the_newer_one_is_aborted() -> None:
    aligner = BarrierAligner([1, 2, 3])
    aligner.received(1, barrier(1))
    aligner.received(2, barrier(2))
    assert aligner.aborted(2) == [Unblock(), Abandon(2, "aborted")]
    assert aligner.received(3, barrier(1)) == [], "it would wait for channel 2, which never delivers it"
    assert not aligner.is_aligning


def test_an_ended_channel_is_not_awaited() -> None:
    aligner = BarrierAligner([1, 2])
    aligner.received(1, barrier(1))
    assert aligner.ended(2) == [Unblock(), TakeSnapshot(barrier(1))]
    assert aligner.received(1, barrier(2)) == [Unblock(), TakeSnapshot(barrier(2))]


def test_an_aborted_checkpoint_unblocks_the_channels_and_its_late_barriers_are_ignored() -> None:
    aligner = BarrierAligner([1, 2])
    aligner.received(1, barrier(1))
    assert aligner.aborted(1) == [Unblock(), Abandon(1, "aborted")]
    assert aligner.received(2, barrier(1)) == []
    assert aligner.aborted(1) == []


def test_a_completed_checkpoint_abandons_older_ones() -> None:
    """A producer was notified of an abort first and sends no barrier.

    Here the notification arrives too late, or never.
    """
    aligner = BarrierAligner([1, 2])
    assert aligner.received(1, loose(1)) == []
    assert aligner.received(1, loose(2)) == []
    assert aligner.received(2, loose(2)) == [Abandon(1, "overtaken by checkpoint 2"), TakeSnapshot(loose(2))]
    assert not aligner.is_aligning
    assert aligner.aborted(1) == []
    assert aligner.ended(2) == []


def test_aborting_a_checkpoint_that_blocks_nothing_unblocks_nothing() -> None:
    aligner = BarrierAligner([1, 2], [1, 2])
    assert aligner.received(1, barrier(1)) == [Block(1)]
    assert aligner.announced(timed(2)) == []
    assert aligner.aborted(2) == [Abandon(2, "aborted")], "channel 1 waits for checkpoint 1"
    assert aligner.received(2, barrier(1)) == [Unblock(), TakeSnapshot(barrier(1))]


@settings(max_examples=cases(500))
@given(st.data())
def test_in_any_order_each_snapshot_divides_every_channel_at_its_barrier(data: st.DataObject) -> None:
    """Several at a time, with aborts that reach producers and the task at different times: a producer that is notified
    before it has sent the barrier never sends it; the task is notified later.
    """
    kind = data.draw(st.sampled_from([barrier, loose, timed]))
    channels, numbers = range(data.draw(st.integers(1, 3))), range(1, 4)
    aborted = data.draw(st.just([]) | st.lists(st.sampled_from(numbers), unique=True))
    coming: list[list[int | Barrier | None]] = []
    for _ in channels:
        items: list[int | Barrier | None] = []
        for number in numbers:
            items += range(data.draw(st.integers(0, 1)))
            if number not in aborted or data.draw(st.booleans()):
                items.append(kind(number))
        ends = data.draw(st.booleans())
        coming.append([*items, None] if ends else items)
    here: list[list[int | Barrier | None]] = [[] for _ in channels]
    aligner = BarrierAligner(channels)
    blocked: set[int] = set()
    passed = [0 for _ in channels]  # the newest barrier that was taken; all of them after the end
    behind = [0 for _ in channels]  # the newest barrier behind which a record was taken
    taken, over = [0], set[int]()

    def apply(actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Block(channel):
                    blocked.add(channel)
                case Unblock():
                    blocked.clear()
                case TakeSnapshot(of):
                    number = of.checkpoint_id
                    assert number > taken[-1]
                    assert number not in over
                    assert min(passed) >= number, "a record before the barrier is not in the snapshot"
                    assert kind is loose or max(behind) < number, "a record behind the barrier is in the snapshot"
                    taken.append(number)
                case Abandon(number):
                    assert number not in taken
                    over.add(number)

    while True:
        ready = [c for c in channels if here[c] and c not in blocked]
        steps = [("arrive", c) for c in channels if coming[c]] + [("take", c) for c in ready]
        steps += [("notify", number) for number in aborted if number not in over]
        if not steps:
            break
        step, of = data.draw(st.sampled_from(steps))
        if step == "notify":
            over.add(of)
            apply(aligner.aborted(of))
            continue
        item = coming[of].pop(0) if step == "arrive" else here[of].pop(0)
        if step == "arrive":
            here[of].append(item)
            apply(aligner.announced(item) if isinstance(item, Barrier) else [])
        elif item is None:
            passed[of] = numbers.stop
            apply(aligner.ended(of))
        elif isinstance(item, Barrier):
            passed[of] = item.checkpoint_id
            apply(aligner.received(of, item))
        else:
            behind[of] = passed[of]
    assert not any(here), "deadlock"
    assert not aligner.is_aligning
    assert {*numbers} - set(aborted) <= {*taken, *over}
    assert aborted or taken == [0, *numbers]
