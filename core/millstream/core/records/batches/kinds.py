"""The kinds of change that records describe: one byte for each record, the value of its `RowKind`.

A `Row` has its own kind. For other records, and for columns, a batch keeps the kinds beside them; None stands for
insertions only, which is what nearly all batches have, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from millstream.core.records.conversion.schemas import ConversionError
from millstream.core.row import Row, RowKind, kind_of, names_of, values_of

_KINDS = tuple(RowKind)  # by their values
_INSERT = RowKind.INSERT


class ChangedRecordError(ConversionError):
    """A record is a change that is not an insertion, and where it is needed only insertions can be represented."""


def own_kinds(rows: Sequence[Any]) -> bytes | None:
    """The kinds of records that are `Row`s; None if all are insertions, or the first is no `Row`."""
    if not rows or rows[0].__class__ is not Row:
        return None
    kinds = [kind_of(row) if row.__class__ is Row else _INSERT for row in rows]
    if kinds.count(_INSERT) == len(kinds):  # compares by identity: 15 ns for a row
        return None
    return bytes([kind.value for kind in kinds])


def without_kinds(rows: Iterable[Row], kinds: bytes) -> list[Row]:
    """The rows, with copies that are insertions in place of those that are not."""
    return [
        Row.of_names(names_of(row), values_of(row)) if kind else row for row, kind in zip(rows, kinds, strict=True)
    ]


def with_kinds(rows: list[Any], kinds: bytes) -> list[Any] | None:
    """New `Row`s, which get these kinds; None if the records are of another class, which has none."""
    if rows and rows[0].__class__ is not Row:
        return None
    for row, kind in zip(rows, kinds, strict=True):
        if kind:
            row.set_row_kind(_KINDS[kind])
    return rows


def refuse_changes(rows: Sequence[Any], kinds: bytes, what: str) -> None:
    """Raises a ChangedRecordError for the first record that is not an insertion, if there is one.

    `what` says where only insertions can be: "records of type LONG".
    """
    for number, kind in enumerate(kinds):
        if kind:
            error = ChangedRecordError(
                f"row {number} is of the kind {_KINDS[kind]}, which {what} cannot represent: {rows[number]!r:.200}; "
                "declare a row type, whose records are of the class Row",
                number,
            )
            error.record = rows[number]
            raise error


def joined_kinds(kinds: Sequence[bytes | None], lengths: Sequence[int]) -> bytes | None:
    """The kinds of the records of several batches in one; None if none of them has any."""
    if not any(kinds):
        return None
    return b"".join(bytes(length) if part is None else part for part, length in zip(kinds, lengths, strict=True))
