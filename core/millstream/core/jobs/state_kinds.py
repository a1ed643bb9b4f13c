"""The kinds of state. A separate module, because job graphs contain them and have to be cheap to import."""

from __future__ import annotations

from enum import Enum


class StateKind(Enum):
    """The kind of a state, which determines its columns and its redistribution."""

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
    IN_FLIGHT = "in-flight"

    @property
    def keyed(self) -> bool:
        """Whether its rows belong to keys, and therefore to key groups."""
        return self in KEYED


KEYED = frozenset(
    {StateKind.VALUE, StateKind.LIST, StateKind.MAP, StateKind.REDUCING, StateKind.AGGREGATING, StateKind.TIMERS}
)
OPERATOR = frozenset({StateKind.OPERATOR_LIST, StateKind.OPERATOR_UNION, StateKind.BROADCAST})
"""The kinds of state of functions that belong to a subtask, not to a key."""
