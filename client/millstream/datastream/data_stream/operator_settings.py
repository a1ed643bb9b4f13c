"""What can be set on an operator: its name, uid, parallelism, where it runs and with whom it is chained.

Shared by streams and sinks. A stream that is no operator's output (a keyed or partitioned stream, a union) refuses.
"""

from __future__ import annotations

import datetime
import re
from typing import Any, Self

from millstream.core.errors import InvalidProgramError
from millstream.core.keys.key_groups import HIGHEST_MAX_PARALLELISM
from millstream.datastream.graph.transformations import ChainingStrategy, OperatorTransformation, Transformation
from millstream.datastream.slot_sharing_group import SlotSharingGroup


def checked_parallelism(method: str, parallelism: Any) -> int:
    """A whole number of at least 1."""
    if isinstance(parallelism, bool) or not isinstance(parallelism, int) or parallelism < 1:
        raise InvalidProgramError(f"{method}: a parallelism is a whole number of at least 1, not {parallelism!r}")
    return parallelism


def checked_max_parallelism(method: str, max_parallelism: Any) -> int:
    """A parallelism within the number of key groups that there can be."""
    checked = checked_parallelism(method, max_parallelism)
    if checked > HIGHEST_MAX_PARALLELISM:
        raise InvalidProgramError(f"{method}: {checked} is more than the highest, {HIGHEST_MAX_PARALLELISM}")
    return checked


def checked_buffer_timeout(method: str, timeout: Any) -> float:
    """Seconds from milliseconds or a timedelta; negative (-1): only when full."""
    if isinstance(timeout, datetime.timedelta):
        return timeout.total_seconds()
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or (timeout < 0 and timeout != -1):
        raise InvalidProgramError(
            f"{method}: a buffer timeout is a number of milliseconds, 0 to flush after every batch, or -1 to flush "
            f"only full buffers; not {timeout!r}"
        )
    return -1.0 if timeout < 0 else timeout / 1000


class OperatorSettings:
    """The setters, each of which returns the object that it was called on."""

    def __init__(self, transformation: Transformation) -> None:
        self._transformation = transformation

    def _operator(self, method: str) -> OperatorTransformation:
        if isinstance(self._transformation, OperatorTransformation):
            return self._transformation
        raise InvalidProgramError(
            f"{method}() applies to an operator, and this stream is only a way of reading others (a key_by, a "
            "partitioning, a union or a side output); call it on the stream before or after"
        )

    def get_name(self) -> str:
        """The operator's name."""
        return self._operator("get_name").name

    def name(self, name: str) -> Self:
        """Sets the name of the operator, as plans, logs and metrics show it: `name`.

        For example:

            lines.map(len).name("Length")
        """
        self._operator("name").name = str(name)
        return self

    def uid(self, uid: str) -> Self:
        """Sets `uid`, the id of the operator's state in snapshots, which remains the same when the program changes.

        Raises `InvalidProgramError` for an empty text.

        For example:

            words.reduce(longest).uid("longest-word")
        """
        if not isinstance(uid, str) or not uid:
            raise InvalidProgramError(f"uid(): expected a text that is not empty, got {uid!r}")
        self._operator("uid").uid = uid
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Sets the operator's id in snapshots to `uid_hash`, 32 hexadecimal digits, to take over its state.

        `millstream state ls` shows the ids. For an operator that had no uid when the snapshot was taken.

        Raises `InvalidProgramError` for anything else.

            words.reduce(longest).set_uid_hash("0123456789abcdef0123456789abcdef")
        """
        if not isinstance(uid_hash, str) or not re.fullmatch("[0-9a-fA-F]{32}", uid_hash):
            raise InvalidProgramError(f"set_uid_hash: expected an id of 32 hexadecimal digits, got {uid_hash!r}")
        self._operator("set_uid_hash").uid_hash = uid_hash.lower()
        return self

    def set_description(self, description: str) -> Self:
        """Sets a longer `description` of the operator, which plans and REST show.

        For example:

            lines.map(len).set_description("The length of each line")
        """
        self._operator("set_description").description = str(description)
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Sets `parallelism`: the number of subtasks that run the operator.

        Raises `InvalidProgramError` for a number below 1, and for an operator that cannot run in parallel.

        For example:

            lines.map(slow).set_parallelism(8)
        """
        operator = self._operator("set_parallelism")
        checked = checked_parallelism("set_parallelism", parallelism)
        if operator.non_parallel and checked != 1:
            raise InvalidProgramError(f"operator '{operator.full_name}' cannot run in parallel: its parallelism is 1")
        operator.parallelism = checked
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Sets `max_parallelism`: the operator's number of key groups, and the limit of later rescaling.

        For example:

            words.reduce(longest).set_max_parallelism(720)
        """
        checked = checked_max_parallelism("set_max_parallelism", max_parallelism)
        self._operator("set_max_parallelism").max_parallelism = checked
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        """Assigns the operator to `slot_sharing_group`, a name or a SlotSharingGroup with resources.

        Only tasks of one group share slots.

        Raises `InvalidProgramError` for anything else.

            lines.map(slow).slot_sharing_group("slow")
        """
        operator = self._operator("slot_sharing_group")
        if isinstance(slot_sharing_group, SlotSharingGroup):
            operator.slot_sharing_group, operator.group = slot_sharing_group.get_name(), slot_sharing_group
            return self
        if not isinstance(slot_sharing_group, str) or not slot_sharing_group:
            raise InvalidProgramError(
                f"slot_sharing_group(): expected a SlotSharingGroup or its name, got {slot_sharing_group!r}"
            )
        operator.slot_sharing_group, operator.group = slot_sharing_group, None
        return self

    def disable_chaining(self) -> Self:
        """Gives the operator a task of its own.

        For example:

            lines.map(slow).disable_chaining()
        """
        self._operator("disable_chaining").chaining = ChainingStrategy.NEVER
        return self

    def __reduce__(self) -> Any:
        raise TypeError(f"a {type(self).__name__} exists only while the program is being built; no function can use it")
