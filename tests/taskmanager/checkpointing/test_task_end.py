"""When a task may finish, under any order of what can happen to it."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from millstream.core.barriers import StopMode
from millstream.taskmanager.checkpointing.ending import TaskEnd


class TaskEndMachine(RuleBasedStateMachine):
    """Remembers all that happened, and derives from it what has to hold."""

    @initialize(awaits=st.booleans())
    def begin(self, awaits: bool) -> None:
        self.end = TaskEnd(awaits)
        self.awaits = awaits
        self.ended_before: int | None = None
        self.taken: dict[int, StopMode] = {}
        self.outcomes: dict[int, str] = {}
        self.owed: int | None = None
        self.failures = 0

    def stopping(self) -> int | None:
        stops = [n for n, mode in self.taken.items() if mode is not StopMode.NONE]
        return stops[-1] if stops and self.outcomes.get(stops[-1]) != "aborted" else None

    @precondition(lambda self: self.ended_before is None)
    @rule()
    def the_input_ends(self) -> None:
        self.ended_before = len(self.taken) + 1
        self.end.input_ended()

    @precondition(lambda self: self.stopping() is None)
    @rule(stop=st.sampled_from([StopMode.NONE, *StopMode]))
    def a_snapshot_is_taken(self, stop: StopMode) -> None:
        number = len(self.taken) + 1
        self.taken[number] = stop
        self.end.captured(number, stop)

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
                self.end.committed(number)
                self.owed, self.failures = None, 0
            case "failed":
                self.failures += 1
                assert self.end.commit_failed(number) == self.failures
                self.owed = number
            case _:
                self.end.aborted(number)

    @invariant()
    def what_must_hold(self) -> None:
        if not hasattr(self, "end"):
            return
        committed = {n for n, outcome in self.outcomes.items() if outcome == "committed"}
        assert self.end.is_suspended == (self.stopping() is not None)
        assert self.end.is_stopped == (self.stopping() in committed)
        holds_end = self.ended_before is not None and any(n >= self.ended_before for n in committed)
        allowed = not self.awaits or holds_end or self.end.is_stopped
        assert self.end.may_finish == (allowed and self.owed is None)


TestTaskEndMachine = TaskEndMachine.TestCase
TestTaskEndMachine.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
