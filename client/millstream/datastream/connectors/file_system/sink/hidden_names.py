"""What the hidden files of a file sink are called, and who may remove them. Pure.

A hidden file is `.<visible name>.<operator>-<subtask>-<attempt>.inprogress`, where the operator is a hash of the job's
and the operator's ids: the name alone identifies the owner of a file, whatever else shares the folder. One that a
savepoint may hold ends in `-<savepoint>.savepoint`: it must not be removed unless that savepoint failed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from millstream.core.jobs.ids import stable_id
from millstream.datastream.functions import RuntimeContext

_HIDDEN = re.compile(r"\..+\.([0-9a-f]{16})-([0-9]+)-([0-9]+)(?:\.inprogress|-([0-9]+)\.savepoint)")


def savepoint_of(name: str) -> int | None:
    """The savepoint that may hold the hidden file; None when it is no such file."""
    found = _HIDDEN.fullmatch(name)
    return None if found is None or found[4] is None else int(found[4])


@dataclass(frozen=True, slots=True)
class Owner:
    """One attempt of one subtask of a job's sink."""

    operator: str
    subtask: int
    attempt: int

    @staticmethod
    def of(context: RuntimeContext) -> Owner:
        """The task that a sink is opened in."""
        operator = stable_id(context.get_job_id(), context.get_operator_unique_id())[:16]
        return Owner(operator, context.get_index_of_this_subtask(), context.get_attempt_number())

    @staticmethod
    def from_name(name: str) -> Owner | None:
        """Whose hidden file this is; None when it is none."""
        found = _HIDDEN.fullmatch(name)
        return None if found is None else Owner(found[1], int(found[2]), int(found[3]))

    def hide(self, name: str) -> str:
        """The hidden name of a part."""
        return f".{name}.{self.operator}-{self.subtask}-{self.attempt}.inprogress"

    def keep(self, name: str, savepoint: int) -> str:
        """The hidden name of a part that a savepoint may hold."""
        return f".{name}.{self.operator}-{self.subtask}-{self.attempt}-{savepoint}.savepoint"

    def inherits(self, other: Owner, parallelism: int) -> bool:
        """Whether this attempt cleans up after another: an older one of its subtask, or one of a subtask that is gone.

        Never after a newer one: an attempt that is slow to notice that it was replaced must not harm its successor.
        """
        if other.operator != self.operator:
            return False
        if other.subtask == self.subtask:
            return other.attempt < self.attempt
        return self.subtask == 0 and other.subtask >= parallelism
