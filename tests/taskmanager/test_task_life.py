"""When a task may finish, for any order of events; and which transitions of its lifecycle are legal."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from thoroughness import cases

from millstream.core.jobs.barriers import StopMode
from millstream.taskmanager.worker.tasks.task_life import TRANSITIONS, Phase, TaskLife


class TaskLifeMachine(RuleBasedStateMachine):
    """Records all events, and derives the expected state from them."""

    @initialize(awaits=st.booleans())
    def begin(self, awaits: bool) -> None:
        self.life = TaskLife(awaits)
        self.life.move_to(Phase.RUNNING)
        self.awaits = awaits
        self.ended_before: int | None = None
        self.ended_stopped = False
        self.taken: dict[int, StopMode] = {}
        self.outcomes: dict[int, str] = {}
        self.owed: int | None = None
        self.failures = 0

    def stopping(self) -> int | None:
        """The savepoint that stops the job, of those that were taken before the end."""
        before = self.ended_before or len(self.taken) + 1
        stops = [n for n, mode in self.taken.items() if mode is not StopMode.NONE and n < before]
        return stops[-1] if stops and self.outcomes.get(stops[-1]) != "aborted" else None

    def is_stopped(self) -> bool:
        return self.outcomes.get(self.stopping() or 0) == "committed"

    @precondition(lambda self: self.ended_before is None and (self.stopping() is None or self.is_stopped()))
    @rule()
    def the_input_ends(self) -> None:
        self.ended_stopped = self.is_stopped()
        self.ended_before = len(self.taken) + 1
        self.life.ended()

    @precondition(lambda self: self.stopping() is None or self.ended_before is not None)
    @rule(stop=st.sampled_from([StopMode.NONE, *StopMode]))
    def a_snapshot_is_taken(self, stop: StopMode) -> None:
        number = len(self.taken) + 1
        self.taken[number] = stop
        self.life.captured(number, stop)

    @rule(data=st.data(), outcome=st.sampled_from(["committed", "failed", "aborted"]))
    def a_checkpoint_ends(self, data: st.DataObject, outcome: str) -> None:
        completed = max((n for n, o in self.outcomes.items() if o != "aborted"), default=0)
        open_ones = [n for n in self.taken if n > completed and n not in self.outcomes]
        if outcome != "aborted" and self.owed is not None:
            open_ones.append(self.owed)
        if not open_ones:
            return
        number = data.draw(st.sampled_from(open_ones))
        self.outcomes[number] = outcome
        match outcome:
            case "committed":
                self.life.committed(number)
                self.owed, self.failures = None, 0
            case "failed":
                self.failures += 1
                assert self.life.commit_failed(number) == self.failures
                self.owed = number
            case _:
                self.life.aborted(number)

    @invariant()
    def what_must_hold(self) -> None:
        if not hasattr(self, "life"):
            return
        if self.ended_before is not None:
            assert self.life.phase is Phase.ENDED
        elif self.stopping() is None:
            assert self.life.phase is Phase.RUNNING
        else:
            assert self.life.phase is (Phase.STOPPED if self.is_stopped() else Phase.SUSPENDED)
        committed = {n for n, outcome in self.outcomes.items() if outcome == "committed"}
        holds_end = self.ended_before is not None and any(n >= self.ended_before for n in committed)
        allowed = not self.awaits or holds_end or self.ended_stopped
        assert self.life.may_finish == (allowed and self.owed is None)


TestTaskLifeMachine = TaskLifeMachine.TestCase
TestTaskLifeMachine.settings = settings(max_examples=cases(200), stateful_step_count=30)


def test_only_the_savepoint_that_stops_the_job_stops_the_task() -> None:
    life = TaskLife(awaits_checkpoint=True)
    life.move_to(Phase.RUNNING)
    life.captured(1, StopMode.NONE)
    life.captured(2, StopMode.SUSPEND)
    life.committed(1)
    assert life.phase is Phase.SUSPENDED
    life.committed(2)
    assert life.phase is Phase.STOPPED


def test_only_the_abort_of_the_savepoint_that_stops_the_job_lets_the_task_continue_and_once() -> None:
    life = TaskLife(awaits_checkpoint=True)
    life.move_to(Phase.RUNNING)
    life.captured(1, StopMode.NONE)
    life.captured(2, StopMode.SUSPEND)
    life.aborted(1)
    assert life.phase is Phase.SUSPENDED
    for _ in range(2):
        life.aborted(2)
        assert life.phase is Phase.RUNNING


def test_a_task_is_open_until_it_is_closed() -> None:
    life = TaskLife(awaits_checkpoint=False)
    assert not life.is_open
    assert not life.has_finished_operators
    for phase in (Phase.RUNNING, Phase.SUSPENDED, Phase.STOPPED, Phase.ENDED):
        life.move_to(phase)
        assert life.is_open
    life.move_to(Phase.CLOSED)
    assert not life.is_open


def test_every_phase_has_its_transitions_and_leads_to_closed() -> None:
    assert TRANSITIONS.keys() == set(Phase)
    assert all(Phase.CLOSED in following for phase, following in TRANSITIONS.items() if phase is not Phase.CLOSED)


@pytest.mark.parametrize("phase", [Phase.ENDED, Phase.STOPPED, Phase.SUSPENDED, Phase.BUILT])
def test_an_unlisted_transition_is_a_bug(phase: Phase) -> None:
    life = TaskLife(False)
    with pytest.raises(AssertionError, match=f"a task that is built cannot become {phase.value}"):
        life.move_to(phase)
