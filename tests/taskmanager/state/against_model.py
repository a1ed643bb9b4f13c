"""State of a backend compared with a model: captured at any time, every capture checked when it ends, and restored."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from state_rig import BACKENDS, GROUPS, Keyed, contents, decoded, state_of

from millstream.core.keys.key_groups import key_group_of
from millstream.taskmanager.worker.state.capturing.captured import CapturedKeyedState

Model = dict[str, dict[Any, Any]]
"""The contents of each entry of each state."""


class AgainstModel(RuleBasedStateMachine):
    """Subclasses define the kinds of state and the operations: `declare()` requests the states, `model()` is a copy of
    the expected contents, and `adopt(model)` replaces the expected contents.
    """

    backend = "hashmap, incremental"
    declare: Any
    model: Any
    adopt: Any

    def __init__(self) -> None:
        super().__init__()
        self.keyed = Keyed(BACKENDS[self.backend])
        self.captures: list[tuple[CapturedKeyedState, Model]] = []
        self.completed: dict[int, Model] = {}
        self.ids = 0
        self.declare()

    def key_of(self, entry: Any) -> Any:
        return entry

    def restorable(self, name: str) -> bool:
        return True

    def check(self, taken: CapturedKeyedState, model: Model) -> None:
        """The capture equals the state at the time when it was taken."""
        for name, expected in model.items():
            assert contents(state_of(taken, name), range(GROUPS)) == expected

    @rule(incremental=st.booleans())
    def capture(self, incremental: bool) -> None:
        self.ids += 1
        taken, model = self.keyed.backend.capture(self.ids, incremental), self.model()
        self.captures.append((taken, model))
        for state in taken.states:
            name = state.declaration.name
            if state.base is not None and state.dirty_groups is not None and name in model:
                before, now = self.completed[state.base][name], model[name]
                assert self._untouched(now, state.dirty_groups) == self._untouched(before, state.dirty_groups)

    def _untouched(self, entries: dict[Any, Any], dirty: Collection[int]) -> dict[Any, Any]:
        """What has to equal the base checkpoint."""
        kept = {entry: value for entry, value in entries.items() if value not in ([], {})}
        return {entry: v for entry, v in kept.items() if key_group_of(self.key_of(entry), GROUPS) not in dirty}

    @precondition(lambda self: self.captures)
    @rule(data=st.data())
    def complete(self, data: Any) -> None:
        taken, model = self.captures.pop(data.draw(st.integers(0, len(self.captures) - 1)))
        self.check(taken, model)
        taken.release()
        self.keyed.backend.confirm(taken.checkpoint_id)
        self.completed[taken.checkpoint_id] = model

    @precondition(lambda self: self.captures)
    @rule(data=st.data())
    def restore(self, data: Any) -> None:
        """Another subtask, which owns everything, is restored from a capture."""
        taken, model = self.captures[data.draw(st.integers(0, len(self.captures) - 1))]
        self.teardown()
        self.keyed = self.keyed.again()
        parts = [state for state in taken.states if self.restorable(state.declaration.name)]
        self.keyed.backend.restore([decoded(state, range(GROUPS)) for state in parts])
        self.captures, self.completed = [], {}
        self.adopt(model)
        self.declare()

    def teardown(self) -> None:
        for taken, model in self.captures:
            self.check(taken, model)
