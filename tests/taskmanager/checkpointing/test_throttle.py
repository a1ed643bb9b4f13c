"""Writers of snapshots take a share of a core while tasks are busy, and are not limited otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.taskmanager.worker.checkpointing.throttle import FREE, LONGEST, SHARE, Throttle


class Machine:
    """Clocks that advance only by work and sleep."""

    def __init__(self) -> None:
        self.now = self.own = self.tasks = 0.0
        self.pauses: list[float] = []
        self.throttle = Throttle(lambda: self.now, lambda: self.own, lambda: self.tasks, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def work(self, seconds: float, tasks: float = 0.5) -> None:
        """A piece that takes so much of this thread, while tasks use a part of a core."""
        with self.throttle.work():
            self.now += seconds * 2
            self.own += seconds
            self.tasks += seconds * 2 * tasks


@given(st.lists(st.floats(0.0001, SHARE * LONGEST), min_size=1, max_size=50))
def test_over_time_writers_take_their_share_and_the_free_part(pieces: list[float]) -> None:
    machine = Machine()
    for piece in pieces:
        machine.work(piece)
    assert machine.own <= FREE + machine.now * SHARE + 1e-9
    if machine.pauses:
        assert machine.own >= FREE + machine.now * SHARE - max(pieces)


def test_small_states_are_written_without_a_pause() -> None:
    machine = Machine()
    for _ in range(5):
        machine.work(FREE / 10)
    assert machine.pauses == []


def test_a_large_piece_is_paid_for_in_several_pauses() -> None:
    machine = Machine()
    machine.work(FREE + SHARE)
    machine.work(0.0001)
    assert machine.pauses == [LONGEST, LONGEST]


def test_the_free_budget_is_refilled_over_time() -> None:
    machine = Machine()
    machine.work(FREE)
    machine.now += FREE / SHARE
    machine.work(FREE)
    assert machine.pauses == []
    machine.work(FREE)
    assert machine.pauses != []


def test_work_while_tasks_are_idle_is_free() -> None:
    machine = Machine()
    machine.work(1.0, tasks=0.01)
    machine.work(FREE)
    assert machine.pauses == []
    machine.work(0.001)
    assert machine.pauses != []


def test_work_that_fails_is_not_delayed() -> None:
    machine = Machine()

    def fail() -> None:
        with machine.throttle.work():
            machine.own += 1.0
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        fail()
    assert machine.pauses == []


def test_the_clock_of_tasks_is_that_of_the_main_thread() -> None:
    pauses: list[float] = []
    # No time passes: on a busy machine, the tasks' share of it would be chance.
    throttle = Throttle(monotonic=lambda: 0.0, sleep=pauses.append, own_time=iter([0.0, 10.0]).__next__)
    with throttle.work():
        sum(range(2_000_000))  # on the main thread, where a worker's tasks run
    assert len(pauses) == 1
