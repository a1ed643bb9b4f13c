"""Selects the restored rows of a subtask: those in its own key groups, with their remaining time-to-live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from msgspec.structs import replace

from millstream.core.snapshot.errors import IncompatibleStateError
from millstream.core.snapshot.metadata.model import TtlSettings
from millstream.core.snapshot.tables.restore import Rows
from millstream.taskmanager.worker.state.capturing.captured import RestoredFile, StateDeclaration
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex


def owned_rows(rows: Rows, index: KeyGroupIndex) -> Sequence[int]:
    """The numbers of the rows in the key groups that the subtask owns; a range if it owns all."""
    groups = rows.key_groups or index.column(rows.keys).tolist()
    owned = index.owned
    if not groups or (min(groups) in owned and max(groups) in owned):
        return range(len(rows.content))
    return [row for row, group in enumerate(groups) if group in owned]


def refuse_native(declaration: StateDeclaration, file: RestoredFile) -> NoReturn:
    """Refuses a native file, for a backend without a format of its own."""
    reason = f"holds state '{declaration.name}' in the format of the state backend {file.format}"
    raise IncompatibleStateError(file.where, f"{reason}: start with that one, or from a savepoint, which all can read")


def stamped(rows: Rows, stored_ttl: TtlSettings | None, ttl_ms: int, now: int) -> Rows:
    """The rows as a state with a time-to-live keeps them, each value in a pair behind its deadline.

    The lifetime of state that had no time-to-live starts now; a different time-to-live applies from the last access.
    """
    deadlines = deadlines_of(rows.expires_at, len(rows.content), stored_ttl, ttl_ms, now)
    return replace(rows, content=list(zip(deadlines, rows.content, strict=True)), expires_at=None)


def deadlines_of(
    expires_at: Sequence[int | None] | None, count: int, stored_ttl: TtlSettings | None, ttl_ms: int, now: int
) -> list[int]:
    """When so many restored rows expire, as `stamped` says; `expires_at` is what was stored."""
    fresh = now + ttl_ms
    if expires_at is None:
        return [fresh] * count
    longer = 0 if stored_ttl is None else ttl_ms - stored_ttl.ttl_ms
    return [fresh if deadline is None else deadline + longer for deadline in expires_at]
