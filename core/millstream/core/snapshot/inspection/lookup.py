"""Reads rows of a state: the first ones, or those of one key, which is found by its key group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from millstream.core.keys.key_groups import key_group_of
from millstream.core.snapshot.errors import SnapshotError
from millstream.core.snapshot.inspection.literals import KeyLiteralError, keys_from_text
from millstream.core.snapshot.inspection.opened import OpenedSnapshot
from millstream.core.snapshot.metadata.model import OperatorSnapshot, StateFile, StateSnapshot, TypeJson
from millstream.core.snapshot.metadata.types_json import PICKLED_JSON, compared, holds_pickled, type_from_json
from millstream.core.snapshot.tables.columns import Pickled, dumps, from_array
from millstream.core.snapshot.tables.restore import Rows, read_rows
from millstream.core.snapshot.tables.table import KEY

if TYPE_CHECKING:
    import pyarrow as pa

_SCALARS = (bool, int, float, str, NoneType)


def rows_of(
    snapshot: OpenedSnapshot, state: StateSnapshot, limit: int, unpickle: bool = False, offset: int = 0
) -> Iterator[tuple[StateFile, Rows]]:
    """Rows of a state behind the first `offset`, file by file; files that hold only those before are not read.

    With `unpickle`, pickled values are loaded, which runs their code.
    """
    files = snapshot.files(state)
    while files and files[0].rows <= offset:
        offset -= files.pop(0).rows
    for file, table in snapshot.tables(replace(state, files=tuple(files))):
        part = table.slice(offset, limit)
        offset = 0
        limit -= part.num_rows
        yield file, read_rows(part, state, where=snapshot.where(file), unpickle=unpickle)
        if limit <= 0:
            return


def rows_of_key(
    snapshot: OpenedSnapshot, operator: OperatorSnapshot, state: StateSnapshot, text: str, unpickle: bool = False
) -> Iterator[tuple[StateFile, Rows]]:
    """The rows of the key that the text means; only its key group is decoded, and only its own rows are unpickled.

    Pickled keys are compared as bytes unless `unpickle` allows to load those of the key group.
    """
    if state.key_type is None:
        raise SnapshotError(snapshot.location, f"the state '{state.name}' is {state.kind.value} state: it has no keys")
    part = compared(state.key_type) or _all_of_it
    for key in map(part, keys_from_text(text, state.key_type)):
        for file, table in snapshot.tables(state, key_group_of(key, operator.max_parallelism)):
            where = snapshot.where(file)
            chosen = _rows_with(table, state.key_type, key, where, unpickle)
            if chosen:
                yield file, read_rows(table.take(chosen), state, where=where, unpickle=unpickle)


def _rows_with(table: pa.Table, type: TypeJson, key: Any, where: str, unpickle: bool) -> Sequence[int]:
    pickled = holds_pickled(type) and not unpickle
    if pickled and (type != PICKLED_JSON or not isinstance(key, _SCALARS)):
        raise KeyLiteralError("the keys are pickled: only --unpickle can look for one that has parts")
    found = from_array(table.column(KEY), type_from_json(type), where, unpickle=unpickle)
    if pickled:
        wanted = {Pickled(dumps(same)) for same in _spellings(key)}
        return [row for row, item in enumerate(found) if item in wanted]
    part = compared(type) or _all_of_it
    return [row for row, item in enumerate(found) if part(item) == key]


def _all_of_it(key: Any) -> Any:
    return key


def _spellings(key: Any) -> list[Any]:
    """Returns the plain Python values that are equal to this key, as `1`, `1.0` and `True`."""
    if isinstance(key, bool | int | float) and -(1 << 63) <= key < 1 << 63:
        return [kind(key) for kind in (bool, int, float) if kind(key) == key]
    return [key]
