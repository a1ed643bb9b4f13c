"""Which transactions of a two-phase-commit sink are open, pre-committed, and due to be committed. Pure.

The operator calls the sink and records here what it has done. The rules:

- there is at most one open transaction; at a barrier it is pre-committed and kept under the checkpoint's id;
- a completed checkpoint makes everything that was pre-committed up to it due, in order. A transaction that could not be
  committed
  stays due with all behind it, until it is reported as committed;
- an aborted checkpoint, and a savepoint that does not stop the job, change nothing: the next completed one commits for
  them;
- a snapshot holds all that was pre-committed and not yet committed, and the open transaction. So whatever a restore
  finds as pre-committed was written before the barrier, and what was written after it is in a transaction that the
  restore finds as open, or does not find at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")

Element = tuple[str, Any]
"""One element of the state in a snapshot: its kind, and a transaction or the state of a writer."""


class ElementKind(StrEnum):
    """The kinds of elements in the state."""

    PRE_COMMITTED = "pre-committed"
    OPEN = "open"
    WRITER = "writer"


class Recovery(Struct, Generic[T], frozen=True):
    """What a restored subtask has to do; `known` and `known_states` must not be treated as leftovers."""

    commit: Sequence[T] = ()
    abort: Sequence[T] = ()
    states: Sequence[Any] = ()
    known: Sequence[T] = ()
    known_states: Sequence[Any] = ()


def recovery(own: Iterable[Element], shown: Iterable[Element]) -> Recovery[Any]:
    """Computes the recovery from this subtask's elements of the state, and all that were made visible to it."""
    mine, all_shown = list(own), list(shown)
    return Recovery(
        _of(mine, ElementKind.PRE_COMMITTED),
        _of(mine, ElementKind.OPEN),
        _of(mine, ElementKind.WRITER),
        _of(all_shown, ElementKind.PRE_COMMITTED) + _of(all_shown, ElementKind.OPEN),
        _of(all_shown, ElementKind.WRITER),
    )


def _of(elements: list[Element], kind: ElementKind) -> list[Any]:
    return [content for found, content in elements if found == kind]


class SinkTransactions(Generic[T]):
    """The transactions of one subtask."""

    def __init__(self) -> None:
        self._open: list[T] = []  # at most one
        self._pre_committed: list[tuple[int, T]] = []

    @property
    def open(self) -> list[T]:
        """The open transaction, if there is one."""
        return self._open

    def begun(self, transaction: T) -> None:
        """Records that a transaction was opened."""
        assert not self._open, "a transaction begins after the one before it was pre-committed"
        self._open = [transaction]

    def pre_committed(self, checkpoint_id: int) -> None:
        """Pre-commits the open transaction, if any, for this checkpoint and all later ones."""
        if self._open:  # none after the end of the input, whose transaction has the last id of all
            assert not self._pre_committed or self._pre_committed[-1][0] < checkpoint_id, "barriers come in order"
        self._pre_committed += [(checkpoint_id, transaction) for transaction in self._open]
        self._open = []

    def due(self, checkpoint_id: int) -> list[T]:
        """The transactions to commit when this checkpoint completes, in order."""
        return [transaction for number, transaction in self._pre_committed if number <= checkpoint_id]

    def committed(self, transaction: T) -> None:
        """Records that the first due transaction is committed."""
        assert self._pre_committed[0][1] is transaction, "transactions are committed in order"
        del self._pre_committed[0]

    def aborted(self) -> None:
        """Records that the open transaction was aborted."""
        self._open = []

    def elements(self) -> list[Element]:
        """The elements of a snapshot, taken after a barrier's transaction was pre-committed and the next begun."""
        return [
            *((ElementKind.PRE_COMMITTED.value, transaction) for _, transaction in self._pre_committed),
            *((ElementKind.OPEN.value, transaction) for transaction in self._open),
        ]
