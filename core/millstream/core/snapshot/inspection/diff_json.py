"""The difference of two snapshots as JSON, and what is shown of entries: for the command line and the REST API."""

from __future__ import annotations

import pickle
from typing import Any

from msgspec import Struct

from millstream.core.pickling import reading_state
from millstream.core.row import Row
from millstream.core.snapshot.inspection.diff import ABSENT, Entry, SnapshotDiff, StateDiff
from millstream.core.snapshot.inspection.readable import to_json
from millstream.core.snapshot.tables.columns import Pickled


class Shown(Struct, frozen=True):
    """Formats entries: their values, with pickled ones loaded if requested."""

    values: bool = True
    unpickle: bool = False

    def value(self, value: Any) -> Any:
        """A value as it is to be shown."""
        return _loaded(value) if self.unpickle else value


def _loaded(value: Any) -> Any:
    """Loads pickled values at any depth; returns the reason for those that cannot be loaded."""
    match value:
        case Pickled(data):
            try:
                with reading_state():
                    return pickle.loads(data)
            except Exception as error:
                return f"<pickled, {len(data)} bytes: {type(error).__name__}: {error}>"
        case Row():
            return Row.of_names(value.get_fields_names(), [_loaded(item) for item in value])
        case list():
            return [_loaded(item) for item in value]
        case tuple():
            return tuple(map(_loaded, value))
        case dict():
            return {_loaded(key): _loaded(item) for key, item in value.items()}
    return value


def differences_json(found: SnapshotDiff, shown: Shown) -> dict[str, Any]:
    """Returns the complete difference as JSON, including equal states."""
    return {
        "equal": found.equal,
        "properties": list(found.properties),
        "operators": [
            {
                "uid": operator.operator.uid,
                "id": operator.operator.operator_id,
                "name": operator.operator.name,
                "in": _in(operator.first, operator.second),
                "equal": operator.equal,
                "states": [_state_json(state, shown) for state in operator.states],
            }
            for operator in found.operators
        ],
    }


def _state_json(state: StateDiff, shown: Shown) -> dict[str, Any]:
    return {
        "name": state.name,
        "in": _in(state.first, state.second),
        "equal": state.equal,
        "types": state.types or None,
        "added": state.added,
        "removed": state.removed,
        "changed": state.changed,
        "entries": [_entry_json(entry, shown) for entry in state.entries],
    }


def _entry_json(entry: Entry, shown: Shown) -> dict[str, Any]:
    sides = {"old": entry.old, "new": entry.new} if shown.values else {}
    return {
        "sign": entry.sign,
        "path": [to_json(shown.value(part)) for part in entry.path],
        **{name: to_json(shown.value(side)) for name, side in sides.items() if side is not ABSENT},
    }


def _in(first: object, second: object) -> str:
    return "second" if first is None else "first" if second is None else "both"
