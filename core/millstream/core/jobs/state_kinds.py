"""The kinds of state. Apart from the rest of snapshots, because job graphs name them and have to be light to import."""

from __future__ import annotations

from enum import Enum


class StateKind(Enum):
    """What a state is, and so which columns it has and how it is redistributed."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    REDUCING = "reducing"
    AGGREGATING = "aggregating"
    TIMERS = "timers"
    OPERATOR_LIST = "operator-list"
    OPERATOR_UNION = "operator-union"
    BROADCAST = "broadcast"
    SPLITS = "splits"
    SINK_TRANSACTIONS = "sink-transactions"
    WINDOW_CONTENTS = "window-contents"
    IN_FLIGHT = "in-flight"

    @property
    def keyed(self) -> bool:
        """Whether its rows belong to keys, and so to key groups."""
        return self in KEYED


KEYED = frozenset(
    {
        StateKind.VALUE, StateKind.LIST, StateKind.MAP, StateKind.REDUCING, StateKind.AGGREGATING, StateKind.TIMERS,
        StateKind.WINDOW_CONTENTS,
    }
)  # fmt: skip
OPERATOR = frozenset({StateKind.OPERATOR_LIST, StateKind.OPERATOR_UNION, StateKind.BROADCAST})
"""What functions keep that belongs to a subtask, not to a key."""
