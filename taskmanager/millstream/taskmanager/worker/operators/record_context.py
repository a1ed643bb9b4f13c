"""What a process function can ask about the record at hand, with and without a key. One object serves all records."""

from __future__ import annotations

from typing import Any

from millstream.datastream.functions import Context, KeyedContext


class RecordContext(Context):
    """The context of a record without a key."""

    current: int | None = None

    def timestamp(self) -> int | None:
        """The record's event timestamp, or None."""
        return self.current


class KeyedRecordContext(KeyedContext):
    """The context of a record with a key."""

    current: int | None = None
    key: Any = None

    def timestamp(self) -> int | None:
        """The record's event timestamp, or None."""
        return self.current

    def get_current_key(self) -> Any:
        """The record's key."""
        return self.key
