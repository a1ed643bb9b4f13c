"""The messages of the enumerator and the readers of a hybrid source, and their state in checkpoints.

A source is named by its number in the chain. All messages between a source's own enumerator and readers travel
with that number, because a reader that was restored may be at an earlier source than the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class HybridSplit:
    """A split of one of the sources."""

    source: int
    split: Any

    @property
    def split_id(self) -> str | None:
        """That of the split, among those of all sources; None for one that has no name."""
        own = getattr(self.split, "split_id", None)
        return None if own is None else f"{self.source}:{own() if callable(own) else own}"

    @property
    def is_read(self) -> bool:
        """Whether it is a split at all: readers may keep other things beside theirs."""
        return bool(getattr(self.split, "is_read", True))


@dataclass(frozen=True, slots=True)
class HybridState:
    """The enumerator's: the source that it is at, and that one's own state."""

    source: int
    inner: Any


@dataclass(frozen=True, slots=True)
class Asked:
    """To the enumerator: a reader of this source requests a split."""

    source: int


@dataclass(frozen=True, slots=True)
class Ended:
    """To the enumerator: a reader has read all that it will get of this source; -1 when it has just started."""

    source: int


@dataclass(frozen=True, slots=True)
class Begin:
    """To a reader: continue with this source."""

    source: int


@dataclass(frozen=True, slots=True)
class NoMore:
    """To a reader: no further splits of this source come."""

    source: int


@dataclass(frozen=True, slots=True)
class Inner:
    """Either way: an event between a source's own enumerator and reader."""

    source: int
    event: Any
