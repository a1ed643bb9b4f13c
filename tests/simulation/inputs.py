"""What simulated jobs read, and what has to become of each record of it.

The input of a job is some splits of numbered records. A record has a key, and is counted by it where the job does that:
the count goes with the record to the sink. There a timer is set for some of the records, too, which emits a record of
its own when it fires. So all that a job has to write is known beforehand, but for the order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from itertools import count
from typing import NamedTuple

from msgspec import Struct

from millstream.core.keys.key_groups import key_group_of

KEY_GROUPS = 8
"""Few, each with a key of its own: so one that is lost or doubled shows."""
KEYS = tuple(next(k for k in count() if key_group_of(k, KEY_GROUPS) == group) for group in range(KEY_GROUPS))


class Kind(IntEnum):
    """How a record came about."""

    READ = 0
    TIMED = 1
    """Emitted by the timer of a record that was read."""


class Token(NamedTuple):
    """Stands for a record wherever it is."""

    kind: Kind
    split: int
    offset: int

    @property
    def key(self) -> int:
        return KEYS[(self.split * 3 + self.offset) % KEY_GROUPS]

    @property
    def has_timer(self) -> bool:
        return (self.split + self.offset) % 2 == 0


class Row(NamedTuple):
    """A record as channels carry it, with its number among those of its key; 0 when it is not counted."""

    token: Token
    count: int = 0


class Split(Struct, frozen=True):
    """Of the input, with the position of its reader."""

    number: int
    offset: int = 0

    @property
    def split_id(self) -> str:
        return str(self.number)


@dataclass(frozen=True, slots=True)
class Input:
    """Of one job."""

    splits: int
    length: int
    """Records of each split."""

    def whole(self) -> list[Split]:
        return [Split(number) for number in range(self.splits)]

    def read(self, split: Split, until: int | None = None) -> list[Token]:
        """The records from the split's position on."""
        end = self.length if until is None else until
        return [Token(Kind.READ, split.number, offset) for offset in range(split.offset, end)]

    def holds(self, token: Token) -> bool:
        return 0 <= token.split < self.splits and 0 <= token.offset < self.length

    def outputs(self, emitted: Iterator[Token] | list[Token], counted: bool) -> Iterator[Token]:
        """What comes of records that were read, in the end."""
        for token in emitted:
            yield token
            if counted and token.has_timer:
                yield token._replace(kind=Kind.TIMED)


@cache
def key_group(key: int, max_parallelism: int) -> int:
    return key_group_of(key, max_parallelism)
