"""Files that checkpoints share exist exactly as long as a checkpoint references them."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from millstream.core.snapshot import SharedFileRegistry, SnapshotError

FILES = st.sets(st.sampled_from([f"s3://b/shared/{c}" for c in "abcdefgh"]))


class Registry(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.registry = SharedFileRegistry()
        self.retained: dict[int, set[str]] = {}
        self.stored: set[str] = set()
        self.next = 1

    @rule(files=FILES)
    def complete(self, files: set[str]) -> None:
        self.stored |= files
        self.registry.register(self.next, files)
        self.registry.register(self.next, files)
        self.retained[self.next] = files
        self.next += 1

    @rule(data=st.data())
    def subsume(self, data: st.DataObject) -> None:
        known = st.sampled_from([*self.retained, 0])
        checkpoint = data.draw(known)
        for path in self.registry.unregister(checkpoint):
            self.stored.remove(path)
        self.retained.pop(checkpoint, None)

    @rule(files=FILES)
    def abort(self, files: set[str]) -> None:
        fresh = files - self.stored
        self.stored |= fresh
        self.stored -= set(self.registry.unused(fresh | files))

    @invariant()
    def exactly_what_is_referenced_is_stored(self) -> None:
        self.registry.validate()
        assert self.stored == set().union(*self.retained.values())
        assert self.registry.checkpoints == tuple(sorted(self.retained))
        for path in self.stored:
            assert self.registry.references(path) == sum(path in files for files in self.retained.values())


TestRegistry = Registry.TestCase


def test_a_checkpoint_does_not_change() -> None:
    registry = SharedFileRegistry()
    registry.register(1, ["a"])
    with pytest.raises(SnapshotError, match="checkpoint 1: is registered already"):
        registry.register(1, ["b"])
    assert registry.unregister(1) == ("a",)
    assert registry.unregister(1) == ()
