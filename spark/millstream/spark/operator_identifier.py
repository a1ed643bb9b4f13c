"""Which operator is meant: by the uid that the program gave it, or by its id."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.core.jobs.ids import OperatorId, stable_id


@dataclass(frozen=True)
class OperatorIdentifier:
    """Made by `for_uid` and `for_uid_hash`; wherever one is wanted, a uid will do."""

    operator_id: OperatorId
    uid: str | None = None

    @staticmethod
    def for_uid(uid: str) -> OperatorIdentifier:
        """The operator on which the program calls `.uid(uid)`."""
        return OperatorIdentifier(OperatorId(stable_id("uid", uid)), uid)

    @staticmethod
    def for_uid_hash(uid_hash: str) -> OperatorIdentifier:
        """The operator of this id: given by `.set_uid_hash`, or derived for one without a uid."""
        return OperatorIdentifier(OperatorId(uid_hash))

    @staticmethod
    def of(given: OperatorIdentifier | str) -> OperatorIdentifier:
        """What a caller gave."""
        return OperatorIdentifier.for_uid(given) if isinstance(given, str) else given

    @property
    def name(self) -> str:
        """In messages, and of the folder of its files."""
        return self.uid or self.operator_id
